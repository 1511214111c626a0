package orchestrator

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/agent"
)

// The user gets one question at a time; other branches continue, and the clock of the asking step
// is paused.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := func(ctx context.Context, r *agent.Run) error {
			ok, err := r.Confirm(ctx, r.Text())
			if err != nil {
				return err
			}
			return r.Say(ctx, fmt.Sprint(ok))
		}
		var (
			asking, most int
			order        []string
		)
		r := &Runner{
			Team: local(map[string]func(context.Context, *agent.Run) error{"asks": asks, "slow": after(time.Minute, "slow", nil, nil), "forever": func(ctx context.Context, r *agent.Run) error {
				for {
					if _, err := r.Ask(ctx, &agent.Question{Text: "again?"}); err != nil {
						return err
					}
				}
			}}),
			Ask: func(ctx context.Context, q *Question) (*agent.Answer, error) {
				asking++
				most = max(most, asking)
				defer func() { asking-- }()
				if q.Text == "again?" {
					return agent.Reply("yes"), nil
				}
				order = append(order, q.Path+":"+q.Member)
				time.Sleep(time.Hour)
				return agent.Reply("yes"), nil
			},
		}
		do(t, r, `
steps:
  - id: p
    timeout: 2m
    parallel:
      - {id: a, agent: asks, prompt: "really?", timeout: 1s}
      - {id: b, agent: asks, prompt: "really?", timeout: 1s}
      - {id: c, agent: slow, prompt: x}
  - {id: q, ask: "And you, {{ p.results.a }}?", options: ["yes", "no"]}
  - {id: s, agent: slow, prompt: x, when: "q.option == 'yes'"}
`, nil, 3*time.Hour+time.Minute, `
plan ok
p ok
p/a ok "true"
p/b ok "true"
p/c ok "slow"
q ok "yes"
s ok "slow"
`)
		if most != 1 || len(order) != 3 || order[2] != "q:" {
			t.Errorf("%d at a time: %v", most, order)
		}
		do(t, r, `steps: [{agent: forever, prompt: x}]`, nil, 0, `
plan failed (1: question: it asks more than 20 questions)
1 failed (question: it asks more than 20 questions)
`)
		r.Ask = nil
		do(t, r, `steps: [{agent: asks, prompt: x}]`, nil, 0, `
plan failed (1: question: the question "x" has no answer)
1 failed (question: the question "x" has no answer)
`)
	})
}
