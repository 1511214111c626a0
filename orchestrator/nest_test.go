package orchestrator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// A plan is served in every protocol over a bidirectional transport. Its question comes back over
// the same connection, and its cancellation reaches the agent that works for it.
func TestPlansNestInEveryProtocol(t *testing.T) {
	var log memoryLog
	worker := &Runner{Team: &Team{}, Report: func(what string, err error) { t.Log(what, err) }}
	worker.Team.Add("deep", &Worker{Agents: agent.Local(testAgent("deep", log.add))})
	planner := worker.Agent(agent.Card{Name: "planner", Description: "Does a plan.", Version: "1"}, plan(t, `
input: {order: }
steps:
  - {agent: deep, prompt: "{{ input.order }}"}
`))
	var serving sync.WaitGroup
	defer serving.Wait()
	serve := func(f func(ctx context.Context, there jsonrpc.Transport) error) jsonrpc.Transport {
		here, there := inproc.Pipe(nil)
		// Ends when the other end is closed.
		serving.Go(func() { _ = f(context.WithoutCancel(t.Context()), there) })
		return here
	}
	ibm := acp.NewServer(nil)
	defer ibm.Close()
	ibm.Add(acpagent.New(planner))
	google := a2a.NewServer(a2aagent.Card(&planner.Card), a2aagent.New(planner), nil)
	defer google.Close()
	tools := mcp.NewServer(mcp.Implementation{Name: "plans", Version: "1"}, nil)
	defer tools.Close()
	added := mcpagent.Add(tools, planner)
	defer added.Close()

	team := &Team{}
	defer team.Close()
	add := func(name string, c *agent.Client, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		team.Add(name, &Worker{Agents: c, Agent: "planner", Close: c.Close})
	}
	add("acp", acpagent.Client(acp.Connect(t.Context(), serve(ibm.Serve), nil)), nil)
	add("a2a", a2aagent.Client(a2a.Connect(t.Context(), serve(google.Serve), nil), nil), nil)
	c, err := editoragent.Connect(t.Context(), serve(editoragent.New(planner, nil).Serve), nil)
	add("editor", c, err)
	c, err = mcpagent.Connect(t.Context(), serve(tools.Serve), mcp.Implementation{Name: "test", Version: "1"}, nil)
	add("mcp", c, err)

	r := &Runner{Team: team, Ask: func(_ context.Context, q *Question) (*agent.Answer, error) { return agent.Reply(q.Text + "!"), nil }}
	for _, name := range []string{"acp", "a2a", "editor", "mcp"} {
		ctx, cancel := context.WithCancel(t.Context())
		rep, err := r.Run(ctx, plan(t, strings.ReplaceAll(`
steps:
  - {id: says, agent: NAME, prompt: hello}
  - {id: asks, agent: NAME, prompt: ask why}
`, "NAME", name)), nil)
		if err != nil || rep.State != OK || rep.Find("says").Text() != "deep says hello" || rep.Find("asks").Text() != "answer why!" {
			t.Errorf("%s: %v\n%s", name, err, summary(rep))
		}
		before := log.count("deep waits")
		serving.Go(func() {
			log.wait(t, "deep waits", before+1)
			cancel()
		})
		rep, err = r.Run(ctx, plan(t, "steps: [{agent: "+name+", prompt: wait}]"), nil)
		if err != nil || rep.State != Cancelled {
			t.Errorf("%s: %v\n%s", name, err, summary(rep))
		}
		log.wait(t, "deep cancelled", before+1)
		cancel()
	}
}

func init() {
	answer := func(times int, before string) func(string) error {
		return func(string) error {
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				bad := jsonrpc.Scan(lines.Bytes(), func(m *jsonrpc.Message) {
					if m.Method == "silence" || !m.Request || m.ID.IsZero() {
						return
					}
					fmt.Print(before)
					for i := range times {
						fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"%s %d\"}\n", m.ID, m.Method, i+1)
					}
				})
				if bad != nil {
					return bad
				}
			}
			return nil
		}
	}
	children["twice"] = answer(2, "")
	children["chatty"] = answer(1, "Loading the model…\n\n{\"progress\": 50}\n")
	children["rubbish"] = func(string) error {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until EOF
			os.Exit(0)
		}()
		for {
			if _, err := fmt.Println("this is no JSON-RPC"); err != nil {
				return err
			}
		}
	}
	children["mute"] = func(string) error {
		_, err := io.Copy(io.Discard, os.Stdin) // until EOF
		return err
	}
}

// Programs that violate their protocol: each of their steps ends within its timeout with the
// reason, and other steps are not affected.
func TestBadPrograms(t *testing.T) {
	t.Parallel() // it waits for timeouts; other tests may run meanwhile
	members := map[string]Member{}
	for name, protocol := range map[string]string{"twice": "jsonrpc", "chatty": "jsonrpc", "rubbish": "jsonrpc", "mute": "acp"} {
		members[name] = Member{Command: []string{os.Args[0], "child"}, Protocol: protocol, Env: []string{childEnv + "=" + name}}
	}
	members["garbled"] = Member{Command: members["rubbish"].Command, Protocol: "mcp", Env: members["rubbish"].Env}
	members["dumb"] = Member{Command: members["mute"].Command, Protocol: "editor", Env: members["mute"].Env}
	var log memoryLog
	team, err := Dial(t.Context(), members, &DialOptions{Timeout: 2 * time.Second, Report: func(what string, err error) {
		name, _, _ := strings.Cut(err.Error(), ":")
		log.add(name + ": " + what)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	log.wait(t, "garbled: "+ReportUnreachable, 1)
	log.wait(t, "dumb: "+ReportUnreachable, 1)
	rep, err := (&Runner{Team: team}).Run(t.Context(), plan(t, `
deadline: 30s
steps:
  - id: p
    join: collect
    parallel:
      - {id: t1, call: twice/one}
      - {id: t2, call: twice/two}
      - {id: silence, call: twice/silence, timeout: 500ms}
      - {id: chatty, call: chatty/one}
      - {id: rubbish, call: rubbish/one, timeout: 5s}
      - {id: garbled, agent: garbled, prompt: x}
      - {id: dumb, agent: dumb, prompt: x}
      - {id: mute, agent: mute, prompt: x, timeout: 500ms}
  - {id: again, call: twice/three}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		state      State
		kind, text string
	}{
		"p/t1": {OK, "", "one 1"}, "p/t2": {OK, "", "two 1"}, "again": {OK, "", "three 1"}, "p/chatty": {OK, "", "one 1"},
		"p/silence": {TimedOut, KindTimeout, ""}, "p/mute": {TimedOut, KindTimeout, ""}, "p/rubbish": {Failed, KindUnreachable, ""},
		"p/garbled": {Failed, KindUnreachable, ""}, "p/dumb": {Failed, KindUnreachable, ""},
	} {
		s := rep.Find(path)
		if s.State != want.state || s.Text() != want.text || s.Error != nil && s.Error.Kind != want.kind {
			t.Errorf("%s is %s %q, %v; want %+v", path, s.State, s.Text(), s.Error, want)
		}
	}
	t.Log(summary(rep))
}
