package agenttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/agent"
)

// arrived waits until c receives or is closed.
func arrived(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(15 * time.Second):
		t.Fatalf("%s did not come", what)
	}
}

func (s *suite) cancel(t *testing.T) {
	running, ended, late := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		close(running)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		// The protocol may know of the cancel before ctx does.
		late <- r.Say(context.WithoutCancel(ctx), "late")
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
	if err := <-late; err != nil && !errors.Is(err, agent.ErrCancelled) {
		t.Errorf("output after the cancel: %v, want %v or none", err, agent.ErrCancelled)
	}
}

func (s *suite) cancelAsking(t *testing.T) {
	ended := make(chan struct{})
	c := s.client(t, func(ctx context.Context, r *agent.Run) error {
		defer close(ended)
		_, err := r.Ask(ctx, &agent.Question{Text: "Why?"})
		if ctx.Err() == nil { // an agent that goes on without an answer would complete its run
			t.Errorf("Ask = %v before the agent's context has ended", err)
		}
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
		t.Errorf("the earlier output is %q", r)
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
