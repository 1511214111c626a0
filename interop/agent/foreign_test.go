package agent_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// node returns the command line of a script of another suite.
func node(t *testing.T, suite, script string, args ...string) []string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing (%v); install Node 20.19 or newer", err)
	}
	harness.Need(t, "Node's packages", "../"+suite+"/node/node_modules/.installed-from")
	return append([]string{program, harness.Need(t, script, "../"+suite+"/node/"+script)}, args...)
}

// heard holds the results of a request in order of arrival.
type heard struct {
	questions, steps []string
	text             string
	state            agent.State
}

// ask sends a request to an agent, and answers its questions.
func ask(t *testing.T, c *agent.Client, req *agent.Request, answers map[string]*agent.Answer) (heard, *agent.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var h heard
	r, err := c.Run(ctx, req, agent.Funcs{
		OnEvent: func(_ context.Context, e agent.Event) error {
			if e.Kind == agent.EventProgress {
				h.steps = append(h.steps, e.Progress.Message)
			}
			return nil
		},
		OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
			h.questions = append(h.questions, q.Text)
			if a := answers[q.Text]; a != nil {
				return a, nil
			}
			return nil, agent.ErrNoAnswer
		},
	})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	h.text, h.state = r.String(), r.State
	return h, r
}

// cancel starts a request that does not end, and cancels it after its first output, or at once.
func cancel(t *testing.T, c *agent.Client, req *agent.Request, begun func(e agent.Event) bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	job := c.Start(ctx, req)
	defer job.Close()
	for e := range job.Events() {
		if begun(e) {
			job.Cancel()
		}
	}
	if r, err := job.Wait(ctx); !errors.Is(err, agent.ErrCancelled) || r == nil || r.State != agent.Cancelled {
		t.Errorf("cancelled: %+v, %v", r, err)
	}
}

var equal = cmp.AllowUnexported(heard{})

// TestOurClientOfAnA2AAgent uses @a2a-js/sdk as a server, in both versions.
func TestOurClientOfAnA2AAgent(t *testing.T) {
	for _, mode := range []string{"", "legacy"} {
		t.Run("server "+mode, func(t *testing.T) {
			at := harness.Server(t, node(t, "a2a", "server.mjs", mode))
			peer, card, err := a2ahttp.Dial(t.Context(), at["url"], nil)
			if err != nil {
				t.Fatal(err)
			}
			c := a2aagent.Client(peer, card)
			defer c.Close()
			cards, err := c.Agents(t.Context())
			if err != nil || cards[0].Name != "js" || cards[0].Skills[0].ID != "echo" {
				t.Errorf("Agents = %+v, %v", cards, err)
			}
			got, first := ask(t, c, &agent.Request{Input: agent.Prompt("hello")}, nil)
			if diff := cmp.Diff(heard{text: "echo: hello", state: agent.Completed}, got, equal); diff != "" || first.ID == "" {
				t.Errorf("hello (-want +got):\n%s", diff)
			}
			got, _ = ask(t, c, &agent.Request{Input: agent.Prompt("say")}, nil)
			if got.text != "Hi!" {
				t.Errorf("say: %+v", got)
			}
			got, _ = ask(t, c, &agent.Request{Input: agent.Prompt("ask")}, map[string]*agent.Answer{"Which one?": agent.Reply("that")})
			if diff := cmp.Diff(heard{questions: []string{"Which one?"}, text: "You said: that", state: agent.Completed}, got, equal); diff != "" {
				t.Errorf("ask (-want +got):\n%s", diff)
			}
			working := 0
			cancel(t, c, &agent.Request{Input: agent.Prompt("wait")}, func(e agent.Event) bool {
				working++
				return e.Kind == agent.EventStarted
			})
		})
	}
}

// TestOurClientOfACodingAgent uses @agentclientprotocol/sdk as an agent.
func TestOurClientOfACodingAgent(t *testing.T) {
	child, err := stdio.Start(t.Context(), node(t, "editor", "agent.mjs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := editoragent.Connect(t.Context(), child, &editoragent.ClientOptions{CWD: "/tour", Editor: editor.ClientOptions{
		ReadTextFile:  func(context.Context, *editor.ReadTextFileParams) (string, error) { return "sea", nil },
		WriteTextFile: func(context.Context, *editor.WriteTextFileParams) error { return nil },
		Terminals:     hello{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, r := ask(t, c, &agent.Request{Input: agent.Prompt("tour")}, map[string]*agent.Answer{"Edit the notes": agent.Reply("yes"), "Your name?": agent.Reply("Ada")})
	want := heard{questions: []string{"Edit the notes", "Your name?"}, steps: []string{"look around"}, text: "sea hello 0 Ada", state: agent.Completed}
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Errorf("tour (-want +got):\n%s", diff)
	}
	got, _ = ask(t, c, &agent.Request{Session: r.Session, Input: agent.Prompt("flood")}, nil)
	if !strings.HasSuffix(got.text, "998 999 ") || got.state != agent.Completed {
		t.Errorf("flood: %.40q… %s", got.text, got.state)
	}
	cancel(t, c, &agent.Request{Input: agent.Prompt("wait")}, func(e agent.Event) bool { return e.Kind == agent.EventOutput })
	if again, err := c.Attach(t.Context(), "old", nil); err != nil || again.String() != "as well" {
		t.Errorf("Attach = %+v, %v", again, err)
	}
}

// hello is a terminal in which every command prints hello.
type hello struct{}

func (hello) Create(context.Context, *editor.CreateTerminalParams) (*editor.CreateTerminalResult, error) {
	return &editor.CreateTerminalResult{TerminalID: "t"}, nil
}

func (hello) Output(context.Context, *editor.TerminalParams) (*editor.TerminalOutputResult, error) {
	return &editor.TerminalOutputResult{Output: "hello"}, nil
}

func (hello) Wait(context.Context, *editor.TerminalParams) (*editor.ExitStatus, error) {
	return &editor.ExitStatus{ExitCode: new(int)}, nil
}
func (hello) Kill(context.Context, *editor.TerminalParams) error    { return nil }
func (hello) Release(context.Context, *editor.TerminalParams) error { return nil }

// TestOurClientOfTools uses npm's server-everything, whose tools are not agents.
func TestOurClientOfTools(t *testing.T) {
	child, err := stdio.Start(t.Context(), node(t, "mcp", "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mcpagent.Connect(t.Context(), child, mcp.Implementation{Name: "agent", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, _ := ask(t, c, &agent.Request{Agent: "echo", Input: agent.Prompt("hi")}, nil)
	if got.text != "Echo: hi" {
		t.Errorf("echo: %+v", got)
	}
	got, _ = ask(t, c, &agent.Request{Agent: "get-sum", Input: agent.User(agent.Value(map[string]int{"a": 2, "b": 3}))}, nil)
	if !strings.Contains(got.text, "5") {
		t.Errorf("get-sum: %+v", got)
	}
	form := &agent.Answer{Value: jsonrpc.Raw(`{"name":"Ada"}`)}
	got, _ = ask(t, c, &agent.Request{Agent: "trigger-elicitation-request", Input: agent.User(agent.Value(map[string]int{}))}, map[string]*agent.Answer{"Please provide inputs for the following fields:": form})
	if len(got.questions) != 1 || !strings.Contains(got.text, "Ada") {
		t.Errorf("trigger-elicitation-request: %+v", got)
	}
	long := agent.User(agent.Value(map[string]int{"duration": 20, "steps": 100}))
	cancel(t, c, &agent.Request{Agent: "trigger-long-running-operation", Input: long}, func(e agent.Event) bool { return e.Kind == agent.EventProgress })
}
