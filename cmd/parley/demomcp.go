package main

import (
	"context"
	"strings"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// Where the demo speaks MCP on an HTTP address.
const (
	mcpPath      = "/mcp" // Streamable HTTP and WebSocket
	ssePath      = "/sse" // HTTP+SSE (2024-11-05)
	messagesPath = "/messages"
)

// mcpPrefix marks targets that speak MCP alone, on their way through the table of schemes.
const mcpPrefix = "mcp+"

// demoTargets is where to listen: what the flags say, or the places everybody has. Those that speak MCP alone come last.
func (a *app) demoTargets(flags *demoFlags) ([]parley.Target, error) {
	if err := flags.agents.check(flags.serveFlags, flags.mcp); err != nil {
		return nil, err
	}
	own := flags.serveFlags
	more := &flags.agents
	if len(own.listen)+len(flags.listenMCP)+len(more.listenACP)+len(more.listenA2A) == 0 && !own.stdio {
		own.listen = []string{"http://127.0.0.1:3000", "tcp://127.0.0.1:3001", "unix:" + a.socketPath("demo.sock")}
		flags.listenMCP = []string{"unix:" + a.socketPath("mcp.sock")}
		more.listenACP = []string{"unix:" + a.socketPath("acp.sock")}
		more.listenA2A = []string{"unix:" + a.socketPath("a2a.sock")}
	}
	targets, err := listenTargets(own)
	if err != nil {
		return nil, err
	}
	for _, word := range flags.listenMCP {
		t, err := parley.ParseTarget(word)
		if err != nil {
			return nil, err
		}
		switch t.Scheme {
		case "tcp", "tls", "unix":
		case "stdio":
			return nil, usagef("MCP on stdin and stdout is --mcp --stdio")
		default:
			return nil, usagef("--listen-mcp takes tcp, tls and unix; %s has MCP at %s with --listen", t.Scheme, mcpPath)
		}
		if t.Version == jsonrpc.Version1 {
			return nil, usagef("MCP is JSON-RPC 2.0; leave out jsonrpc=1.0")
		}
		t.Scheme = mcpPrefix + t.Scheme
		targets = append(targets, t)
	}
	forACP, err := agentTargets("--listen-acp", acpPrefix, acpRPCPath, more.listenACP)
	if err != nil {
		return nil, err
	}
	forA2A, err := agentTargets("--listen-a2a", a2aPrefix, a2aPath, more.listenA2A)
	if err != nil {
		return nil, err
	}
	return append(append(targets, forACP...), forA2A...), nil
}

// maxTasks is how many tasks of MCP are kept.
const maxTasks = 10_000

// demoMCP makes the demo's services for MCP, which keep their tasks where the agents keep theirs.
func (a *app) demoMCP(ctx context.Context, flags demoFlags, agents *demoAgents, log *reporter) (*demo.MCP, error) {
	options := &demo.MCPOptions{Report: log.report}
	if agents.store != nil {
		tasks := mcp.NewTaskStore(agents.store, maxTasks)
		if err := tasks.Load(ctx); err != nil {
			return nil, err
		}
		options.Tasks = tasks
	}
	if flags.weatherURL != "" {
		service, err := demo.ParseWeatherURL(flags.weatherURL)
		if err != nil {
			return nil, usagef("--weather-url: %v", err)
		}
		options.Weather = service
	}
	return demo.NewMCP(thisBuild().Version, options), nil
}

// addMCP lets the listener speak MCP: at the paths of its http addresses, and on the targets that are marked. What it returns
// sets up conversations on others. What sessions over HTTP say is kept in events, or in memory if that is nil.
func addMCP(l *parley.Listener, tools *demo.MCP, events *sqlite.Store) (converse func(*jsonrpc.Conn) func()) {
	converse = func(conn *jsonrpc.Conn) func() { return tools.Server.Attach(conn).Close }
	options := &mcphttp.Options{Unguarded: true, MaxMessage: l.MaxMessage, Report: l.Report} // the listener's door stands before it
	if events != nil {
		options.Events = events
	}
	handler := mcphttp.NewHandler(tools.Server, options)
	pair := handler.Pair(messagesPath)
	l.Mounts = map[string]parley.Mount{
		mcpPath:      {Handler: handler, Converse: converse, Drain: handler.Shutdown},
		ssePath:      {Handler: pair},
		messagesPath: {Handler: pair},
	}
	l.Schemes = parley.DefaultSchemes()
	addSchemes(l.Schemes, mcpPrefix, converse)
	return converse
}

// addSchemes adds to the table of what can be listened on the targets that speak one protocol alone.
func addSchemes(table parley.Schemes, prefix string, converse func(*jsonrpc.Conn) func()) {
	for _, name := range []string{"tcp", "tls", "unix"} {
		plain := table[name]
		table[prefix+name] = parley.Scheme{Listen: func(ctx context.Context, l *parley.Listener, t parley.Target) (parley.Service, error) {
			own := *l
			own.Converse = converse
			t.Scheme = strings.TrimPrefix(t.Scheme, prefix)
			return plain.Listen(ctx, &own, t)
		}}
	}
}
