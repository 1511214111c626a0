package orchestrator

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
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
	"github.com/da1ed7bb/parley/transport/stdio"
)

// badly returns an agent whose prompt selects how it misbehaves.
func badly() *agent.Agent {
	return &agent.Agent{Card: agent.Card{Name: "bad", Description: "Is bad.", Version: "1"}, Run: func(ctx context.Context, r *agent.Run) error {
		switch r.Text() {
		case "crash":
			os.Exit(7)
		case "never":
			<-ctx.Done()
			return ctx.Err()
		case "asks":
			for {
				if _, err := r.Ask(ctx, &agent.Question{Text: "again?"}); err != nil {
					return err
				}
			}
		}
		return r.Say(ctx, "said "+r.Text())
	}}
}

// A mangler is a transport that corrupts what is written.
type mangler struct {
	jsonrpc.Transport
	how     string
	rubbish bool // corrupts all later writes
}

func (m *mangler) TryWrite(jsonrpc.Burst) bool { return false }

func (m *mangler) Write(b jsonrpc.Burst) error {
	var out jsonrpc.Burst
	for payload := range b.All() {
		payload = bytes.TrimSuffix(payload, []byte("\n"))
		if m.how == "rubbish" && bytes.Contains(payload, []byte("said rubbish")) {
			m.rubbish = true
		}
		if m.rubbish {
			payload = []byte("this is no JSON")
		}
		out.Add(slices.Clone(payload))
		answer := false
		_ = jsonrpc.Scan(payload, func(msg *jsonrpc.Message) { answer = answer || msg.Method == "" })
		if m.how == "twice" && answer {
			out.Add(slices.Clone(payload))
		}
	}
	return m.Transport.Write(out)
}

func init() {
	serve := map[string]func(ctx context.Context, t jsonrpc.Transport) error{
		"acp": func(ctx context.Context, t jsonrpc.Transport) error {
			s := acp.NewServer(nil)
			defer s.Close()
			s.Add(acpagent.New(badly()))
			return s.Serve(ctx, t)
		},
		"a2a": func(ctx context.Context, t jsonrpc.Transport) error {
			a := badly()
			s := a2a.NewServer(a2aagent.Card(&a.Card), a2aagent.New(a), nil)
			defer s.Close()
			return s.Serve(ctx, t)
		},
		"editor": func(ctx context.Context, t jsonrpc.Transport) error {
			return editoragent.New(badly(), nil).Serve(ctx, t)
		},
		"mcp": func(ctx context.Context, t jsonrpc.Transport) error {
			s := mcp.NewServer(mcp.Implementation{Name: "bad", Version: "1"}, nil)
			defer s.Close()
			tools := mcpagent.Add(s, badly())
			defer tools.Close()
			return s.Serve(ctx, t)
		},
		"jsonrpc": func(ctx context.Context, t jsonrpc.Transport) error {
			var m jsonrpc.Mux
			m.Add("run", jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
				var words []string
				if err := req.Params.Decode(&words); err != nil {
					return nil, err
				}
				c := agent.Local(badly())
				res, err := c.Run(ctx, &agent.Request{Input: agent.Prompt(words[0])}, agent.Funcs{OnAsk: func(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
					a, err := jsonrpc.Call[Answered](ctx, req.Peer(), MethodAsk, Asked{Text: q.Text})
					return agent.Reply(a.Text), err
				}})
				if err != nil {
					return nil, err
				}
				return agent.TextOf(res.Output), nil
			}), jsonrpc.Open)
			conn := jsonrpc.NewConn(t)
			conn.Handler, conn.Mode, conn.Cancellation = &m, m.Mode, jsonrpc.CancelRequest
			return conn.Serve(ctx)
		},
	}
	for protocol, serve := range serve {
		children["bad "+protocol] = func(how string) error {
			return serve(context.Background(), &mangler{Transport: stdio.New(nil), how: how})
		}
	}
}

// Whatever a member of any protocol does wrong, its step ends with a typed error within its
// timeout, the report names the member's step, and other steps are not affected.
func TestBadMembersOfEveryProtocol(t *testing.T) {
	t.Parallel() // like TestBadPrograms
	type ending struct {
		state State
		kinds []string
		text  string // expected in the output or in the error
	}
	bad := map[string]ending{
		"missing": {Failed, []string{KindUnreachable}, "/does/not/exist"},
		"crash":   {Failed, []string{KindUnreachable}, "exited with code 7"},
		// Invalid JSON matches no request: the timeout or the transport ends the step.
		"rubbish": {"", []string{KindUnreachable, KindTimeout}, ""},
		"never":   {TimedOut, []string{KindTimeout}, "its time limit of 1s has passed"},
		"twice":   {OK, nil, "said twice"},
		"asks":    {Failed, []string{KindQuestion}, "it asks more than 20 questions"},
	}
	var (
		members = map[string]Member{}
		steps   strings.Builder
	)
	for _, protocol := range []string{"acp", "a2a", "editor", "mcp", "jsonrpc"} {
		for how := range bad {
			name := protocol + "-" + how
			m := Member{Command: []string{os.Args[0], how}, Protocol: protocol, Env: []string{childEnv + "=bad " + protocol}}
			if how == "missing" {
				m = Member{Command: []string{"/does/not/exist"}, Protocol: protocol}
			}
			members[name] = m
			timeout := 10 * time.Second
			if how == "never" || how == "rubbish" {
				timeout = time.Second
			}
			if protocol == "jsonrpc" {
				fmt.Fprintf(&steps, "      - {id: %s, call: %s/run, args: [%s], timeout: %v}\n", name, name, how, timeout)
			} else {
				fmt.Fprintf(&steps, "      - {id: %s, agent: %s, prompt: %s, timeout: %v}\n", name, name, how, timeout)
			}
		}
	}
	var log memoryLog
	team := dial(t, members, &log)
	defer team.Close()
	team.Add("sibling", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "sibling", Description: "x"}, Run: after(2*time.Second, "untouched", nil, nil)})})
	r := &Runner{Team: team, Ask: func(context.Context, *Question) (*agent.Answer, error) { return agent.Reply("again"), nil }}
	begun := time.Now()
	rep, err := r.Run(t.Context(), plan(t, "deadline: 1m\nsteps:\n  - id: p\n    join: collect\n    parallel:\n      - {id: sibling, agent: sibling, prompt: x}\n"+steps.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 50*time.Second {
		t.Errorf("took %v", took)
	}
	for name := range members {
		protocol, how, _ := strings.Cut(name, "-")
		want, s := bad[how], rep.Find("p/"+name)
		if name == "mcp-asks" {
			want.text = "the server asks too many questions" // this protocol has a lower bound of its own
		}
		var (
			text = s.Text()
			kind string
		)
		if s.Error != nil {
			text, kind = s.Error.Text, s.Error.Kind
		}
		if want.state != "" && s.State != want.state || s.State != OK && !slices.Contains(want.kinds, kind) || s.State == OK && want.kinds != nil || !strings.Contains(text, want.text) || s.Member != name {
			t.Errorf("%s, %s: %s by %q, %v %q; want %+v", protocol, how, s.State, s.Member, s.Error, s.Text(), want)
		}
		if how == "twice" && text != want.text {
			t.Errorf("%s answers twice, and %q arrives", protocol, text)
		}
	}
	if s := rep.Find("p/sibling"); s.State != OK || s.Text() != "untouched" {
		t.Errorf("the sibling is %s: %v", s.State, s.Error)
	}
	t.Log(summary(rep))
}
