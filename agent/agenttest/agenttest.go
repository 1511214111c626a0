// Package agenttest tests that a protocol implementation of package agent conforms to its contract:
// the output, questions and results of an agent reach its caller unchanged, whatever the transport.
// [Run] tests one protocol with both of its ends from this module.
package agenttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Abilities lists what a protocol supports.
type Abilities struct {
	Sessions bool // a request can continue a conversation
	Attach   bool // a caller can attach to a running run
	Later    bool // a run can be left waiting for an answer
	IDs      bool // a run has an ID
	Streams  bool // output arrives before the run ends

}

// Serve serves an agent and returns a client of it. It must stop everything it starts when the test
// ends.
type Serve func(t *testing.T, a *agent.Agent) *agent.Client

// Run tests one protocol. Every subtest is named after the row of the table in
// docs/agent-mapping.md that it covers.
func Run(t *testing.T, can Abilities, serve Serve) {
	s := &suite{can: can, serve: serve}
	for _, c := range []struct {
		row string
		f   func(t *testing.T)
	}{
		{"describe", s.describe},
		{"start", s.start},
		{"content", s.content},
		{"input", s.input},
		{"unit_of_work", s.unit},
		{"conversation", s.conversation},
		{"progress", s.progress},
		{"other_events", s.others},
		{"needs_a_human", s.questions},
		{"answer_declined", s.declined},
		{"nobody_answers", s.noAnswer},
		{"answer_later", s.later},
		{"cancel", s.cancel},
		{"cancel_while_asking", s.cancelAsking},
		{"state_failed", s.failed},
		{"state_rejected", s.rejected},
		{"state_private", s.private},
		{"state_cancelled_by_the_agent", s.cancelledThere},
		{"re_attach", s.attach},
		{"many_at_once", s.many},
		{"relayed", s.relayed},
	} {
		t.Run(c.row, c.f)
	}
}

type suite struct {
	can   Abilities
	serve Serve
}

// Card returns the card of the agents in this package.
func Card() agent.Card {
	return agent.Card{
		Name: "tester", Title: "The Tester", Description: "Does what the test says.", Version: "1.2",
		Skills: []agent.Skill{{ID: "a", Name: "Alpha", Description: "The first.", Tags: []string{"one", "letter"}, Examples: []string{"do it"}},
			{ID: "b", Name: "Beta", Description: "The second.", Tags: []string{"two"}}},
		Input: []string{"text/plain", "*/*"}, Output: []string{"text/plain", "application/json"},
		Metadata: agent.Metadata{}.With("example.org/colour", "blue"),
	}
}

// agent returns an agent with the given function.
func (s *suite) agent(f func(ctx context.Context, r *agent.Run) error) *agent.Agent {
	return &agent.Agent{Card: Card(), Run: f}
}

func (s *suite) client(t *testing.T, f func(ctx context.Context, r *agent.Run) error) *agent.Client {
	t.Helper()
	return s.serve(t, s.agent(f))
}

// do runs a request with a generous timeout.
func do(t *testing.T, c *agent.Client, req *agent.Request, by agent.Caller) (*agent.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if req.Agent == "" {
		req.Agent = "tester"
	}
	return c.Run(ctx, req, by)
}

// want fails the test unless the run completed with this text.
func want(t *testing.T, r *agent.Result, err error, text string) {
	t.Helper()
	if err != nil || r.State != agent.Completed || r.String() != text {
		t.Fatalf("Run = %+v, %v; want %q", r, err, text)
	}
}

var equal = cmp.Options{cmpopts.EquateEmpty()}

func (s *suite) describe(t *testing.T) {
	cards, err := s.client(t, nil).Agents(t.Context())
	if err != nil || len(cards) != 1 {
		t.Fatalf("Agents = %v, %v", cards, err)
	}
	got := cards[0]
	for key := range got.Metadata {
		if !strings.HasPrefix(key, "example.org/") { // added by the protocol itself
			delete(got.Metadata, key)
		}
	}
	if diff := cmp.Diff(Card(), got, equal); diff != "" {
		t.Errorf("the card (-want +got):\n%s", diff)
	}
}

func (s *suite) start(t *testing.T) {
	gate := make(chan struct{})
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		if err := r.Say(ctx, "hello "); err != nil {
			return err
		}
		if s.can.Streams {
			select { // until the first output has arrived
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for _, word := range strings.SplitAfter(r.Text(), " ") {
			if err := r.Say(ctx, word); err != nil {
				return err
			}
		}
		return nil
	})
	first := true
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("dear great world")}, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
		if e.Kind == agent.EventOutput && first {
			first = false
			close(gate)
		}
		return nil
	}})
	want(t, r, err, "hello dear great world")
	if len(r.Output) != 1 {
		t.Errorf("the answer came in parts that do not belong together: %+v", r.Output)
	}
}

// Parts returns one part of each kind.
func Parts() []agent.Part {
	return []agent.Part{
		agent.Text("plain"),
		{Text: "# heading", MediaType: "text/markdown"},
		agent.Bytes("image/png", []byte{0x89, 'P', 'N', 'G'}),
		agent.Bytes("audio/wav", []byte("RIFF")),
		{Data: []byte{0, 1}, MediaType: "application/zip", Filename: "a.zip"},
		agent.LinkTo("image/jpeg", "https://example.org/a.jpg"),
		agent.Value(map[string]any{"answer": 42, "big": jsonrpc.Raw("9007199254740993")}),
		agent.Text("in a file").Named("notes.txt"),
		agent.Value([]int{1, 2}).Named("numbers"),
		{Text: "with more", Metadata: agent.Metadata{}.With("example.org/source", []string{"x"})},
	}
}

func (s *suite) content(t *testing.T) {
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		for _, p := range Parts() {
			if err := r.Emit(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Parts(), r.Output, equal); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
}

func (s *suite) input(t *testing.T) {
	type seen struct {
		Input    []agent.Message
		Metadata agent.Metadata
	}
	got := make(chan seen, 1)
	c := s.client(t, func(_ context.Context, r *agent.Run) error {
		got <- seen{r.Input, r.Metadata}
		return nil
	})
	for name, in := range map[string]seen{
		"parts":    {Input: agent.User(Parts()...)},
		"metadata": {Input: agent.Prompt("go"), Metadata: agent.Metadata{}.With("example.org/trace", "00-1")},
		"a conversation": {Input: []agent.Message{
			{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("a")}, Metadata: agent.Metadata{}.With("example.org/n", 1)},
			{Role: "agent/tester", Parts: []agent.Part{agent.Text("b")}},
			{Role: agent.RoleUser, Parts: []agent.Part{agent.Text("c"), agent.Text("d")}}}},
	} {
		r, err := do(t, c, &agent.Request{Input: in.Input, Metadata: in.Metadata}, nil)
		want(t, r, err, "")
		out := <-got
		for key := range out.Metadata {
			if !strings.HasPrefix(key, "example.org/") {
				delete(out.Metadata, key)
			}
		}
		if diff := cmp.Diff(in, out, equal); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func (s *suite) unit(t *testing.T) {
	c := s.client(t, func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, r.ID) })
	var started []agent.Event
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
		if e.Kind == agent.EventStarted {
			started = append(started, e)
		} else if len(started) == 0 && s.can.IDs {
			t.Error("something came before the run was known")
		}
		return nil
	}})
	if err != nil || s.can.IDs && (r.ID == "" || r.String() != r.ID || len(started) != 1 || started[0].ID != r.ID) {
		t.Errorf("Run = %+v, %v; started %+v", r, err, started)
	}
}

func (s *suite) conversation(t *testing.T) {
	c := s.client(t, func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, r.Session) })
	if !s.can.Sessions {
		return
	}
	first, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, nil)
	if err != nil || first.Session == "" || first.String() != first.Session {
		t.Fatalf("Run = %+v, %v", first, err)
	}
	again, err := do(t, c, &agent.Request{Session: first.Session, Input: agent.Prompt("go on")}, nil)
	want(t, again, err, first.Session)
	other, err := do(t, c, &agent.Request{Input: agent.Prompt("anew")}, nil)
	if err != nil || other.Session == first.Session {
		t.Errorf("another conversation is %q too, %v", other.Session, err)
	}
}

func (s *suite) progress(t *testing.T) {
	steps := []agent.Progress{{Message: "one", Done: 1, Total: 3}, {Message: "two", Done: 2, Total: 3}, {Message: "much", Done: 2.5}}
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		for _, p := range steps {
			if err := r.Progress(ctx, p); err != nil {
				return err
			}
		}
		return r.Say(ctx, "done")
	})
	var got []agent.Progress
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
		if e.Kind == agent.EventProgress {
			got = append(got, *e.Progress)
		}
		return nil
	}})
	want(t, r, err, "done")
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func (s *suite) others(t *testing.T) {
	said := agent.Metadata{}.With("example.org/weather", map[string]any{"sun": true})
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		return r.Tell(ctx, agent.Event{Kind: agent.EventOther, Metadata: said})
	})
	var got []agent.Metadata
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
		if e.Kind == agent.EventOther {
			got = append(got, e.Metadata)
		}
		return nil
	}})
	want(t, r, err, "")
	if diff := cmp.Diff([]agent.Metadata{said}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
