package a2aagent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/store"
)

// A function that waits in Ask when the server stops continues in the next server, and the task is
// the same as without a restart.
func TestQuestionsOutliveTheServer(t *testing.T) {
	a := &agent.Agent{Card: agent.Card{Name: "scribe"}, Run: func(ctx context.Context, r *agent.Run) error {
		if err := r.Progress(ctx, agent.Progress{Message: "drafting"}); err != nil {
			return err
		}
		if err := r.Say(ctx, "A draft of "+r.Text()+". "); err != nil {
			return err
		}
		ok, err := r.Confirm(ctx, "Write it?")
		if err != nil || !ok {
			return err
		}
		where, err := r.Ask(ctx, &agent.Question{Text: "Where?", Options: []agent.Option{{ID: "a", Name: "here"}, {ID: "b", Name: "there"}}})
		if err != nil {
			return err
		}
		if err := r.Emit(ctx, agent.Text(r.Text()).Named("note.md")); err != nil {
			return err
		}
		return r.Say(ctx, fmt.Sprint("Written to ", where.Option, "."))
	}}
	talk := func(restarts bool) *a2a.Task {
		kept := store.NewMemory(store.Limits{})
		t.Cleanup(func() { _ = kept.Close() })
		serve := func() *a2a.Client {
			s := a2a.NewServer(a2aagent.Card(&a.Card), a2aagent.New(a), &a2a.ServerOptions{Store: kept})
			if err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			return connect(t, s)
		}
		c := serve()
		got, err := c.Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("plants"))})
		for _, said := range []string{"Yes", "there"} {
			if err != nil {
				t.Fatal(err)
			}
			if restarts {
				c = serve() // the first server is not closed, as after a crash
			}
			m := a2a.UserMessage(a2a.Text(said))
			m.TaskID = got.Task.ID
			got, err = c.Send(t.Context(), &a2a.SendRequest{Message: m})
		}
		if err != nil {
			t.Fatal(err)
		}
		return got.Task
	}
	want, got := talk(false), talk(true)
	if want.Status.State != a2a.StateCompleted || want.Text() != "A draft of plants. Written to b.plants" {
		t.Fatalf("without a restart: %+v %q", want.Status, want.Text())
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(a2a.Task{}, "ID", "ContextID"), cmpopts.IgnoreFields(a2a.Message{}, "MessageID", "TaskID", "ContextID"),
		cmpopts.IgnoreFields(a2a.TaskStatus{}, "Timestamp")); diff != "" {
		t.Error(diff)
	}
}
