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

// Paths of MCP on an HTTP address of the demo.
const (
	mcpPath      = "/mcp" // Streamable HTTP and WebSocket
	ssePath      = "/sse" // HTTP+SSE (2024-11-05)
	messagesPath = "/messages"
)

// mcpPrefix marks targets of MCP alone in the table of schemes.
const mcpPrefix = "mcp+"

// demoTargets returns the listen addresses: those of the flags, or the defaults. Targets of MCP
// alone come last.
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
			return nil, usagef("for MCP on stdin and stdout use --mcp --stdio")
		default:
			return nil, usagef("--listen-mcp supports tcp, tls and unix; for %s, MCP is at %s with --listen", t.Scheme, mcpPath)
		}
		if t.Version == jsonrpc.Version1 {
			return nil, usagef("MCP is JSON-RPC 2.0; remove jsonrpc=1.0")
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

// maxTasks is the maximum number of stored MCP tasks.
const maxTasks = 10_000

// demoMCP creates the demo's MCP services. Their tasks are stored where the agents store theirs.
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

// addMCP serves MCP at the paths of the listener's http addresses and on the marked targets. The
// returned function sets up connections of other transports. Events of HTTP sessions are stored in
// events, or in memory if it is nil.
func addMCP(l *parley.Listener, tools *demo.MCP, events *sqlite.Store) (converse func(*jsonrpc.Conn) func()) {
	converse = func(conn *jsonrpc.Conn) func() { return tools.Server.Attach(conn).Close }
	// The listener's access checks run first.
	options := &mcphttp.Options{Unguarded: true, MaxMessage: l.MaxMessage, Report: l.Report}
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

// addSchemes adds targets of a single protocol to the table of listen schemes.
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
