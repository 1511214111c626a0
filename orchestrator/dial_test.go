package orchestrator

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

func init() {
	children["editor"] = func(string) error {
		return editoragent.New(testAgent("editor", stderrLog), nil).Serve(context.Background(), stdio.New(nil))
	}
	children["mcp"] = func(string) error {
		s := mcp.NewServer(mcp.Implementation{Name: "tools", Version: "1"}, nil)
		defer s.Close()
		tools := mcpagent.Add(s, testAgent("tool", stderrLog))
		defer tools.Close()
		return s.Serve(context.Background(), stdio.New(nil))
	}
}

// A peerLog records what happens at the peer.
type peerLog func(line string)

func stderrLog(line string) { fmt.Fprintln(os.Stderr, line) }

// testAgent does what its prompt says: wait, ask, exit, or else echo.
func testAgent(name string, log peerLog) *agent.Agent {
	return &agent.Agent{
		Card: agent.Card{Name: name, Description: "Does what it is told.", Version: "1", Skills: []agent.Skill{{ID: "skill-of-" + name, Name: name, Description: "x", Tags: []string{"test"}}}},
		Run: func(ctx context.Context, r *agent.Run) error {
			switch word, rest, _ := strings.Cut(r.Text(), " "); word {
			case "wait":
				log(name + " waits")
				<-ctx.Done()
				log(name + " cancelled")
				return ctx.Err()
			case "ask":
				a, err := r.Ask(ctx, &agent.Question{Text: rest})
				if err != nil {
					return err
				}
				return r.Say(ctx, "answer "+a.Text())
			case "die":
				os.Exit(7)
			}
			return r.Say(ctx, name+" says "+r.Text())
		},
	}
}

// A memoryLog stores lines and wakes goroutines that wait for one.
type memoryLog struct {
	mu      sync.Mutex // guards the fields below
	lines   map[string]int
	changed chan struct{}
}

func (l *memoryLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[string]int{}
	}
	l.lines[line]++
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func (l *memoryLog) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[line]
}

// wait returns when the log contains line the given number of times. It fails the test if that does
// not happen in time.
func (l *memoryLog) wait(t *testing.T, line string, times int) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		l.mu.Lock()
		there := l.lines[line] >= times
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		if there {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Errorf("%q does not stand in the log %d times", line, times)
			return
		}
	}
}

func web(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// peers serves the test agent in every protocol and returns how to reach each.
func peers(t *testing.T, log *memoryLog) map[string]Member {
	t.Helper()
	members := map[string]Member{}

	ibm := acp.NewServer(nil)
	t.Cleanup(func() { _ = ibm.Close() })
	ibm.Add(acpagent.New(testAgent("ibm", log.add)))
	ibm.Add(acpagent.New(testAgent("other", log.add)))
	rest, err := acphttp.NewREST(ibm, nil)
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := acphttp.NewRPC(ibm, nil)
	if err != nil {
		t.Fatal(err)
	}
	members["rest"] = Member{Target: web(t, rest), Protocol: "acp", Agent: "ibm"}
	members["rpc"] = Member{Target: web(t, rpc), Protocol: "acp", Agent: "ibm"}
	alone := acp.NewServer(nil)
	t.Cleanup(func() { _ = alone.Close() })
	alone.Add(acpagent.New(testAgent("alone", log.add)))
	unnamed, err := acphttp.NewREST(alone, nil)
	if err != nil {
		t.Fatal(err)
	}
	members["alone"] = Member{Target: web(t, unnamed), Protocol: "acp"}

	a := testAgent("a2a", log.add)
	card := a2aagent.Card(&a.Card)
	card.SupportedInterfaces = a2ahttp.Interfaces("/rpc", "/v1")
	google := a2a.NewServer(card, a2aagent.New(a), nil)
	t.Cleanup(google.Close)
	h := &a2ahttp.Server{A2A: google}
	mux := http.NewServeMux()
	mux.Handle("/rpc", h.RPC())
	mux.Handle("/v1/", http.StripPrefix("/v1", h.REST()))
	mux.Handle(a2ahttp.CardPath, h.Card())
	members["a2a"] = Member{Target: web(t, mux), Protocol: "a2a"}

	tools := mcp.NewServer(mcp.Implementation{Name: "tools", Version: "1"}, nil)
	t.Cleanup(tools.Close)
	agents := mcpagent.Add(tools, testAgent("tool", log.add))
	t.Cleanup(agents.Close)
	type number struct {
		N int `json:"n"`
	}
	mcp.AddTool(tools, mcp.Tool{Name: "double", Description: "Doubles a number."}, func(_ context.Context, _ *mcp.Request, in number) (number, error) {
		return number{2 * in.N}, nil
	})
	overHTTP := mcphttp.NewHandler(tools, nil)
	t.Cleanup(func() { _ = overHTTP.Close() })
	members["mcphttp"] = Member{Target: web(t, overHTTP), Protocol: "mcp", Agent: "tool"}

	for _, name := range []string{"editor", "mcp"} {
		members[name] = Member{Command: []string{os.Args[0], "child"}, Protocol: name, Env: []string{childEnv + "=" + name}}
	}

	var methods jsonrpc.Mux
	methods.Add("subtract", jsonrpc.Func(func(_ context.Context, in []int) (int, error) { return in[0] - in[1], nil }))
	methods.Add("wait", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		log.add("jsonrpc waits")
		<-ctx.Done()
		log.add("jsonrpc cancelled")
		return nil, ctx.Err()
	}))
	listener := &parley.Listener{Handler: &methods, Mode: methods.Mode}
	target, err := parley.ParseTarget("tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Listen(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	// Ends when server is closed.
	serving.Go(func() { _ = server.Serve(context.WithoutCancel(t.Context())) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	members["jsonrpc"] = Member{Target: server.Targets()[0].String(), Protocol: "jsonrpc"}
	return members
}

// dial connects to members and adds their stderr to the log.
func dial(t *testing.T, members map[string]Member, log *memoryLog) *Team {
	t.Helper()
	team, err := Dial(t.Context(), members, &DialOptions{
		Report: func(what string, err error) { t.Log(what, err) },
		Stderr: func(_, line string) { log.add(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return team
}

// One plan, every protocol, over HTTP, over a TCP socket and to child processes: each agent is
// called, one of each protocol is cancelled on the wire, a question is answered, and one process
// dies.
func TestEveryProtocol(t *testing.T) {
	var log memoryLog
	members := peers(t, &log)
	members["nobody"] = Member{Target: "http://127.0.0.1:1", Protocol: "a2a"}
	members["nothing"] = Member{Command: []string{"/does/not/exist"}, Protocol: "editor"}
	team := dial(t, members, &log)
	defer team.Close()
	asked := 0
	r := &Runner{Team: team, Ask: func(_ context.Context, q *Question) (*agent.Answer, error) {
		asked++
		return agent.Reply("to " + q.Text), nil
	}}
	rep, err := r.Run(t.Context(), plan(t, `
deadline: 1m
steps:
  - id: echo
    join: collect
    parallel:
      - {id: rest, agent: rest, prompt: one}
      - {id: rpc, agent: rpc, prompt: two}
      - {id: alone, agent: alone, prompt: unnamed}
      - {id: a2a, agent: a2a, prompt: three}
      - {id: editor, agent: editor, prompt: four}
      - {id: mcp, agent: mcp, prompt: five}
      - {id: mcphttp, tool: mcphttp/double, args: {n: 21}}
      - {id: jsonrpc, call: jsonrpc/subtract, args: [42, 23]}
      - {id: nobody, agent: nobody, prompt: x}
      - {id: nothing, agent: nothing, prompt: x}
  - id: skills
    parallel:
      - {id: s1, skill: skill-of-editor, prompt: seven}
      - {id: s2, skill: skill-of-a2a, prompt: eight}
  - id: ask
    parallel:
      - {id: arest, agent: rest, prompt: ask me}
      - {id: aa2a, agent: a2a, prompt: ask me}
      - {id: aeditor, agent: editor, prompt: ask me}
      - {id: amcp, agent: mcp, prompt: ask me}
  - id: slow
    join: any
    parallel:
      - {id: wrest, agent: rest, prompt: wait}
      - {id: wrpc, agent: rpc, prompt: wait}
      - {id: wa2a, agent: a2a, prompt: wait}
      - {id: weditor, agent: editor, prompt: wait}
      - {id: wmcp, agent: mcp, prompt: wait}
      - {id: wjsonrpc, call: jsonrpc/wait}
      - {id: first, agent: mcphttp, prompt: done, after: []}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"echo/rest": "ibm says one", "echo/rpc": "ibm says two", "echo/alone": "alone says unnamed", "echo/a2a": "a2a says three", "echo/editor": "editor says four",
		"echo/mcp": "tool says five", "echo/mcphttp": `{"n":42}`, "echo/jsonrpc": "19",
		"skills/s1": "editor says seven", "skills/s2": "a2a says eight",
		"ask/arest": "answer to me", "ask/aa2a": "answer to me", "ask/aeditor": "answer to me", "ask/amcp": "answer to me",
		"slow/first": "tool says done",
	} {
		if s := rep.Find(path); s == nil || s.State != OK || s.Text() != want {
			t.Errorf("%s: want %q", path, want)
		}
	}
	for _, path := range []string{"echo/nobody", "echo/nothing"} {
		if s := rep.Find(path); s == nil || s.State != Failed || s.Error.Kind != KindUnreachable {
			t.Errorf("%s should be unreachable", path)
		}
	}
	if asked != 4 {
		t.Errorf("%d questions, want 4", asked)
	}
	if rep.State != OK || t.Failed() {
		t.Log(summary(rep))
	}
}

// Members at one address share one client and are surveyed once.
func TestSharedWay(t *testing.T) {
	var log memoryLog
	members := peers(t, &log)
	members = map[string]Member{"one": members["rest"], "two": members["rest"], "all": members["rest"], "a2a": members["a2a"]}
	two, all := members["two"], members["all"]
	two.Agent, all.Agent = "other", ""
	members["two"], members["all"] = two, all
	team := dial(t, members, &log)
	defer team.Close()
	if team.Worker("one").Agents != team.Worker("two").Agents || team.Worker("one").Agents == team.Worker("a2a").Agents {
		t.Error("members at one address do not share a client, or others do")
	}
	cards, err := team.Survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for name, cards := range cards {
		got[name] = len(cards)
	}
	if d := cmp.Diff(map[string]int{"one": 1, "two": 1, "all": 2, "a2a": 1}, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// A losing branch is cancelled at its agent, in the agent's protocol.
func TestLosersHearOfIt(t *testing.T) {
	var log memoryLog
	team := dial(t, peers(t, &log), &log)
	defer team.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := &Runner{Team: team}
	var waiting sync.WaitGroup
	waiting.Go(func() { // until all agents are waiting
		defer cancel()
		for _, line := range []string{"ibm waits", "a2a waits", "editor waits", "jsonrpc waits"} {
			log.wait(t, line, 1)
		}
		log.wait(t, "tool waits", 2)
	})
	defer waiting.Wait()
	rep, err := r.Run(ctx, plan(t, `
steps:
  - id: p
    parallel:
      - {id: rest, agent: rest, prompt: wait}
      - {id: a2a, agent: a2a, prompt: wait}
      - {id: editor, agent: editor, prompt: wait}
      - {id: mcp, agent: mcp, prompt: wait}
      - {id: mcphttp, agent: mcphttp, prompt: wait}
      - {id: jsonrpc, call: jsonrpc/wait}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, s := range rep.Steps[0].Steps {
		states = append(states, s.Path+" "+string(s.State))
	}
	want := []string{"p/rest cancelled", "p/a2a cancelled", "p/editor cancelled", "p/mcp cancelled", "p/mcphttp cancelled", "p/jsonrpc cancelled"}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("-want +got\n%s%s", d, summary(rep))
	}
	for _, line := range []string{"ibm cancelled", "a2a cancelled", "editor cancelled", "jsonrpc cancelled"} {
		log.wait(t, line, 1)
	}
	log.wait(t, "tool cancelled", 2)
}

// A program that dies during its step is reported and is started again by the next step; other
// steps continue.
func TestMemberDies(t *testing.T) {
	var log memoryLog
	team := dial(t, peers(t, &log), &log)
	defer team.Close()
	r := &Runner{Team: team}
	rep, err := r.Run(t.Context(), plan(t, `
deadline: 30s
steps:
  - id: p
    join: collect
    parallel:
      - {id: editor, agent: editor, prompt: die}
      - {id: mcp, agent: mcp, prompt: die}
      - {id: a2a, agent: a2a, prompt: live}
  - {id: again, agent: editor, prompt: x}
  - {id: last, agent: rest, prompt: x}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"p/editor", "p/mcp"} {
		if s := rep.Find(path); s.State != Failed || s.Error.Kind != KindUnreachable {
			t.Errorf("%s: %v", path, s.Error)
		}
	}
	if rep.Find("again").Text() != "editor says x" || rep.Find("p/a2a").State != OK || rep.Find("last").State != OK || rep.State != OK {
		t.Error(summary(rep))
	}
	t.Log(summary(rep))
}
