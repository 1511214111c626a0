package orchestrator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/agent"
)

// A plan is an agent and can be a member of another team: events, questions, failures and
// cancellations pass through.
func TestPlansNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancelled []string
		inner := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{
			"echo": echo, "fails": fails, "slow": func(ctx context.Context, _ *agent.Run) error {
				<-ctx.Done()
				cancelled = append(cancelled, "slow")
				return ctx.Err()
			},
			"asks": func(ctx context.Context, r *agent.Run) error {
				a, err := r.Ask(ctx, &agent.Question{Text: "Which?"})
				if err != nil {
					return err
				}
				return r.Say(ctx, a.Text())
			},
		})}
		as := func(name, text string) *agent.Agent {
			p := plan(t, text)
			p.Name = name
			return inner.Agent(agent.Card{}, p)
		}
		team := &Team{}
		for _, a := range []*agent.Agent{
			as("says", "input: {topic: , length: 3}\nsteps: [{agent: echo, prompt: '{{ input.topic }} {{ input.length }}'}]"),
			as("bad", "steps: [{id: f, agent: fails, prompt: x}]"),
			as("waits", "steps: [{agent: slow, prompt: x}]"),
			as("wonders", "steps: [{agent: asks, prompt: x}]"),
		} {
			team.Add(a.Name, &Worker{Agents: agent.Local(a)})
		}
		progress := 0
		r := &Runner{Team: team, Ask: func(_ context.Context, q *Question) (*agent.Answer, error) {
			if q.Text != "Which?" || q.Path != "p/wonders" {
				t.Errorf("%+v", q)
			}
			return agent.Reply("this"), nil
		}, OnEvent: func(e Event) {
			if e.Kind == EventProgress {
				progress++
			}
		}}
		do(t, r, `
steps:
  - id: p
    join: collect
    parallel:
      - {id: text, agent: says, prompt: cats}
      - {id: json, agent: says, prompt: '{"topic": "dogs", "length": 9}'}
      - {id: wrong, agent: says, prompt: '{"topic": "dogs", "wide": 9}'}
      - {id: bad, agent: bad, prompt: x}
      - {id: wonders, agent: wonders, prompt: x}
      - {id: waits, agent: waits, prompt: x, timeout: 5s}
`, nil, 5*time.Second, `
plan ok
p ok
p/text ok "cats 3"
p/json ok "dogs 9"
p/wrong failed (rejected: input: the plan has no input "wide")
p/bad failed (agent: f: agent: no luck)
p/wonders ok "this"
p/waits timed_out (timeout: its time limit of 5s has passed)
`)
		if len(cancelled) != 1 || progress < 5 {
			t.Errorf("%d were cancelled, %d events of progress", len(cancelled), progress)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Run(ctx, plan(t, "steps: [{agent: says, prompt: x}]"), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	})
}
