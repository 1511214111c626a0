package agenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Questions returns one question of each kind, with an answer to each.
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

// noAnswer tests that a run whose question is not answered ends, and does not continue without its
// caller.
func (s *suite) noAnswer(t *testing.T) {
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
	arrived(t, ended, "the end of a run without an answer")
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
