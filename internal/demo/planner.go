package demo

import (
	"context"
	_ "embed"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/transport/inproc"
)

//go:embed planner.yaml
var plannerPlan []byte

// A Planner is an agent that runs a plan with the other agents. It calls each of them in its own
// protocol, like any other client, within this process: echo and slow in ACP, words and ask in A2A,
// coder in the Agent Client Protocol, tools in MCP, and methods in plain JSON-RPC.
type Planner struct {
	*agent.Agent // served like the other agents

	team   *orchestrator.Team
	acp    *acp.Server
	a2a    *a2a.Server
	mcp    *MCP
	end    context.CancelFunc
	served sync.WaitGroup
}

// NewPlanner creates a planner that calls others, which are those of [Agents]. The caller must
// close it after serving it.
func NewPlanner(version string, others []*agent.Agent, report func(what string, err error)) (_ *Planner, err error) {
	plan, err := orchestrator.ParsePlan("planner.yaml", plannerPlan)
	if err != nil {
		return nil, err
	}
	if report == nil {
		report = func(string, error) {}
	}
	ctx, end := context.WithCancel(context.Background())
	p := &Planner{team: &orchestrator.Team{}, end: end}
	defer func() {
		if err != nil {
			_ = p.Close() // err is returned
		}
	}()

	p.acp = acp.NewServer(&acp.Options{Report: report})
	for _, a := range others {
		p.acp.Add(acpagent.New(a))
	}
	byACP := acpagent.Client(acp.Local(p.acp, nil))
	p.team.Add("echo", &orchestrator.Worker{Agents: byACP, Agent: "echo", Close: byACP.Close})
	p.team.Add("slow", &orchestrator.Worker{Agents: byACP, Agent: "slow"})

	front := Front(version, "echo", others)
	card := a2aagent.Card(&front.Card)
	card.Capabilities.Streaming = true
	p.a2a = a2a.NewServer(card, a2aagent.New(front), &a2a.ServerOptions{Report: report})
	byA2A := a2aagent.Client(a2a.Connect(ctx, p.serve(ctx, p.a2a.Serve), nil), nil)
	p.team.Add("words", &orchestrator.Worker{Agents: byA2A, Close: byA2A.Close})
	p.team.Add("ask", &orchestrator.Worker{Agents: byA2A})

	byEditor, err := editoragent.Connect(ctx, p.serve(ctx, Editor(version, "scribe", others, report).Serve), &editoragent.ClientOptions{CWD: "/"})
	if err != nil {
		return nil, err
	}
	p.team.Add("coder", &orchestrator.Worker{Agents: byEditor, Close: byEditor.Close})

	p.mcp = NewMCP(version, &MCPOptions{Report: report})
	byMCP, err := mcpagent.Connect(ctx, p.serve(ctx, p.mcp.Server.Serve), mcp.Implementation{Name: "parley-demo-planner", Version: version}, nil)
	if err != nil {
		return nil, err
	}
	p.team.Add("tools", &orchestrator.Worker{Agents: byMCP, Close: byMCP.Close})

	service := New(version)
	p.team.Add("methods", &orchestrator.Worker{Peer: jsonrpc.Local(&jsonrpc.Answerer{Handler: service.Handler(), Mode: service.Mux.Mode, Report: report}, nil)})

	runner := &orchestrator.Runner{Team: p.team, Report: report}
	p.Agent = runner.Agent(agent.Card{
		Name: "planner", Title: "Planner", Version: version,
		Description: "Lets the demo's other agents work on the message, each over its own protocol, and returns their answers. It asks for your name.",
		Skills: []agent.Skill{{ID: "planner", Name: "Plan", Description: "Several agents, one task.",
			Tags: []string{"demo", "orchestrator", "question"}, Examples: []string{"a cake for Friday"}}},
	}, plan)
	return p, nil
}

// serve runs serve on one end of a pipe, and returns the other end.
func (p *Planner) serve(ctx context.Context, serve func(ctx context.Context, t jsonrpc.Transport) error) jsonrpc.Transport {
	here, there := inproc.Pipe(nil)
	p.served.Go(func() {
		_ = serve(ctx, there) // ends with the pipe, which is not an error
		_ = there.Close()
	})
	return here
}

// Close cancels the planner's runs and closes its connections to the other agents.
func (p *Planner) Close() error {
	err := p.team.Close()
	p.end()
	grace.Wait(&p.served, grace.Time)
	if p.a2a != nil {
		p.a2a.Close()
	}
	if p.mcp != nil {
		p.mcp.Close()
	}
	return errors.Join(err, p.acp.Close())
}
