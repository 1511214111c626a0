package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo, "fails": fails})}
		do(t, r, `
input: {topic: }
steps:
  - {id: a, agent: echo, prompt: "about {{ input.topic }}"}
  - {id: b, agent: echo, prompt: "{{ a }}, {{ a.text }} is {{ a.state }}", when: "contains(a, 'cats')"}
  - {id: c, agent: echo, prompt: not today, when: "contains(a, 'dogs')"}
  - {id: d, agent: fails, prompt: x, optional: true}
  - {id: e, agent: echo, prompt: "{{ d.state }}: {{ d.error }}; {{ c.state }}"}
output: "{{ b }} | {{ e }}"
`, map[string]any{"topic": "cats"}, 0, `
plan ok
a ok "about cats"
b ok "about cats, about cats is ok"
c skipped (skipped: when is not true)
d failed (agent: no luck)
e ok "failed: no luck; skipped"
`)
		rep := do(t, r, `
steps:
  - {id: a, agent: fails, prompt: x}
  - {id: b, agent: echo, prompt: x}
  - steps: [{agent: echo, prompt: x}]
`, nil, 0, `
plan failed (a: agent: no luck)
a failed (agent: no luck)
b skipped (skipped: an earlier step failed)
3 skipped (skipped: an earlier step failed)
`)
		if err := rep.Err(); err == nil || err.Error() != "a: agent: no luck" {
			t.Errorf("Err = %v", err)
		}
	})
}

func TestInput(t *testing.T) {
	p := plan(t, "input: {must: , may: {default: 7}, list: [1, 2]}\nsteps: [{agent: echo, prompt: '{{ input.must }} {{ input.may }} {{ length(input.list) }}'}]")
	r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo})}
	for _, bad := range []map[string]any{nil, {"must": 1, "other": 2}, {"must": func() {}}} {
		_, err := r.Run(t.Context(), p, bad)
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("%v: %v, want an InputError", bad, err)
		}
	}
	rep, err := r.Run(t.Context(), p, map[string]any{"must": jsonrpc.Raw("9007199254740993")})
	if err != nil || rep.Text() != "9007199254740993 7 2" {
		t.Errorf("%q, %v", rep.Text(), err)
	}
}

// Nothing starts if the plan needs something that the team does not have.
func TestRefused(t *testing.T) {
	ran := false
	r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"here": func(context.Context, *agent.Run) error {
		ran = true
		return nil
	}})}
	for _, text := range []string{
		"steps: [{agent: here, prompt: p}, {agent: away, prompt: p}]",
		"steps: [{agent: here, prompt: p}, {skill: knitting, prompt: p}]",
		"steps: [{agent: here, prompt: p}, {tool: away/find, args: {}}]",
		"steps: [{agent: here, prompt: p}, {call: away/sum, args: [1]}]",
		"steps: [{agent: here, prompt: p}, {loop: [{agent: here, prompt: p}]}]",
		"steps: [{agent: here, prompt: p}, {agent: here, prompt: '{{ x }}'}]",
		"steps: [{agent: here, prompt: p}, {parallel: [{id: a, agent: here, prompt: '{{ b }}'}, {id: b, agent: here, prompt: '{{ a }}'}]}]",
	} {
		p, err := ParsePlan("", []byte(text)) // only the run has the team
		if err == nil {
			_, err = r.Run(t.Context(), p, nil)
		}
		if bad, ok := errors.AsType[*PlanError](err); !ok || bad.Problems[0].Line != 1 || bad.Problems[0].Column < 36 {
			t.Errorf("%s: %v", text, err)
		}
	}
	once := []Step{{Agent: "here", Prompt: "p"}}
	// Plans made in Go have no lines and are rejected as well.
	for name, p := range map[string]*Plan{
		"agent":    {Steps: append(once, Step{Agent: "away", Prompt: "p"})},
		"loop":     {Steps: append(once, Step{Loop: once})},
		"template": {Steps: append(once, Step{Agent: "here", Prompt: "{{ x }}"})},
		"cycle":    {Steps: append(once, Step{Parallel: []Step{{ID: "a", Agent: "here", Prompt: "p", After: []string{"b"}}, {ID: "b", Agent: "here", Prompt: "p", After: []string{"a"}}}})},
	} {
		_, err := r.Run(t.Context(), p, nil)
		if _, ok := errors.AsType[*PlanError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ran {
		t.Error("a step ran")
	}
}

// Timeouts are inherited from the outside in, and a step that exceeds its timeout is cancelled at
// its member.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left []int64
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"never": never, "slow": after(3*time.Second, "slow", nil, nil), "left": func(ctx context.Context, r *agent.Run) error {
			var ms int64
			r.Metadata.Get(MetaDeadline, &ms)
			left = append(left, ms)
			return nil
		}})}
		do(t, r, `
deadline: 1m
steps:
  - {agent: left, prompt: x}
  - {agent: left, prompt: x, timeout: 2s}
  - {agent: left, prompt: x, timeout: 2m}
  - {id: a, agent: never, prompt: x, timeout: 5s, optional: true}
  - id: b
    timeout: 4s
    optional: true
    steps: [{agent: slow, prompt: x}, {agent: slow, prompt: x}, {agent: slow, prompt: x}]
  - {agent: left, prompt: x}
  - {id: c, agent: never, prompt: x}
`, nil, time.Minute, `
plan timed_out (c: timeout: its time limit of 1m0s has passed)
1 ok ""
2 ok ""
3 ok ""
a timed_out (timeout: its time limit of 5s has passed)
b timed_out (b/2: timeout: its time limit of 4s has passed)
b/1 ok "slow"
b/2 timed_out (timeout: its time limit of 4s has passed)
b/3 skipped (skipped: an earlier step failed)
6 ok ""
c timed_out (timeout: its time limit of 1m0s has passed)
`)
		if want := []int64{60_000, 2000, 60_000, 51_000}; !slices.Equal(left, want) {
			t.Errorf("what was left: %v, want %v", left, want)
		}
	})
}

// A member that ignores its cancellation does not delay others: its step ends at its timeout and
// other steps continue. Only the end of the run waits a few seconds for the member's final events,
// which are not reported.
func TestDeafMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var when []string
		begun := time.Now()
		r := &Runner{
			Team: local(map[string]func(context.Context, *agent.Run) error{
				"echo": echo, "slow": after(time.Second, "x", nil, nil), "deaf": func(_ context.Context, r *agent.Run) error {
					time.Sleep(4 * time.Second)
					if err := r.Say(context.Background(), "too late"); err == nil {
						t.Error("what is said too late is taken")
					}
					return nil
				},
			}),
			OnEvent: func(e Event) {
				if e.Kind == EventEnded || e.Kind == EventOutput || e.Kind == EventRunEnded {
					when = append(when, fmt.Sprint(time.Since(begun), " ", e.Kind, " ", e.Path))
				}
			},
		}
		do(t, r, `
steps:
  - {id: a, agent: deaf, prompt: x, timeout: 1s, optional: true}
  - {id: p, join: any, parallel: [{id: b, agent: deaf, prompt: x}, {id: c, agent: slow, prompt: x}]}
  - {id: d, agent: echo, prompt: x}
`, nil, 1250*time.Millisecond+4*time.Second, `
plan ok
a timed_out (timeout: its time limit of 1s has passed)
p ok
p/b cancelled (cancelled: the join did not need it)
p/c ok "x"
d ok "x"
`)
		want := []string{
			"1.25s ended a", "2.25s output p/c", "2.25s ended p/c", "2.5s ended p/b", "2.5s ended p", "2.5s output d", "2.5s ended d", "5.25s run_ended ",
		}
		if d := cmp.Diff(want, when); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	})
}

// The caller cancels: running steps are cancelled, finished ones keep their results, and those not
// yet started are skipped.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			losers []string
		)
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{
			"echo": echo, "slow": after(time.Minute, "slow", &losers, &mu), "deaf": func(context.Context, *agent.Run) error {
				time.Sleep(time.Minute)
				return nil
			},
		})}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) })
		begun := time.Now()
		rep, err := r.Run(ctx, plan(t, `
steps:
  - {id: a, agent: echo, prompt: kept}
  - id: p
    parallel: [{id: b, agent: slow, prompt: x}, {id: c, agent: deaf, prompt: x}, {id: d, agent: echo, prompt: kept}]
  - {id: e, agent: echo, prompt: x}
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := `
plan cancelled (p/b: cancelled: enough)
a ok "kept"
p cancelled (p/b: cancelled: enough)
p/b cancelled (cancelled: enough)
p/c cancelled (stuck: enough, and it does not stop)
p/d ok "kept"
e skipped (skipped: an earlier step failed)
`
		if d := cmp.Diff(want[1:], summary(rep)); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
		if got := time.Since(begun); got != time.Second+grace {
			t.Errorf("took %v", got)
		}
		if len(losers) != 1 {
			t.Errorf("%v were cancelled", losers)
		}
		time.Sleep(time.Hour) // the member that ignores its cancellation ends
	})
}
