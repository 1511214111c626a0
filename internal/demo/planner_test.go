package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// planned is the planner's output for "a cake for Friday" after its question was answered.
const planned = `ACP, echo: a cake for Friday
A2A, words: a cake for Friday
ACP for editors, coder: a cake for Friday
MCP, calculator/multiply: twice its 17 letters are 34
JSON-RPC, subtract: all but one are 16
ACP, slow: cancelled, the join did not need it
A2A, ask: Hello Ada! Your message: a cake for Friday
`

// TestPlanner serves the planner in ACP, A2A and MCP. In each it calls the other agents, forwards
// their question, and cancels the slow one. It ends at once if its caller cancels.
func TestPlanner(t *testing.T) {
	unwanted := func(what string, err error) { t.Errorf("report: %s: %v", what, err) }
	p, err := NewPlanner("1", Agents("1", unwanted), unwanted)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}()
	for protocol, client := range servedPlanner(t, p.Agent) {
		t.Run(protocol, func(t *testing.T) {
			asked := 0
			res, err := client.Run(t.Context(), &agent.Request{Agent: "planner", Input: agent.Prompt("a cake for Friday")}, agent.Funcs{
				OnAsk: func(_ context.Context, q *agent.Question) (*agent.Answer, error) {
					asked++
					if !strings.Contains(q.Text, "your name") {
						t.Errorf("it asks %q", q.Text)
					}
					return answerFor(q), nil
				},
			})
			if err != nil {
				t.Fatalf("Run = %v", err)
			}
			if got := res.String(); strings.TrimSpace(got) != strings.TrimSpace(planned) || asked != 1 {
				t.Errorf("after %d questions it says\n%s\nwant\n%s", asked, got, planned)
			}
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			res, err = client.Run(ctx, &agent.Request{Agent: "planner", Input: agent.Prompt("x")}, agent.Funcs{
				OnAsk: func(ctx context.Context, _ *agent.Question) (*agent.Answer, error) {
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				},
			})
			if took := time.Since(began); err == nil || took > time.Minute {
				t.Errorf("cancelled while it asks: %+v, %v after %v", res, err, took)
			}
		})
	}
}

// answerFor returns the answer in the form of the question's protocol: MCP uses a form.
func answerFor(q *agent.Question) *agent.Answer {
	a := agent.Reply("Ada")
	if strings.Contains(string(q.Form), `"answer"`) {
		a.Value = jsonrpc.Raw(`{"answer":"Ada"}`)
	}
	return a
}

// servedPlanner serves an agent in three protocols over pipes, and returns one client per protocol.
func servedPlanner(t *testing.T, a *agent.Agent) map[string]*agent.Client {
	t.Helper()
	ibm := acp.NewServer(nil)
	ibm.Add(acpagent.New(a))
	t.Cleanup(func() { _ = ibm.Close() })

	google := a2a.NewServer(a2aagent.Card(&a.Card), a2aagent.New(a), nil)
	t.Cleanup(google.Close)
	server := mcp.NewServer(mcp.Implementation{Name: "planner", Version: "1"}, nil)
	t.Cleanup(server.Close)
	tools := mcpagent.Add(server, a)
	t.Cleanup(tools.Close)

	pipe := func(serve func(context.Context, jsonrpc.Transport) error) jsonrpc.Transport {
		here, there := inproc.Pipe(nil)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_ = serve(context.Background(), there) // ends with the pipe
		}()
		t.Cleanup(func() { _ = there.Close(); <-gone })
		return here
	}
	byMCP, err := mcpagent.Connect(t.Context(), pipe(server.Serve), mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]*agent.Client{
		"acp": acpagent.Client(acp.Local(ibm, nil)),
		"a2a": a2aagent.Client(a2a.Connect(t.Context(), pipe(google.Serve), nil), nil),
		"mcp": byMCP,
	}
	for _, c := range clients {
		t.Cleanup(func() { _ = c.Close() })
	}
	return clients
}
