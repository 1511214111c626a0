package agenttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
)

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

// byName joins the parts of each artifact.
func byName(parts []agent.Part) []agent.Part {
	out := slices.Clone(parts)
	slices.SortStableFunc(out, func(a, b agent.Part) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// relayed tests that an agent called in this protocol can be served in it again.
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
	// A caller who answers a question may receive the output sent meanwhile grouped by artifact.
	if diff := cmp.Diff(byName(Parts()), byName(r.Output), equal); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
}
