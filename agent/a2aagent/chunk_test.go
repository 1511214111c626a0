package a2aagent_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/store"
)

// chunk describes an event of an artifact: its ID, whether it is appended, whether it is the last
// one, and its text.
func chunk(e a2a.Event) string {
	u := e.Artifact
	text := u.Artifact.ArtifactID
	if u.Append {
		text += " append"
	}
	if u.LastChunk {
		text += " last"
	}
	return fmt.Sprintf("%s %q", text, a2a.TextOf(u.Artifact.Parts))
}

// inFront is a caller that an agent puts in front of its own, to see the events.
type inFront struct{ agent.Caller }

// TestChunks checks that the pieces of an artifact are marked as appended, that a last chunk ends
// each artifact when the run ends, also after a failure, and that the task, and what a client of
// this package receives, do not contain the last chunk.
func TestChunks(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(ctx context.Context, r *agent.Run) error
		want []string
		text string
	}{
		"pieces of two artifacts": {func(ctx context.Context, r *agent.Run) error {
			for _, p := range []agent.Part{agent.Text("a"), agent.Text("x").Named("n"), agent.Text("b"), agent.Text("y").Named("n"), agent.Text("c")} {
				if err := r.Emit(ctx, p); err != nil {
					return err
				}
			}
			return nil
		}, []string{`result "a"`, `name:n "x"`, `result append "b"`, `name:n append "y"`, `result append "c"`, `result append last ""`, `name:n append last ""`}, "abcxy"},
		"one piece": {func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, "a") }, []string{`result "a"`, `result append last ""`}, "a"},
		"nothing":   {func(context.Context, *agent.Run) error { return nil }, nil, ""},
		"a caller in front of that of the protocol": {func(ctx context.Context, r *agent.Run) error {
			r.Caller = inFront{r.Caller}
			return r.Say(ctx, "a")
		}, []string{`result "a"`, `result append last ""`}, "a"},
		"an empty piece": {func(ctx context.Context, r *agent.Run) error { return r.Emit(ctx, agent.Text("")) }, []string{`result ""`, `result append last ""`}, ""},
		"a failure": {func(ctx context.Context, r *agent.Run) error {
			if err := r.Say(ctx, "half"); err != nil {
				return err
			}
			return agent.Errorf("no more")
		}, []string{`result "half"`, `result append last ""`}, "half"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent.Agent{Card: agent.Card{Name: "scribe"}, Run: c.run}
			s := a2a.NewServer(a2aagent.Card(&a.Card), a2aagent.New(a), nil)
			defer s.Close()
			client := connect(t, s)
			var got []string
			var task a2a.Task
			for e, err := range client.Stream(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("x"))}) {
				if err != nil {
					t.Fatal(err)
				}
				if task.Apply(e); e.Artifact != nil {
					got = append(got, chunk(e))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("chunks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			stored, err := client.Task(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
			if err != nil {
				t.Fatal(err)
			}
			parts := 0
			for _, a := range stored.Artifacts {
				parts += len(a.Parts)
			}
			if stored.Text() != c.text || task.Text() != c.text || parts != len(slices.DeleteFunc(slices.Clone(c.want), func(s string) bool { return strings.Contains(s, " last ") })) {
				t.Errorf("the task has %q in %d parts, want %q", stored.Text(), parts, c.text)
			}
			result, err := a2aagent.Client(client, nil).Run(t.Context(), &agent.Request{Input: agent.Prompt("x")}, &agent.Funcs{})
			if result == nil {
				t.Fatal(err)
			}
			for _, p := range result.Output {
				if p.IsText() && p.Text == "" && name != "an empty piece" {
					t.Errorf("a client receives an empty part: %+v", result.Output)
				}
			}
		})
	}
}

// TestChunksAfterARestart checks the chunks of a task whose server was restarted while it waited:
// output continues the artifacts of before, in order, nothing is sent twice, each artifact has one
// last chunk, and a client that subscribes again has the same task.
func TestChunksAfterARestart(t *testing.T) {
	a := &agent.Agent{Card: agent.Card{Name: "scribe"}, Run: func(ctx context.Context, r *agent.Run) error {
		for _, p := range []agent.Part{agent.Text("one "), agent.Text("early").Named("n"), agent.Text("two ")} {
			if err := r.Emit(ctx, p); err != nil {
				return err
			}
		}
		if _, err := r.Ask(ctx, &agent.Question{Text: "Go on?"}); err != nil {
			return err
		}
		for _, p := range []agent.Part{agent.Text("three "), agent.Text(" and late").Named("n"), agent.Text("new").Named("m"), agent.Text("four")} {
			if err := r.Emit(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}}
	kept := store.NewMemory(store.Limits{})
	defer kept.Close()
	serve := func() *a2a.Client {
		s := a2a.NewServer(a2aagent.Card(&a.Card), a2aagent.New(a), &a2a.ServerOptions{Store: kept})
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return connect(t, s)
	}
	before, err := serve().Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("x"))})
	if err != nil || before.Task.Status.State != a2a.StateInputRequired || before.Task.Text() != "one two early" {
		t.Fatalf("%+v, %v", before, err)
	}
	client := serve() // the first server is not closed, as after a crash
	subscribed := make(chan struct{})
	type seen struct {
		chunks []string
		task   a2a.Task
		err    error
	}
	others := make(chan seen, 1)
	go func() {
		var s seen
		for e, err := range client.Subscribe(t.Context(), before.Task.ID, 0) {
			if err != nil {
				s.err = err
				break
			}
			if e.Task != nil && s.task.ID == "" {
				close(subscribed)
			}
			if s.task.Apply(e); e.Artifact != nil {
				s.chunks = append(s.chunks, chunk(e))
			}
		}
		others <- s
	}()
	<-subscribed
	m := a2a.UserMessage(a2a.Text("yes"))
	m.TaskID = before.Task.ID
	after, err := client.Send(t.Context(), &a2a.SendRequest{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	const text = "one two three fourearly and latenew"
	want := []string{`result append "three "`, `name:n append " and late"`, `name:m "new"`, `result append "four"`, `result append last ""`, `name:n append last ""`, `name:m append last ""`}
	s := <-others
	if s.err != nil || !slices.Equal(s.chunks, want) || s.task.Text() != text {
		t.Errorf("a subscriber sees %q, %v\n%s\nwant\n%s", s.task.Text(), s.err, strings.Join(s.chunks, "\n"), strings.Join(want, "\n"))
	}
	if after.Task.Text() != text || after.Task.Status.State != a2a.StateCompleted {
		t.Errorf("the task is %s with %q", after.Task.Status.State, after.Task.Text())
	}
	last, err := serve().Task(t.Context(), &a2a.GetTaskRequest{ID: before.Task.ID})
	if err != nil || last.Text() != text || len(last.Artifacts) != 3 {
		t.Errorf("after another restart: %+v, %v", last, err)
	}
}

// TestMetadataOfChunks checks that the metadata of every chunk reaches the caller, also that of a
// chunk without parts, as the last one of an artifact may be, and that the task has the metadata of
// the artifact.
func TestMetadataOfChunks(t *testing.T) {
	s := a2a.NewServer(a2a.AgentCard{Name: "x", Capabilities: a2a.AgentCapabilities{Streaming: true}}, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		for i, last := range []bool{false, false, true} {
			a := a2a.Artifact{ArtifactID: "a", Name: "a", Parts: []a2a.Part{a2a.Text(fmt.Sprint(i))}, Metadata: a2a.Metadata{}.With(fmt.Sprint("chunk/", i), i)}
			if last {
				a.Parts = []a2a.Part{a2a.Text("")}
			}
			if err := r.Chunk(ctx, a, i > 0, last); err != nil {
				return err
			}
		}
		return nil
	}), nil)
	defer s.Close()
	client := connect(t, s)
	var got []string
	result, err := a2aagent.Client(client, nil).Run(t.Context(), &agent.Request{Input: agent.Prompt("x")}, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
		var about a2a.Artifact
		if e.Metadata.Get("a2a/artifact", &about) {
			got = append(got, fmt.Sprint(e.Kind, " ", agent.TextOf(e.Parts), " ", len(e.Parts), " ", about.ArtifactID, " ", slices.Collect(maps.Keys(about.Metadata))))
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"output 0 1 a [chunk/0]", "output 1 1 a [chunk/1]", "other  0 a [chunk/2]"}
	if !slices.Equal(got, want) {
		t.Errorf("the caller has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	task, err := client.Task(t.Context(), &a2a.GetTaskRequest{ID: result.ID})
	if err != nil || len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 2 || len(task.Artifacts[0].Metadata) != 3 {
		t.Errorf("the task is %+v, %v", task, err)
	}
}
