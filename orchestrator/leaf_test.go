package orchestrator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

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

// Whatever a member does wrong, its step ends with a matching error, and sibling steps are not
// affected.
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
p/c failed (too_large: the output exceeds 524288 bytes)
p/d timed_out (timeout: its time limit of 10s has passed)
p/e failed (unreachable: connection refused)
p/f failed (unreachable: jsonrpc: the peer's reply is not a JSON-RPC response)
p/g failed (answer: Method not found)
p/h failed (unreachable: the member "refuses" offers no agent; a step with a prompt needs one)
p/i failed (template: prompt: "nonsense" is not JSON)
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

// Steps with the same session are one conversation, in order.
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
