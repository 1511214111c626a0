package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// local makes a team of functions.
func local(runs map[string]func(ctx context.Context, r *agent.Run) error) *Team {
	t := &Team{}
	for name, run := range runs {
		t.Add(name, &Worker{Agents: agent.Local(&agent.Agent{
			Card: agent.Card{Name: name, Description: name, Skills: []agent.Skill{{ID: "be-" + name, Name: name, Tags: []string{"any"}}}},
			Run:  run,
		})})
	}
	return t
}

func says(text string) func(context.Context, *agent.Run) error {
	return func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, text) }
}

// after says a text after a time, unless it is cancelled, which it counts.
func after(d time.Duration, text string, cancelled *[]string, mu *sync.Mutex) func(context.Context, *agent.Run) error {
	return func(ctx context.Context, r *agent.Run) error {
		select {
		case <-time.After(d):
			return r.Say(ctx, text)
		case <-ctx.Done():
			if mu != nil {
				mu.Lock()
				*cancelled = append(*cancelled, text)
				mu.Unlock()
			}
			return ctx.Err()
		}
	}
}

func echo(ctx context.Context, r *agent.Run) error { return r.Say(ctx, r.Text()) }

func fails(ctx context.Context, r *agent.Run) error { return agent.Errorf("no luck") }

func never(ctx context.Context, r *agent.Run) error {
	<-ctx.Done()
	return ctx.Err()
}

func plan(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := ParsePlan("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// summary is a report as text: one line for each step.
func summary(r *Report) string {
	var b strings.Builder
	var one func(r *Report)
	one = func(r *Report) {
		fmt.Fprintf(&b, "%s %s", or(r.Path, "plan"), r.State)
		if len(r.Steps) == 0 && r.State == OK {
			fmt.Fprintf(&b, " %q", r.Text())
		}
		if r.Error != nil {
			fmt.Fprintf(&b, " (%v)", r.Error)
		}
		b.WriteByte('\n')
		for _, s := range r.Steps {
			one(s)
		}
	}
	one(r)
	return b.String()
}

// do runs a plan in a bubble, and compares the summary and the time it took.
func do(t *testing.T, r *Runner, text string, input map[string]any, took time.Duration, want string) *Report {
	t.Helper()
	begun := time.Now()
	rep, err := r.Run(t.Context(), plan(t, text), input)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimLeft(want, "\n"), summary(rep)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if got := time.Since(begun); got.Round(time.Millisecond) != took {
		t.Errorf("took %v, want %v", got, took)
	}
	return rep
}

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

// Nothing begins when the plan asks for what the team does not have.
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
		p, err := ParsePlan("", []byte(text)) // who is in the team is known to the run alone
		if err == nil {
			_, err = r.Run(t.Context(), p, nil)
		}
		if bad, ok := errors.AsType[*PlanError](err); !ok || bad.Problems[0].Line != 1 || bad.Problems[0].Column < 36 {
			t.Errorf("%s: %v", text, err)
		}
	}
	once := []Step{{Agent: "here", Prompt: "p"}}
	for name, p := range map[string]*Plan{ // made in Go: there is no line, and it is refused all the same
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
p/c cancelled (cancelled: the others were done without it)
`},
			{"quorum", `steps: [{id: p, join: quorum 2, parallel: [{id: a, agent: slow, prompt: x}, {id: b, agent: fast, prompt: x}, {id: c, agent: same, prompt: x}]}]`, 2 * time.Second, 1, `
plan ok
p ok
p/a cancelled (cancelled: the others were done without it)
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
p/d cancelled (cancelled: the others were done without it)
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

// A branch that uses another waits for it, and is skipped when it failed.
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
plan failed (1: route: there is no case "x")
1 failed (route: there is no case "x")
`)
	})
}

// Time is given out from the outside in, and what is over is cancelled where it runs.
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
plan timed_out (c: timeout: the 1m0s it had are over)
1 ok ""
2 ok ""
3 ok ""
a timed_out (timeout: the 5s it had are over)
b timed_out (b/2: timeout: the 4s it had are over)
b/1 ok "slow"
b/2 timed_out (timeout: the 4s it had are over)
b/3 skipped (skipped: an earlier step failed)
6 ok ""
c timed_out (timeout: the 1m0s it had are over)
`)
		if want := []int64{60_000, 2000, 60_000, 51_000}; !slices.Equal(left, want) {
			t.Errorf("what was left: %v, want %v", left, want)
		}
	})
}

// Who does not hear that it is cancelled holds up nobody: its step ends at its time, the others go on, and only the end of the run waits
// for its last word, for some seconds. What it says then is not told.
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
a timed_out (timeout: the 1s it had are over)
p ok
p/b cancelled (cancelled: the others were done without it)
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

// The caller cancels: what runs is cancelled, what is done is kept, what has not begun is skipped.
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
		time.Sleep(time.Hour) // the deaf one comes to its end
	})
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		keys := map[string]bool{}
		var failure error
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"flaky": func(ctx context.Context, r *agent.Run) error {
			var key string
			r.Metadata.Get(MetaIdempotencyKey, &key)
			keys[key] = true
			if tries++; tries < 3 {
				return failure
			}
			return r.Say(ctx, "at last")
		}})}
		for _, c := range []struct {
			step    string
			failure error
			tries   int
			state   State
		}{
			{"{agent: flaky, prompt: x, idempotent: true, retries: 5}", agent.Errorf("not now"), 3, OK},
			{"{agent: flaky, prompt: x, idempotent: true, retries: 1}", agent.Errorf("not now"), 2, Failed},
			{"{agent: flaky, prompt: x, idempotent: true, retries: 5}", errors.New("crash"), 3, OK},
			{"{agent: flaky, prompt: x, idempotent: true, retries: 5}", agent.Refusef("no"), 1, Failed},
			{"{agent: flaky, prompt: x}", agent.Errorf("not now"), 1, Failed},
			{"{agent: flaky, prompt: x, idempotent: true}", agent.Errorf("not now"), 1, Failed},
		} {
			tries, failure = 0, c.failure
			clear(keys)
			rep, err := r.Run(t.Context(), plan(t, "steps: ["+c.step+"]"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if tries != c.tries || rep.State != c.state || rep.Steps[0].Tries != c.tries || len(keys) != 1 {
				t.Errorf("%s, %v: %d tries with %d keys, %s; want %d, %s", c.step, c.failure, tries, len(keys), summary(rep), c.tries, c.state)
			}
		}
	})
}

// One person, one question at a time; other branches go on, and the clock of who asks stands still.
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
plan failed (1: question: it asks "x", and nobody answers)
1 failed (question: it asks "x", and nobody answers)
`)
	})
}

// Whatever a member does, its step ends with an error that says so, and its siblings are untouched.
func TestBadMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		team := local(map[string]func(context.Context, *agent.Run) error{
			"echo": echo, "panics": func(context.Context, *agent.Run) error { panic("oh") },
			"floods": func(ctx context.Context, r *agent.Run) error {
				for {
					if err := r.Say(ctx, strings.Repeat("x", 10_000)); err != nil {
						return err
					}
				}
			},
			"never": never,
		})
		team.Add("gone", &Worker{Agents: &agent.Client{Link: away{errors.New("connection refused")}}})
		team.Add("garbled", &Worker{Agents: &agent.Client{Link: away{jsonrpc.ErrBadResponse}}})
		team.Add("refuses", &Worker{Peer: jsonrpc.Local(&jsonrpc.Answerer{Handler: &jsonrpc.Mux{}}, nil)})
		r := &Runner{Team: team}
		do(t, r, `
steps:
  - id: p
    join: collect
    parallel:
      - {id: a, agent: echo, prompt: untouched}
      - {id: b, agent: panics, prompt: x}
      - {id: c, agent: floods, prompt: x}
      - {id: d, agent: never, prompt: x, timeout: 10s}
      - {id: e, agent: gone, prompt: x}
      - {id: f, agent: garbled, prompt: x}
      - {id: g, call: refuses/nothing, args: [1]}
      - {id: h, agent: refuses, prompt: x}
      - {id: i, agent: echo, prompt: "{{ json('nonsense').x }}"}
`, nil, 10*time.Second, `
plan ok
p ok
p/a ok "untouched"
p/b failed (agent: The agent failed.)
p/c failed (too_large: it says more than 524288 bytes)
p/d timed_out (timeout: the 10s it had are over)
p/e failed (unreachable: connection refused)
p/f failed (unreachable: jsonrpc: the peer's answer is no JSON-RPC response)
p/g failed (answer: Method not found)
p/h failed (unreachable: "refuses" is no agent)
p/i failed (template: prompt: "nonsense" is no JSON)
`)
	})
}

func TestToolsCallsAndSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mux jsonrpc.Mux
		mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in struct {
			Minuend    int `json:"minuend"`
			Subtrahend int `json:"subtrahend"`
		}) (int, error) {
			return in.Minuend - in.Subtrahend, nil
		}))
		team := local(map[string]func(context.Context, *agent.Run) error{"one": says("one"), "two": says("two")})
		team.Add("calc", &Worker{Peer: jsonrpc.Local(&jsonrpc.Answerer{Handler: &mux}, nil)})
		team.Add("tools", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "find-it"}, Run: func(ctx context.Context, r *agent.Run) error {
			return r.Emit(ctx, agent.Value(map[string]any{"args": r.Parts()[0].JSON}))
		}})})
		r := &Runner{Team: team}
		rep := do(t, r, `
input: {big: 9007199254740993}
steps:
  - {id: c, call: calc/subtract, args: [42, 23]}
  - {id: t, tool: tools/find-it, args: {n: "{{ c.json }}", big: "{{ input.big }}", text: "is {{ c }}", list: ["{{ c }}"]}}
  - {id: s1, skill: any, prompt: x}
  - {id: s2, skill: ANY, prompt: x}
  - {id: s3, skill: any, prompt: x}
  - {id: s4, skill: be-two, prompt: x}
output: "{{ t.json.args }}"
`, nil, 0, `
plan ok
c ok "19"
t ok "{\"args\":{\"big\":9007199254740993,\"list\":[\"19\"],\"n\":19,\"text\":\"is 19\"}}"
s1 ok "one"
s2 ok "one"
s3 ok "two"
s4 ok "two"
`)
		if rep.Text() != `{"big":9007199254740993,"list":["19"],"n":19,"text":"is 19"}` {
			t.Error(rep.Text())
		}
	})
}

// Steps with the same session are one conversation, one after the other.
func TestSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"talks": func(ctx context.Context, r *agent.Run) error {
			time.Sleep(time.Second)
			return r.Say(ctx, r.Session)
		}})}
		rep, err := r.Run(t.Context(), plan(t, `
steps:
  - {id: a, agent: talks, prompt: x, session: s}
  - {id: b, agent: talks, prompt: x}
  - {id: c, parallel: [{agent: talks, prompt: x, session: s}, {agent: talks, prompt: x, session: s}]}
`), nil)
		if err != nil || rep.State != OK {
			t.Fatal(err, summary(rep))
		}
		if rep.Ms != 4000 {
			t.Errorf("took %d ms: a conversation has one turn at a time", rep.Ms)
		}
	})
}

// away is a member that could not be reached.
type away struct{ err error }

func (a away) Agents(context.Context) ([]agent.Card, error) { return nil, a.err }

func (a away) Do(context.Context, *agent.Request, agent.Caller) (*agent.Result, error) {
	return nil, a.err
}

func (a away) Attach(context.Context, string, agent.Caller) (*agent.Result, error) {
	return nil, a.err
}

func (a away) Close() error { return nil }
