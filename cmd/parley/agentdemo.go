package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store/sqlite"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// Paths of the demo's agents on an HTTP address.
const (
	acpPath     = "/acp"     // root of REST (ACP 0.2.0)
	acpRPCPath  = "/acp/rpc" // JSON-RPC over POST and WebSocket
	a2aPath     = "/a2a"     // JSON-RPC over POST and WebSocket
	a2aRESTPath = "/a2a/v1"  // root of HTTP+JSON
)

// Prefixes that mark targets of a single agent protocol in the table of schemes.
const (
	acpPrefix = "acp+"
	a2aPrefix = "a2a+"
)

// The default agents of addresses that serve a single agent.
const (
	firstForAgents  = "echo"
	firstForEditors = "scribe"
)

// agentFlags are the flags of the demo's agents.
type agentFlags struct {
	acp, a2a, editor     bool
	listenACP, listenA2A []string
	programs             []string
	first                string
	state                string
	loopbackWebhooks     bool
}

func (f *agentFlags) register(s *pflag.FlagSet) {
	s.BoolVar(&f.acp, "acp", false, "serve ACP with --stdio")
	s.BoolVar(&f.a2a, "a2a", false, "serve A2A with --stdio")
	s.BoolVar(&f.editor, "editor", false, "serve the Agent Client Protocol (editors) with --stdio")
	s.StringArrayVar(&f.listenACP, "listen-acp", nil, "serve ACP on `TARGET`: tcp, tls or unix; repeatable")
	s.StringArrayVar(&f.listenA2A, "listen-a2a", nil, "serve A2A on `TARGET`: tcp, tls or unix; repeatable")
	s.StringArrayVar(&f.programs, "agent", nil, "add an agent, `'NAME=CMD ARG…'`: a program that reads the prompt from stdin and writes the answer to stdout; repeatable")
	s.StringVar(&f.first, "first", firstForAgents, "`NAME` of the default agent for A2A")
	s.StringVar(&f.state, "state", "", "store runs, sessions and tasks of agents and MCP in `DIR`, so that they survive the demo")
	s.BoolVar(&f.loopbackWebhooks, "loopback-webhooks", false, "allow A2A webhooks on this machine, which are rejected by default")
}

// check rejects flags that cannot be combined.
func (f *agentFlags) check(s serveFlags, mcp bool) error {
	spoken := 0
	for flag, on := range map[string]bool{"--mcp": mcp, "--acp": f.acp, "--a2a": f.a2a, "--editor": f.editor} {
		if !on {
			continue
		}
		spoken++
		if !s.stdio {
			return usagef("%s requires --stdio; http addresses always have it, others with --listen-mcp, --listen-acp and --listen-a2a", flag)
		}
		if s.framing == "header" || s.version != "" && s.version != "2.0" {
			return usagef("%s on stdio is JSON-RPC 2.0 with one message per line; remove --framing and --jsonrpc", strings.ToUpper(strings.TrimPrefix(flag, "--")))
		}
	}
	if spoken > 1 {
		return usagef("--mcp, --acp, --a2a and --editor are different protocols for the same stdin; use only one")
	}
	return nil
}

// agentTargets parses the listen addresses for a single protocol.
func agentTargets(flag, prefix, path string, words []string) ([]parley.Target, error) {
	var targets []parley.Target
	for _, word := range words {
		t, err := parley.ParseTarget(word)
		if err != nil {
			return nil, err
		}
		switch t.Scheme {
		case "tcp", "tls", "unix":
		case "stdio":
			return nil, usagef("for stdin and stdout use --%s --stdio", strings.TrimPrefix(flag, "--listen-"))
		default:
			return nil, usagef("%s supports tcp, tls and unix; for %s it is at %s with --listen", flag, t.Scheme, path)
		}
		if t.Version == jsonrpc.Version1 {
			return nil, usagef("%s is JSON-RPC 2.0; remove jsonrpc=1.0", flag)
		}
		t.Scheme = prefix + t.Scheme
		targets = append(targets, t)
	}
	return targets, nil
}

// firstWith returns the index of the first target that has one of prefixes, or len(targets) without
// a match.
func firstWith(targets []parley.Target, prefixes ...string) int {
	for i, t := range targets {
		for _, prefix := range prefixes {
			if strings.HasPrefix(t.Scheme, prefix) {
				return i
			}
		}
	}
	return len(targets)
}

// demoAgents holds the demo's agents and their servers.
type demoAgents struct {
	all    []*agent.Agent
	acp    *acp.Server
	a2a    *a2a.Server
	web    *a2ahttp.Server
	pusher *a2ahttp.Pusher
	store  *sqlite.Store // if nil, state is stored in memory
	log    *reporter

	planner *demo.Planner
	tools   *mcpagent.Tools // the planner's, if MCP is served
}

// demoAgents creates the agents from the flags. locked reports whether callers must present a
// token.
func (a *app) demoAgents(ctx context.Context, f agentFlags, locked bool, log *reporter) (_ *demoAgents, err error) {
	version := thisBuild().Version
	d := &demoAgents{all: demo.Agents(version, log.report), log: log}
	for _, text := range f.programs {
		if d.all, err = addProgram(d.all, text, version, log); err != nil {
			return nil, err
		}
	}
	if d.planner, err = demo.NewPlanner(version, d.all, log.report); err != nil {
		return nil, err
	}
	d.all = append(d.all, d.planner.Agent)
	first := cmp.Or(f.first, firstForAgents)
	if !slices.ContainsFunc(d.all, func(one *agent.Agent) bool { return one.Name == first }) {
		_ = d.planner.Close() // the first error is returned
		return nil, usagef("--first %s: no such agent", cut(first, 60))
	}
	ao := &acp.Options{Report: log.report}
	po := &a2a.ServerOptions{Report: log.report}
	if f.state != "" {
		limits := acp.StoreLimits()
		if d.store, err = sqlite.Open(f.state, &sqlite.Options{Limits: limits, Report: log.report}); err != nil {
			_ = d.planner.Close() // err is returned
			return nil, usagef("--state: %v", err)
		}
		ao.Store, po.Store = d.store, d.store
	}
	d.acp = acp.NewServer(ao)
	for _, one := range d.all {
		d.acp.Add(acpagent.New(one))
	}
	front := demo.Front(version, first, d.all)
	card := a2aagent.Card(&front.Card)
	card.SupportedInterfaces = a2ahttp.Interfaces(a2aPath, a2aRESTPath)
	if f.a2a { // stdin and stdout have no paths
		card.SupportedInterfaces = []a2a.AgentInterface{{URL: "stdio:", ProtocolBinding: a2a.BindingStream, ProtocolVersion: a2a.V10.String()}}
	}
	card.Capabilities.Streaming, card.Capabilities.PushNotifications = true, true
	d.pusher = &a2ahttp.Pusher{Loopback: f.loopbackWebhooks}
	po.Push = d.pusher
	if locked {
		card.SecuritySchemes = map[string]a2a.SecurityScheme{"token": {HTTP: &a2a.HTTPAuthScheme{Scheme: "Bearer", Description: "the token of --token-file"}}}
		card.SecurityRequirements = []a2a.SecurityRequirement{{Schemes: map[string]a2a.StringList{"token": {}}}}
	}
	d.a2a = a2a.NewServer(card, a2aagent.New(front), po)
	d.web = &a2ahttp.Server{A2A: d.a2a, Unguarded: true, Authenticate: func(*http.Request, []a2ahttp.Credential) (string, error) {
		return "", nil // the listener has checked the token; all of its holders are one principal
	}}
	if d.store != nil {
		if err := errors.Join(d.acp.Load(ctx), d.a2a.Load(ctx)); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// addProgram parses NAME=CMD ARG… and appends the agent to all.
func addProgram(all []*agent.Agent, text, version string, log *reporter) ([]*agent.Agent, error) {
	name, command, found := strings.Cut(text, "=")
	argv, err := splitCommand(command)
	switch {
	case !found || err == nil && len(argv) == 0:
		return nil, usagef("--agent must be 'NAME=CMD ARG…', not %q", cut(text, 60))
	case err != nil:
		return nil, usagef("--agent %s: %v", cut(name, 60), err)
	}
	all, err = demo.AddAgent(all, demo.Program(name, version, argv, log.report))
	if err != nil {
		return nil, usagef("--agent %s: %s", cut(name, 60), strings.TrimPrefix(err.Error(), "agent: "))
	}
	return all, nil
}

var errQuote = errors.New("missing closing quote")

// splitCommand splits a command into words like a shell that supports only quotes.
func splitCommand(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote, escaped := false, rune(0), false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && strings.ContainsRune(" \t\n", c):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errQuote
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// close stops everything that runs and closes the store.
func (d *demoAgents) close() {
	err := d.acp.Close()
	d.a2a.Close()
	d.pusher.Close()
	if d.tools != nil {
		d.tools.Close()
	}
	err = errors.Join(err, d.planner.Close())
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	if err != nil {
		d.log.report(reportAgents, err)
	}
}

// addTools also offers the planner as an MCP tool. The other agents are not added, so that they do
// not hide the demo's tools.
func (d *demoAgents) addTools(s *mcp.Server) {
	d.tools = mcpagent.Add(s, d.planner.Agent)
}

// stop ends all runs, so that shutdown does not wait for a slow agent.
func (d *demoAgents) stop() {
	_ = d.acp.Close() // close reports errors
	d.a2a.Close()
}

// converseACP and converseA2A set up bidirectional connections.
func (d *demoAgents) converseACP(conn *jsonrpc.Conn) func() {
	d.acp.Configure(&conn.Answerer)
	return nil
}

func (d *demoAgents) converseA2A(conn *jsonrpc.Conn) func() {
	d.a2a.Configure(&conn.Answerer)
	return nil
}

// add serves the agent protocols at paths of the listener's http addresses and on the marked
// targets.
func (d *demoAgents) add(l *parley.Listener, f agentFlags) error {
	// The listener's access checks run first.
	o := &acphttp.Options{NoDoor: true, MaxMessage: l.MaxMessage}
	rest, err := acphttp.NewREST(d.acp, o)
	if err != nil {
		return err
	}
	rpc, err := acphttp.NewRPC(d.acp, o)
	if err != nil {
		return err
	}
	l.Mounts[acpPath+"/"] = parley.Mount{Handler: http.StripPrefix(acpPath, rest)}
	l.Mounts[acpRPCPath] = parley.Mount{Handler: rpc, Converse: d.converseACP}
	l.Mounts[a2aPath] = parley.Mount{Handler: d.web.RPC(), Converse: d.converseA2A, Drain: d.web.Drain}
	l.Mounts[a2aRESTPath+"/"] = parley.Mount{Handler: http.StripPrefix(a2aRESTPath, d.web.REST())}
	addSchemes(l.Schemes, acpPrefix, d.converseACP)
	addSchemes(l.Schemes, a2aPrefix, d.converseA2A)
	switch {
	case f.acp:
		l.Converse = d.converseACP
	case f.a2a:
		l.Converse = d.converseA2A
	}
	pages, card := l.Pages, d.web.Card()
	if pages == nil {
		pages = http.NotFoundHandler()
	}
	l.Pages = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case a2ahttp.CardPath, a2ahttp.OldCardPath, a2aPath + a2ahttp.CardPath: // public: it describes the token
			card.ServeHTTP(w, r)
		default:
			pages.ServeHTTP(w, r)
		}
	})
	return nil
}

// serveEditor serves the Agent Client Protocol on stdin and stdout.
func (d *demoAgents) serveEditor(ctx context.Context) error {
	err := demo.Editor(thisBuild().Version, firstForEditors, d.all, d.log.report).Serve(ctx, stdio.New(nil))
	if err == nil || errors.Is(err, os.ErrClosed) || ctx.Err() != nil {
		return nil //nolint:nilerr // the parent process, or a person, has ended it
	}
	return err
}

// addresses returns the addresses of the demo's agents, each with a command to try.
func (d *demoAgents) addresses(p *page, tokenFile string) []address {
	if d == nil {
		return nil
	}
	var list []address
	add := func(kind, command, target, rest string) {
		call := p.prefix + " " + command + " " + shellWord(target)
		if p.locked && !strings.HasPrefix(target, "unix:") {
			call += " --token-file " + shellWord(tokenFile)
		}
		list = append(list, address{Kind: kind, Call: call + " " + rest})
	}
	for i, t := range p.targets {
		switch {
		case t.Scheme == "http" || t.Scheme == "https":
			root := t.Scheme + "://" + t.Address
			ws := "ws" + strings.TrimPrefix(root, "http")
			add("ACP", "acp run", root+acpPath, `words "one word after the other"`)
			add("ACP, WebSocket", "acp run", ws+acpRPCPath, "ask hello --answer Ada")
			add("A2A", "a2a send", root, `"/words one word after the other"`)
			add("A2A, WebSocket", "a2a send", ws+a2aPath, `"/ask hello" --answer Ada`)
		case i >= p.firstA2A:
			add("A2A, "+carrierName(t), "a2a send", t.String(), `"/slow 5 steps of 300ms"`)
		case i >= p.firstACP:
			add("ACP, "+carrierName(t), "acp run", t.String(), `courier "a cake, 5 stops of 1s"`)
		}
	}
	if len(list) > 0 {
		list = append(list, address{Kind: "editor", Call: p.prefix + ` edit "water the plants" --yes -- ` + p.prefix + " demo --editor --stdio"})
	}
	return list
}

func carrierName(t parley.Target) string {
	if t.Scheme == "unix" {
		return "Unix socket"
	}
	return strings.ToUpper(t.Scheme)
}
