package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/store"
)

// answer returns a request that sends text to a task.
func answer(id, s string) *a2a.SendRequest {
	r := text(s)
	r.Message.TaskID = id
	return r
}

// TestWaitingTasksContinueAfterARestart checks that an agent that asks three times, with output
// between, produces the same task whether or not the server is restarted at each question.
func TestWaitingTasksContinueAfterARestart(t *testing.T) {
	agent := a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		var all []string
		for i := range 3 {
			if err := r.Working(ctx, a2a.Text(fmt.Sprint("step ", i))); err != nil {
				return err
			}
			if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(fmt.Sprint(i))}}, i > 0, false); err != nil {
				return err
			}
			m, err := r.Ask(ctx, a2a.Text(fmt.Sprint("question ", i, " after ", all)))
			if err != nil {
				return err
			}
			all = append(all, m.Text())
		}
		return r.Artifact(ctx, a2a.Artifact{ArtifactID: "b", Parts: []a2a.Part{a2a.Text(fmt.Sprint(r.Message.Text(), all, string(r.Metadata["x"]), r.Tenant, r.Principal))}})
	})
	talk := func(restarts bool) *a2a.Task {
		kept := store.NewMemory(store.Limits{})
		defer kept.Close()
		o := &a2a.ServerOptions{Store: kept, Principal: func(context.Context) string { return "ann" }}
		server := a2a.NewServer(card(), agent, o)
		c := connect(t, server, nil)
		first := text("begin")
		first.Metadata, first.Tenant = a2a.Metadata{}.With("x", 7), "T"
		got, err := c.Send(t.Context(), first)
		for i := range 3 {
			if err != nil {
				t.Fatal(err)
			}
			if got.Task.Status.State != a2a.StateInputRequired {
				t.Fatalf("after %d answers: %+v", i, got.Task.Status)
			}
			if restarts {
				if i == 1 {
					server.Close() // otherwise simulates a crash
				}
				s := a2a.NewServer(card(), agent, o)
				if err := s.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				c, server = connect(t, s, nil), s
			}
			got, err = c.Send(t.Context(), answer(got.Task.ID, fmt.Sprint("answer ", i)))
		}
		if err != nil {
			t.Fatal(err)
		}
		return got.Task
	}
	want, got := talk(false), talk(true)
	if want.Status.State != a2a.StateCompleted || want.Text() != `012begin[answer 0 answer 1 answer 2]7Tann` {
		t.Fatalf("without a restart: %+v %q", want.Status, want.Text())
	}
	opts := []cmp.Option{cmpopts.IgnoreFields(a2a.Task{}, "ID", "ContextID"), cmpopts.IgnoreFields(a2a.Message{}, "MessageID", "TaskID", "ContextID"),
		cmpopts.IgnoreFields(a2a.TaskStatus{}, "Timestamp")}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Error(diff)
	}
}

// TestWaitingTasksThatCannotContinue checks that a run that cannot be repeated fails, and does not
// complete with another result.
func TestWaitingTasksThatCannotContinue(t *testing.T) {
	ask := func(ctx context.Context, r *a2a.Run, q string) error {
		m, err := r.Ask(ctx, a2a.Text(q))
		if err != nil {
			return err
		}
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(m.Text())}})
	}
	for _, one := range []struct {
		name   string
		second func(ctx context.Context, r *a2a.Run) error
		want   string
	}{
		{"another question", func(ctx context.Context, r *a2a.Run) error { return ask(ctx, r, "How long?") }, "asked a different question"},
		{"the error is swallowed", func(ctx context.Context, r *a2a.Run) error {
			_ = ask(ctx, r, "How long?")
			return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text("all the same")}})
		}, "asked a different question"},
		{"another kind", func(ctx context.Context, r *a2a.Run) error {
			_, err := r.AskAuth(ctx, a2a.Text("How loud?"))
			return err
		}, "asked a different question"},
		{"no question", echo, "without asking"},
		{"completes", func(ctx context.Context, r *a2a.Run) error { return r.Status(ctx, a2a.StateCompleted) }, "without asking"},
		{"replies", func(ctx context.Context, r *a2a.Run) error { return r.Reply(ctx, a2a.Text("hi")) }, "without asking"},
		{"fails", func(context.Context, *a2a.Run) error { return a2a.Fail("no more paper") }, "no more paper"},
		{"private", func(context.Context, *a2a.Run) error { return errors.New("secret") }, "The agent failed."},
		{"panics", func(context.Context, *a2a.Run) error { panic("secret") }, "The agent failed."},
	} {
		t.Run(one.name, func(t *testing.T) {
			kept := store.NewMemory(store.Limits{})
			defer kept.Close()
			o := &a2a.ServerOptions{Store: kept}
			c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error { return ask(ctx, r, "How loud?") }), o), nil)
			got, err := c.Send(t.Context(), text("music"))
			if err != nil {
				t.Fatal(err)
			}
			s := a2a.NewServer(card(), a2a.AgentFunc(one.second), o)
			if err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err = connect(t, s, nil).Send(t.Context(), answer(got.Task.ID, "very"))
			if err != nil {
				t.Fatal(err)
			}
			if said := got.Task.Status.Message.Text(); got.Task.Status.State != a2a.StateFailed || !strings.Contains(said, one.want) || got.Task.Artifacts != nil {
				t.Errorf("%s %q %v", got.Task.Status.State, said, got.Task.Artifacts)
			}
		})
	}
}

// TestQueuedAnswersAreRepeated checks that a message received before the question answers it, also
// when the run is repeated, and also if the run follows another one.
func TestQueuedAnswersAreRepeated(t *testing.T) {
	kept := store.NewMemory(store.Limits{})
	defer kept.Close()
	working, queued := make(chan struct{}, 9), make(chan struct{})
	agent := a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if r.Message.Text() == "first" { // it leaves one message to the next run
			if err := r.Working(ctx); err != nil {
				return err
			}
			working <- struct{}{}
			<-queued
			return r.Status(ctx, a2a.StateInputRequired)
		}
		a, err := r.Ask(ctx, a2a.Text("One?"))
		if err != nil {
			return err
		}
		b, err := r.Ask(ctx, a2a.Text("Two?"))
		if err != nil {
			return err
		}
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(r.Message.Text() + a.Text() + b.Text())}})
	})
	o := &a2a.ServerOptions{Store: kept}
	c := connect(t, a2a.NewServer(card(), agent, o), nil)
	first := text("first")
	first.Configuration = &a2a.Configuration{ReturnImmediately: true}
	got, err := c.Send(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	<-working
	for _, s := range []string{"P", "Q"} {
		more := answer(got.Task.ID, s)
		more.Configuration = first.Configuration
		if _, err := c.Send(t.Context(), more); err != nil {
			t.Fatal(err)
		}
	}
	close(queued)
	for e, err := range c.Subscribe(t.Context(), got.Task.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if m := statusText(e); m == "Two?" {
			break
		}
	}
	s := a2a.NewServer(card(), agent, o)
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err = connect(t, s, nil).Send(t.Context(), answer(got.Task.ID, "R")); err != nil || got.Task.Text() != "PQR" {
		t.Errorf("%v, %v", got.Task, err)
	}
}

func statusText(e a2a.Event) string {
	switch {
	case e.Status != nil:
		return e.Status.Status.Message.Text()
	case e.Task != nil:
		return e.Task.Status.Message.Text()
	}
	return ""
}

// TestOldLogsContinue checks that a log of a version that did not record questions is repeated too.
// It uses the bytes of such a log.
func TestOldLogsContinue(t *testing.T) {
	for _, one := range []struct{ question, want string }{{"How loud?", "very"}, {"How long?", ""}} {
		kept := store.NewMemory(store.Limits{})
		defer kept.Close()
		for _, line := range []string{
			`{"seq":1,"event":{"task":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_SUBMITTED","timestamp":"2026-11-20T15:00:00.000Z"},"history":[{"messageId":"m","contextId":"C","taskId":"T","role":"ROLE_USER","parts":[{"text":"music"}]}]}}}`,
			`{"seq":2,"event":{"statusUpdate":{"taskId":"T","contextId":"C","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"q","contextId":"C","taskId":"T","role":"ROLE_AGENT","parts":[{"text":"How loud?"}]},"timestamp":"2026-11-20T15:00:00.000Z"}}}}`,
		} {
			if _, err := kept.Append(t.Context(), "a2a/tasks//T", store.Any, []byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
			m, err := r.Ask(ctx, a2a.Text(one.question))
			if err != nil {
				return err
			}
			return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(m.Text())}})
		}), &a2a.ServerOptions{Store: kept})
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := connect(t, s, nil).Send(t.Context(), answer("T", "very"))
		if err != nil || got.Task.Text() != one.want || (got.Task.Status.State == a2a.StateCompleted) != (one.want != "") {
			t.Errorf("%s: %+v, %v", one.question, got.Task, err)
		}
	}
}

// TestCompactedTasksContinue checks that a log that was compacted into the whole task contains what
// the run needs to be repeated.
func TestCompactedTasksContinue(t *testing.T) {
	kept := store.NewMemory(store.Limits{})
	defer kept.Close()
	agent := a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		out := r.Message.Text()
		for i := range 3 {
			for range 700 {
				if err := r.Working(ctx); err != nil {
					return err
				}
			}
			m, err := r.Ask(ctx, a2a.Text(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			out += m.Text()
		}
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(out)}})
	})
	o := &a2a.ServerOptions{Store: kept}
	c := connect(t, a2a.NewServer(card(), agent, o), nil)
	got, err := c.Send(t.Context(), text("a"))
	for _, s := range []string{"b", "c", "d"} {
		if err != nil {
			t.Fatal(err)
		}
		s2 := a2a.NewServer(card(), agent, o)
		if err := s2.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err = connect(t, s2, nil).Send(t.Context(), answer(got.Task.ID, s))
	}
	if err != nil || got.Task.Text() != "abcd" {
		t.Errorf("%+v, %v", got.Task, err)
	}
}
