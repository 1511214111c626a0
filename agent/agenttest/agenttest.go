// Package agenttest is the contract that the seam of package agent has with every protocol: what an agent says, asks and ends with reaches its
// caller as it was meant, whatever carries it. [Run] holds one protocol to it, both of whose ends are this module's.
package agenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Abilities are what a protocol can and another cannot.
type Abilities struct {
	Sessions bool // a request can go on with a conversation
	Attach   bool // there is a way back to a run
	Later    bool // a run can be left waiting
	IDs      bool // a run has an id
	Streams  bool // what is said arrives before the end

}

// Serve serves an agent and returns a client of it. What it starts ends with the test.
type Serve func(t *testing.T, a *agent.Agent) *agent.Client

// Run checks one protocol. Every subtest is named after the row of the table in docs/guides/agent.md that it is about.
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
		{"nobody_answers", s.nobody},
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

// Card is what the agents of this package tell about themselves.
func Card() agent.Card {
	return agent.Card{
		Name: "tester", Title: "The Tester", Description: "Does what the test says.", Version: "1.2",
		Skills: []agent.Skill{{ID: "a", Name: "Alpha", Description: "The first.", Tags: []string{"one", "letter"}, Examples: []string{"do it"}},
			{ID: "b", Name: "Beta", Description: "The second.", Tags: []string{"two"}}},
		Input: []string{"text/plain", "*/*"}, Output: []string{"text/plain", "application/json"},
		Metadata: agent.Metadata{}.With("example.org/colour", "blue"),
	}
}

// agent makes an agent of a function.
func (s *suite) agent(f func(ctx context.Context, r *agent.Run) error) *agent.Agent {
	return &agent.Agent{Card: Card(), Run: f}
}

func (s *suite) client(t *testing.T, f func(ctx context.Context, r *agent.Run) error) *agent.Client {
	t.Helper()
	return s.serve(t, s.agent(f))
}

// do has a request done, within a time that is too long for everything.
func do(t *testing.T, c *agent.Client, req *agent.Request, by agent.Caller) (*agent.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if req.Agent == "" {
		req.Agent = "tester"
	}
	return c.Run(ctx, req, by)
}

// want fails the test unless a run was completed with this text.
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
		if !strings.HasPrefix(key, "example.org/") { // what the protocol itself says beside
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
			select { // until the first words have arrived
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

// Parts are one of each kind.
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

// Questions are one of each kind, with an answer to each.
func Questions() ([]agent.Question, []agent.Answer) {
	return []agent.Question{
			{Text: "Which colour?"},
			{Text: "May I?", Options: []agent.Option{{ID: "yes", Name: "Go on", Kind: agent.AllowOnce}, {ID: "no", Name: "Stop", Kind: agent.RejectOnce}}},
			{Text: "Who?", Form: jsonrpc.Raw(`{"type":"object","properties":{"age":{"type":"integer"},"name":{"type":"string"}},"required":["name"]}`)},
			{Text: "Look at this.", Parts: []agent.Part{agent.LinkTo("text/html", "https://example.org/a")}, Metadata: agent.Metadata{}.With("example.org/why", "art")},
			{Text: "Log in, please.", Auth: true},
		}, []agent.Answer{
			*agent.Reply("blue"),
			*agent.Choose("yes"),
			{Value: jsonrpc.Raw(`{"age":7,"name":"Ada"}`)},
			{Parts: []agent.Part{agent.Text("nice")}, Metadata: agent.Metadata{}.With("example.org/mood", 3)},
			*agent.Reply("done"),
		}
}

func (s *suite) questions(t *testing.T) {
	questions, answers := Questions()
	got := make(chan *agent.Answer, len(answers))
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		if err := r.Say(ctx, "well: "); err != nil {
			return err
		}
		for i := range questions {
			q := questions[i]
			a, err := r.Ask(ctx, &q)
			if err != nil {
				return err
			}
			got <- a
		}
		return r.Say(ctx, "thanks")
	})
	n := 0
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
		if n == len(questions) {
			return nil, errors.New("asked too often")
		}
		for key := range q.Metadata {
			if !strings.HasPrefix(key, "example.org/") {
				delete(q.Metadata, key)
			}
		}
		if diff := cmp.Diff(questions[n], *q, equal); diff != "" {
			t.Errorf("question %d (-want +got):\n%s", n, diff)
		}
		n++
		a := answers[n-1]
		return &a, nil
	}})
	want(t, r, err, "well: thanks")
	for i := range answers {
		if diff := cmp.Diff(&answers[i], <-got, equal); diff != "" {
			t.Errorf("answer %d (-want +got):\n%s", i, diff)
		}
	}
}

func (s *suite) declined(t *testing.T) {
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		a, err := r.Ask(ctx, &agent.Question{Text: "Why?"})
		if err != nil {
			return err
		}
		return r.Say(ctx, fmt.Sprint(a.Declined))
	})
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) {
		return &agent.Answer{Declined: true}, nil
	}})
	want(t, r, err, "true")
}

// nobody: a run whose question nobody answers ends somehow, and does not go on without its caller.
func (s *suite) nobody(t *testing.T) {
	ended := make(chan struct{})
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		defer close(ended)
		a, err := r.Ask(ctx, &agent.Question{Text: "Why?"})
		if err == nil && !a.Declined {
			t.Errorf("somebody answered %+v", a)
		}
		if err == nil {
			err = agent.ErrNoAnswer
		}
		return err
	})
	if r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, nil); err == nil {
		t.Errorf("Run = %+v", r)
	}
	arrived(t, ended, "the end of a run that nobody answers")
}

func (s *suite) later(t *testing.T) {
	if !s.can.Later {
		return
	}
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		a, err := r.Ask(ctx, &agent.Question{Text: "Which colour?"})
		if err != nil {
			return err
		}
		return r.Say(ctx, "It is "+a.Text())
	})
	r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) { return nil, agent.ErrLater }})
	if err != nil || r.State != agent.Waiting || r.Question == nil || r.Question.Text != "Which colour?" {
		t.Fatalf("Run = %+v, %v", r, err)
	}
	r, err = do(t, c, &agent.Request{Run: r.ID, Session: r.Session, Answer: agent.Reply("green")}, nil)
	want(t, r, err, "It is green")
}

// arrived waits for something that is to come.
func arrived(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(15 * time.Second):
		t.Fatalf("%s did not come", what)
	}
}

func (s *suite) cancel(t *testing.T) {
	running, ended := make(chan struct{}), make(chan error, 1)
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		close(running)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var sent time.Time
	go func() {
		<-running
		sent = time.Now()
		cancel(enough)
	}()
	r, err := c.Run(ctx, &agent.Request{Agent: "tester", Input: agent.Prompt("go")}, nil)
	if !errors.Is(err, enough) || r != nil && r.State != agent.Cancelled {
		t.Errorf("Run = %+v, %v", r, err)
	}
	cause := <-ended
	took := time.Since(sent)
	if took > 5*time.Second {
		t.Errorf("the cancel took %v", took)
	}
	t.Logf("the cancel reached the agent after %v", took)
	if !errors.Is(cause, agent.ErrCancelled) {
		t.Errorf("the agent's context ended with %v", cause)
	}
}

func (s *suite) cancelAsking(t *testing.T) {
	ended := make(chan struct{})
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		defer close(ended)
		_, err := r.Ask(ctx, &agent.Question{Text: "Why?"})
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Run(ctx, &agent.Request{Agent: "tester", Input: agent.Prompt("go")}, agent.Funcs{OnAsk: func(ctx context.Context, _ *agent.Question) (*agent.Answer, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	arrived(t, ended, "the end of the agent")
}

func (s *suite) fails(t *testing.T, err error, state agent.State, text string) *agent.Result {
	t.Helper()
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		if err := r.Say(ctx, "so far"); err != nil {
			return err
		}
		return err
	})
	r, got := do(t, c, &agent.Request{Input: agent.Prompt("go")}, nil)
	f, ok := errors.AsType[*agent.Failure](got)
	if !ok || f.State != state || f.Text != text {
		t.Fatalf("Run = %+v, %v; want %s %q", r, got, state, text)
	}
	if r.String() != "so far" {
		t.Errorf("what was said before is %q", r)
	}
	return r
}

func (s *suite) failed(t *testing.T) {
	meta := agent.Metadata{}.With("example.org/code", 7)
	r := s.fails(t, &agent.Failure{State: agent.Failed, Text: "no luck", Metadata: meta}, agent.Failed, "no luck")
	var code int
	if !r.Metadata.Get("example.org/code", &code) || code != 7 {
		t.Errorf("metadata %v", r.Metadata)
	}
}

func (s *suite) rejected(t *testing.T) {
	s.fails(t, agent.Refusef("not me"), agent.Rejected, "not me")
}

func (s *suite) private(t *testing.T) {
	s.fails(t, errors.New("password tulip"), agent.Failed, "The agent failed.")
}

func (s *suite) cancelledThere(t *testing.T) {
	c := s.client(t, func(context.Context, *agent.Run) error { return agent.ErrCancelled })
	if r, err := do(t, c, &agent.Request{Input: agent.Prompt("go")}, nil); !errors.Is(err, agent.ErrCancelled) {
		t.Errorf("Run = %+v, %v", r, err)
	}
}

func (s *suite) attach(t *testing.T) {
	if !s.can.Attach {
		if _, err := s.client(t, nil).Attach(t.Context(), "x", nil); !errors.Is(err, agent.ErrNoAttach) {
			t.Errorf("Attach = %v", err)
		}
		return
	}
	gate, said := make(chan struct{}), make(chan string, 1)
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		if err := r.Say(ctx, "before "); err != nil {
			return err
		}
		<-gate
		return r.Say(ctx, "after")
	})
	job := c.Start(t.Context(), &agent.Request{Agent: "tester", Input: agent.Prompt("go")})
	defer job.Close()
	for e := range job.Events() {
		if e.Kind == agent.EventStarted {
			said <- e.ID
		}
		if e.Kind == agent.EventOutput {
			break
		}
	}
	id := <-said
	other := make(chan struct{})
	var r *agent.Result
	var err error
	go func() {
		defer close(other)
		r, err = c.Attach(t.Context(), id, agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
			if e.Kind == agent.EventOutput && strings.HasPrefix(agent.TextOf(e.Parts), "before") {
				close(gate)
			}
			return nil
		}})
	}()
	arrived(t, other, "the end of the run, for who came later")
	want(t, r, err, "before after")
	if first, err := job.Wait(t.Context()); err != nil || first.String() != "before after" {
		t.Errorf("the first caller has %+v, %v", first, err)
	}
}

func (s *suite) many(t *testing.T) {
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		for i := range 20 {
			if err := r.Say(ctx, fmt.Sprintf("%s%d ", r.Text(), i)); err != nil {
				return err
			}
		}
		return nil
	})
	jobs := make([]*agent.Job, 20)
	for i := range jobs {
		jobs[i] = c.Start(t.Context(), &agent.Request{Agent: "tester", Input: agent.Prompt(string(rune('a' + i)))})
		defer jobs[i].Close()
	}
	for i, job := range jobs {
		r, err := job.Wait(t.Context())
		var text strings.Builder
		for n := range 20 {
			fmt.Fprintf(&text, "%c%d ", 'a'+i, n)
		}
		want(t, r, err, text.String())
	}
}

// byName puts the parts of each artifact together.
func byName(parts []agent.Part) []agent.Part {
	out := slices.Clone(parts)
	slices.SortStableFunc(out, func(a, b agent.Part) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// relayed: an agent that is called in this protocol is served in it again.
func (s *suite) relayed(t *testing.T) {
	questions, answers := Questions()
	inner := s.client(t, func(ctx context.Context, r *agent.Run) error {
		if err := r.Progress(ctx, agent.Progress{Done: 1}); err != nil {
			return err
		}
		for i := range questions {
			q := questions[i]
			a, err := r.Ask(ctx, &q)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(&answers[i], a, equal); diff != "" {
				t.Errorf("answer %d (-want +got):\n%s", i, diff)
			}
		}
		return r.Emit(ctx, Parts()...)
	})
	cards, err := inner.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outer := s.serve(t, inner.Agent(cards[0]))
	n, steps := 0, 0
	r, err := do(t, outer, &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{
		OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
			if q.Text != questions[n].Text {
				t.Errorf("question %d is %q", n, q.Text)
			}
			n++
			a := answers[n-1]
			return &a, nil
		},
		OnEvent: func(_ context.Context, e agent.Event) error {
			if e.Kind == agent.EventProgress {
				steps++
			}
			return nil
		},
	})
	if err != nil || steps != 1 {
		t.Fatalf("Run: %v, after %d steps", err, steps)
	}
	// A caller who answers a question may get what was said meanwhile artifact by artifact.
	if diff := cmp.Diff(byName(Parts()), byName(r.Output), equal); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
}
