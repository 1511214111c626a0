package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// run returns a client of an agent with this function.
func run(f func(ctx context.Context, r *agent.Run) error) *agent.Client {
	return agent.Local(&agent.Agent{Card: agent.Card{Name: "test"}, Run: f})
}

func TestHowRunsEnd(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		err   error
		state agent.State
		text  string
		want  error
	}{
		{"well", t.Context(), nil, agent.Completed, "", nil},
		{"failed", t.Context(), agent.Errorf("no %s", "luck"), agent.Failed, "no luck", nil},
		{"rejected", t.Context(), agent.Refusef("no"), agent.Rejected, "no", nil},
		{"wrapped", t.Context(), fmt.Errorf("more: %w", agent.Errorf("no luck")), agent.Failed, "no luck", nil},
		{"private", t.Context(), errors.New("password is tulip"), agent.Failed, "The agent failed.", nil},
		{"cancelled", gone, context.Canceled, agent.Cancelled, "", context.Canceled},
		{"cancelled elsewhere", t.Context(), agent.ErrCancelled, agent.Cancelled, "", agent.ErrCancelled},
		{"somebody else's deadline", t.Context(), context.DeadlineExceeded, agent.Failed, "The agent failed.", nil},
	} {
		var reported atomic.Int32
		a := &agent.Agent{Card: agent.Card{Name: "test"}, Run: func(context.Context, *agent.Run) error { return c.err }, Report: func(string, error) { reported.Add(1) }}
		r, err := agent.Local(a).Run(c.ctx, &agent.Request{Input: agent.Prompt("x")}, nil)
		if r == nil || r.State != c.state || r.Text != c.text {
			t.Errorf("%s: result %+v, want %s %q", c.name, r, c.state, c.text)
		}
		f, failed := errors.AsType[*agent.Failure](err)
		if want := c.state == agent.Failed || c.state == agent.Rejected; failed != want || failed && (f.State != c.state || f.Text != c.text) {
			t.Errorf("%s: error %v", c.name, err)
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		if private := strings.HasPrefix(c.text, "The agent"); private != (reported.Load() == 1) {
			t.Errorf("%s: %d reports", c.name, reported.Load())
		}
	}
}

func TestPanicIsAFailure(t *testing.T) {
	r, err := run(func(context.Context, *agent.Run) error { panic("tulip") }).Run(t.Context(), &agent.Request{Input: agent.Prompt("x")}, nil)
	if r == nil || r.State != agent.Failed || err == nil || strings.Contains(err.Error(), "tulip") {
		t.Errorf("Run = %+v, %v", r, err)
	}
}

func TestOutputIsJoined(t *testing.T) {
	blue := agent.Metadata{}.With("colour", "blue")
	c := run(func(ctx context.Context, r *agent.Run) error {
		tell := func(message string, parts ...agent.Part) {
			if err := r.Tell(ctx, agent.Event{Kind: agent.EventOutput, Message: message, Parts: parts}); err != nil {
				t.Error(err)
			}
		}
		tell("", agent.Text("a"), agent.Text("b"))
		tell("", agent.Text("c"))
		tell("", agent.Text("d").Named("file"))
		tell("", agent.Text("e").Named("file"))
		tell("2", agent.Text("f").Named("file"))
		tell("2", agent.Value(1), agent.Part{Text: "g", Metadata: blue}, agent.Text("h"), agent.Bytes("image/png", nil))
		return nil
	})
	r, err := c.Run(t.Context(), &agent.Request{Input: agent.Prompt("x")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.Part{{Text: "abc"}, {Text: "de", Name: "file"}, {Text: "f", Name: "file"}, {JSON: jsonrpc.Raw("1")}, {Text: "g", Metadata: blue}, {Text: "h"}, {MediaType: "image/png", Data: []byte{}}}
	if diff := cmp.Diff(want, r.Output); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if r.String() != "abcdef1gh" {
		t.Errorf("text %q", r)
	}
}

func TestWhatTheUserSaidLast(t *testing.T) {
	say := func(role, text string) agent.Message {
		return agent.Message{Role: role, Parts: []agent.Part{agent.Text(text)}}
	}
	for _, c := range []struct {
		input []agent.Message
		want  string
	}{
		{agent.Prompt("a"), "a"},
		{[]agent.Message{say("user", "a"), say("agent/x", "b"), say("user", "c"), say("user", "d")}, "cd"},
		{[]agent.Message{say("user", "a"), say("agent", "b")}, "ab"},
		{nil, ""},
	} {
		if got := (&agent.Run{Input: c.input}).Text(); got != c.want {
			t.Errorf("%v: %q, want %q", c.input, got, c.want)
		}
	}
}

func TestAnswersAreSettled(t *testing.T) {
	q := &agent.Question{Options: []agent.Option{{ID: "allow", Name: "Go on", Kind: agent.AllowOnce}, {ID: "reject", Name: "Stop", Kind: agent.RejectOnce}}}
	for said, want := range map[string]string{"allow": "allow", " Go ON\n": "allow", "yes": "allow", "n": "reject", "stop": "reject", "perhaps": "", "": ""} {
		a := agent.Reply(said)
		q.Settle(a)
		if a.Option != want || q.Allowed(a) != (want == "allow") {
			t.Errorf("%q settled as %q", said, a.Option)
		}
	}
	if q.Allowed(nil) || q.Allowed(&agent.Answer{Declined: true, Option: "allow"}) {
		t.Error("nothing said, and allowed")
	}
}

func TestConfirm(t *testing.T) {
	c := run(func(ctx context.Context, r *agent.Run) error {
		ok, err := r.Confirm(ctx, "Sure?")
		if err != nil {
			return err
		}
		return r.Say(ctx, fmt.Sprint(ok))
	})
	for said, want := range map[string]string{"yes": "true", "no": "false", "": "false"} {
		r, err := c.Run(t.Context(), &agent.Request{Input: agent.Prompt("x")}, agent.Funcs{OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) { return agent.Reply(said), nil }})
		if err != nil || r.String() != want {
			t.Errorf("%q: %v, %v", said, r, err)
		}
	}
	if _, err := c.Run(t.Context(), &agent.Request{Input: agent.Prompt("x")}, nil); err == nil {
		t.Error("nobody was asked, and it did not fail")
	}
}

func TestJob(t *testing.T) {
	c := run(func(ctx context.Context, r *agent.Run) error {
		for range 1000 {
			if err := r.Say(ctx, "."); err != nil {
				return err
			}
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), agent.ErrCancelled) {
			t.Errorf("cause %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	job := c.Start(t.Context(), &agent.Request{Input: agent.Prompt("x")})
	defer job.Close()
	if err := job.Answer(agent.Reply("what?")); !errors.Is(err, agent.ErrNotAsked) {
		t.Errorf("Answer = %v", err)
	}
	said := 0
	var end *agent.Result
	for e := range job.Events() {
		switch e.Kind {
		case agent.EventOutput:
			if said++; said == 1000 {
				job.Cancel()
			}
		case agent.EventEnded:
			end = e.Result
		}
	}
	if said != 1000 || end == nil || end.State != agent.Cancelled || len(end.String()) != 1000 {
		t.Errorf("%d said, ended %+v", said, end)
	}
	if r, err := job.Wait(t.Context()); r != end || !errors.Is(err, agent.ErrCancelled) {
		t.Errorf("Wait = %v, %v", r, err)
	}
}

func TestCloseOfAJobThatNobodyListensTo(t *testing.T) {
	ended := make(chan struct{})
	job := run(func(ctx context.Context, r *agent.Run) error {
		defer close(ended)
		for {
			if err := r.Say(ctx, "."); err != nil {
				return err
			}
		}
	}).Start(t.Context(), &agent.Request{Input: agent.Prompt("x")})
	for e := range job.Events() {
		if e.Kind == agent.EventOutput {
			break
		}
	}
	job.Close()
	<-ended
}

// A job that is closed before it starts does not run.
func TestCloseAtOnce(t *testing.T) {
	job := run(func(ctx context.Context, r *agent.Run) error {
		<-ctx.Done()
		return ctx.Err()
	}).Start(t.Context(), &agent.Request{Input: agent.Prompt("x")})
	job.Close()
	if r, err := job.Wait(t.Context()); err == nil {
		t.Errorf("Wait = %+v", r)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"echo": true, "a-1": true, "": false, "-a": false, "a-": false, "A": false, "a_b": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false} {
		if err := agent.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	c := run(nil)
	if _, err := c.Run(t.Context(), &agent.Request{Agent: "other", Input: agent.Prompt("x")}, nil); !errors.Is(err, agent.ErrUnknownAgent) {
		t.Errorf("an unknown agent: %v", err)
	}
	if _, err := c.Attach(t.Context(), "x", nil); !errors.Is(err, agent.ErrNoAttach) {
		t.Errorf("Attach: %v", err)
	}
}

// An agent that is called through a client can be served again, here through a second client.
func TestAgentOfAClient(t *testing.T) {
	there := agent.Local(painter)
	cards, err := there.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	here := agent.Local(there.Agent(cards[0]))
	r, err := here.Run(t.Context(), &agent.Request{Input: agent.Prompt("boat")}, agent.Funcs{OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) { return agent.Reply("red"), nil }})
	if err != nil || r.String() != "The boat is red now." {
		t.Errorf("Run = %v, %v", r, err)
	}
	if _, err := here.Run(t.Context(), &agent.Request{Input: agent.Prompt("the sky")}, nil); err == nil || err.Error() != "The sky is too high." {
		t.Errorf("Run = %v", err)
	}
}

func TestMerge(t *testing.T) {
	a, b := agent.Metadata{}.With("a", 1).With("both", 1), agent.Metadata{}.With("b", 2).With("both", 2)
	if diff := cmp.Diff(agent.Metadata{}.With("a", 1).With("b", 2).With("both", 2), a.Merge(b)); diff != "" {
		t.Errorf("Merge (-want +got):\n%s", diff)
	}
	if len(a) != 2 || len(b) != 2 {
		t.Errorf("Merge changed what it merges: %v, %v", a, b)
	}
	var none agent.Metadata
	if got := none.Merge(nil); got != nil {
		t.Errorf("nothing and nothing is %v", got)
	}
}

// If a question cannot be asked, the caller gets its text.
func TestNobodyAnswers(t *testing.T) {
	a := &agent.Agent{Card: agent.Card{Name: "poet"}, Run: func(ctx context.Context, r *agent.Run) error {
		_, err := r.Ask(ctx, &agent.Question{Text: "How many lines?"})
		if !errors.Is(err, agent.ErrNoAnswer) {
			t.Errorf("Ask = %v", err)
		}
		return err
	}}
	got := a.Execute(t.Context(), &agent.Run{Caller: agent.Funcs{}})
	if want := "The agent asks “How many lines?”, which this client cannot answer."; got.State != agent.Failed || got.Text != want {
		t.Errorf("%s %q, want %q", got.State, got.Text, want)
	}
}

// Choices returns one line for people, and the numbers in it are valid answers.
func TestChoices(t *testing.T) {
	q := &agent.Question{Options: []agent.Option{{ID: "a", Name: "one"}, {ID: "b"}}}
	if got := q.Choices(); got != "1 one, 2 b" {
		t.Errorf("Choices = %q", got)
	}
	for said, want := range map[string]string{"1": "a", " 2 ": "b", "one": "a", "B": "b", "0": "", "3": "", "x": ""} {
		a := agent.Reply(said)
		if q.Settle(a); a.Option != want {
			t.Errorf("%q chooses %q, want %q", said, a.Option, want)
		}
	}
}
