package orchestrator

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/agent"
)

func TestJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu     sync.Mutex
			losers []string
		)
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{
			"fast": after(time.Second, "fast", nil, nil), "same": after(2*time.Second, " fast\n", nil, nil), "other": after(time.Second, "other", nil, nil),
			"slow": after(time.Minute, "slow", &losers, &mu), "fails": fails, "late": func(ctx context.Context, _ *agent.Run) error {
				time.Sleep(3 * time.Second)
				return agent.Refusef("no")
			},
		})}
		for _, c := range []struct {
			name, text string
			took       time.Duration
			losers     int
			want       string
		}{
			{"all", `steps: [{id: p, parallel: [{id: a, agent: fast, prompt: x}, {id: b, agent: same, prompt: x}]}]`, 2 * time.Second, 0, `
plan ok
p ok
p/a ok "fast"
p/b ok " fast\n"
`},
			{"all, one fails: the others are cancelled, what is done is kept",
				`steps: [{id: p, parallel: [{id: a, agent: fast, prompt: x}, {id: b, agent: late, prompt: x}, {id: c, agent: slow, prompt: x}]}]`, 3 * time.Second, 1, `
plan failed (p/b: rejected: no)
p failed (p/b: rejected: no)
p/a ok "fast"
p/b failed (rejected: no)
p/c cancelled (cancelled: another branch failed)
`},
			{"any", `steps: [{id: p, join: any, parallel: [{id: a, agent: fails, prompt: x}, {id: b, agent: fast, prompt: x}, {id: c, agent: slow, prompt: x}]}]`, time.Second, 1, `
plan ok
p ok
p/a failed (agent: no luck)
p/b ok "fast"
p/c cancelled (cancelled: the join did not need it)
`},
			{"quorum", `steps: [{id: p, join: quorum 2, parallel: [{id: a, agent: slow, prompt: x}, {id: b, agent: fast, prompt: x}, {id: c, agent: same, prompt: x}]}]`, 2 * time.Second, 1, `
plan ok
p ok
p/a cancelled (cancelled: the join did not need it)
p/b ok "fast"
p/c ok " fast\n"
`},
			{"a quorum that cannot be any more", `steps: [{id: p, join: quorum 2, parallel: [{id: a, agent: slow, prompt: x}, {id: b, agent: fails, prompt: x}, {id: c, agent: late, prompt: x}]}]`, 3 * time.Second, 1, `
plan failed (p: join: 0 of 3 are ok, quorum needs 2; first agent: no luck)
p failed (join: 0 of 3 are ok, quorum needs 2; first agent: no luck)
p/a cancelled (cancelled: another branch failed)
p/b failed (agent: no luck)
p/c failed (rejected: no)
`},
			{"a quorum that agrees", `steps: [{id: p, join: quorum 2, agree: true, parallel: [{id: a, agent: other, prompt: x}, {id: b, agent: fast, prompt: x}, {id: c, agent: same, prompt: x}, {id: d, agent: slow, prompt: x}]}]
output: "{{ p }}"`, 2 * time.Second, 1, `
plan ok
p ok
p/a ok "other"
p/b ok "fast"
p/c ok " fast\n"
p/d cancelled (cancelled: the join did not need it)
`},
			{"collect", `steps: [{id: p, join: collect, parallel: [{id: a, agent: fails, prompt: x}, {id: b, agent: fast, prompt: x}]}]`, time.Second, 0, `
plan ok
p ok
p/a failed (agent: no luck)
p/b ok "fast"
`},
			{"an optional branch", `steps: [{id: p, parallel: [{id: a, agent: fails, prompt: x, optional: true}, {id: b, agent: fast, prompt: x}]}]`, time.Second, 0, `
plan ok
p ok
p/a skipped (agent: no luck)
p/b ok "fast"
`},
		} {
			losers = nil
			rep := do(t, r, c.text, nil, c.took, c.want)
			if len(losers) != c.losers {
				t.Errorf("%s: %d were cancelled, want %d", c.name, len(losers), c.losers)
			}
			if strings.HasPrefix(c.name, "a quorum that agrees") && rep.Text() != "fast" {
				t.Errorf("%s: %q", c.name, rep.Text())
			}
		}
	})
}

// A branch that uses another waits for it, and is skipped if the other failed.
func TestBranchesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo, "fails": fails, "slow": after(time.Second, "slow", nil, nil)})}
		do(t, r, `
steps:
  - id: p
    join: collect
    parallel:
      - {id: last, agent: echo, prompt: "{{ middle }}!"}
      - {id: middle, steps: [{agent: echo, prompt: "<{{ first }}>"}]}
      - {id: first, agent: slow, prompt: x}
      - {id: bad, agent: fails, prompt: x}
      - {id: orphan, agent: echo, prompt: x, after: [bad]}
`, nil, time.Second, `
plan ok
p ok
p/last ok "<slow>!"
p/middle ok
p/middle/1 ok "<slow>"
p/first ok "slow"
p/bad failed (agent: no luck)
p/orphan skipped (skipped: it waits for p/bad, which is failed)
`)
	})
}

func TestMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"count": func(ctx context.Context, r *agent.Run) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() {
				mu.Lock()
				now--
				mu.Unlock()
			}()
			d := time.Second
			if r.Text() == "bad" {
				d += time.Second / 2
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return ctx.Err()
			}
			if r.Text() == "bad" {
				return agent.Errorf("bad")
			}
			return r.Say(ctx, r.Text())
		}})}
		rep := do(t, r, `
input: {list: [a, b, c, d, e, f, g]}
steps:
  - id: m
    map: "{{ input.list }}"
    as: letter
    limit: 3
    do: [{agent: count, prompt: "{{ index }}{{ letter }}"}]
output: "{{ join(m.texts, '-') }} {{ m.results[1].text }}"
`, nil, 3*time.Second, `
plan ok
m ok
m/1 ok
m/1/1 ok "1a"
m/2 ok
m/2/1 ok "2b"
m/3 ok
m/3/1 ok "3c"
m/4 ok
m/4/1 ok "4d"
m/5 ok
m/5/1 ok "5e"
m/6 ok
m/6/1 ok "6f"
m/7 ok
m/7/1 ok "7g"
`)
		if most != 3 || rep.Text() != "1a-2b-3c-4d-5e-6f-7g 2b" {
			t.Errorf("%d at a time, %q", most, rep.Text())
		}
		do(t, r, `
steps:
  - id: m
    map: '["x", "bad", "y", "z"]'
    limit: 2
    do: [{agent: count, prompt: "{{ item }}"}]
`, nil, 1500*time.Millisecond, `
plan failed (m/2/1: agent: bad)
m failed (m/2/1: agent: bad)
m/1 ok
m/1/1 ok "x"
m/2 failed (m/2/1: agent: bad)
m/2/1 failed (agent: bad)
m/3 cancelled (m/3/1: cancelled: another branch failed)
m/3/1 cancelled (cancelled: another branch failed)
m/4 cancelled (cancelled: another branch failed)
`)
	})
}

func TestRouteAndLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo, "judge": func(ctx context.Context, r *agent.Run) error {
			if n++; n == 3 {
				return r.Say(ctx, "good")
			}
			return r.Say(ctx, "bad")
		}})}
		text := `
input: {kind: }
steps:
  - id: r
    route: "{{ input.kind }}"
    cases:
      bug: [{id: fix, agent: echo, prompt: fixed}]
      idea: [{agent: echo, prompt: kept}]
    else: [{agent: echo, prompt: "what is {{ input.kind }}?"}]
  - id: l
    times: 5
    until: verdict == 'good'
    loop:
      - {id: draft, agent: echo, prompt: "{{ default(loop.last.text, r.case) }}{{ loop.index }}"}
      - {id: verdict, agent: judge, prompt: x}
output: "{{ r }} {{ l }} {{ l.times }}"
`
		rep := do(t, r, text, map[string]any{"kind": "bug\n"}, 0, `
plan ok
r ok
r/bug/fix ok "fixed"
l ok
l/1/draft ok "bug1"
l/1/verdict ok "bad"
l/2/draft ok "bad2"
l/2/verdict ok "bad"
l/3/draft ok "bad3"
l/3/verdict ok "good"
`)
		if rep.Text() != "fixed good 3" {
			t.Errorf("%q", rep.Text())
		}
		n = -10
		rep, err := r.Run(t.Context(), plan(t, text), map[string]any{"kind": "joke"})
		if err != nil || rep.Error == nil || rep.Error.Kind != KindLoop || rep.Find("r").Text() != "what is joke?" {
			t.Errorf("%v, %v", err, summary(rep))
		}
		do(t, r, `
steps:
  - {route: x, cases: {y: [{agent: echo, prompt: x}]}}
`, nil, 0, `
plan failed (1: route: unknown case "x")
1 failed (route: unknown case "x")
`)
	})
}
