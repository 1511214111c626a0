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

// Where the demo's agents are on an HTTP address.
const (
	acpPath     = "/acp"     // REST (ACP 0.2.0) is below
	acpRPCPath  = "/acp/rpc" // JSON-RPC by POST and WebSocket
	a2aPath     = "/a2a"     // JSON-RPC by POST and WebSocket
	a2aRESTPath = "/a2a/v1"  // HTTP+JSON is below
)

// Prefixes of targets that speak one protocol of agents alone, on their way through the table of schemes.
const (
	acpPrefix = "acp+"
	a2aPrefix = "a2a+"
)

// Who answers when nobody is named, where an address is one agent.
const (
	firstForAgents  = "echo"
	firstForEditors = "scribe"
)

// agentFlags are those of the demo's agents.
type agentFlags struct {
	acp, a2a, editor     bool
	listenACP, listenA2A []string
	programs             []string
	first                string
	state                string
	loopbackWebhooks     bool
}

func (f *agentFlags) register(s *pflag.FlagSet) {
	s.BoolVar(&f.acp, "acp", false, "speak ACP with --stdio")
	s.BoolVar(&f.a2a, "a2a", false, "speak A2A with --stdio")
	s.BoolVar(&f.editor, "editor", false, "speak the editor protocol with --stdio")
	s.StringArrayVar(&f.listenACP, "listen-acp", nil, "speak ACP on `TARGET`: tcp, tls or unix; repeatable")
	s.StringArrayVar(&f.listenA2A, "listen-a2a", nil, "speak A2A on `TARGET`: tcp, tls or unix; repeatable")
	s.StringArrayVar(&f.programs, "agent", nil, "one more agent, `'NAME=CMD ARG…'`: a program that reads what it is told and writes its answer; repeatable")
	s.StringVar(&f.first, "first", firstForAgents, "the agent that answers over A2A when nobody is named, by `NAME`")
	s.StringVar(&f.state, "state", "", "keep runs, sessions and tasks, of agents and of MCP, in `DIR`, beyond the end of the demo")
	s.BoolVar(&f.loopbackWebhooks, "loopback-webhooks", false, "let A2A clients name webhooks on this machine, which are refused otherwise")
}

// check refuses what cannot be together.
func (f *agentFlags) check(s serveFlags, mcp bool) error {
	spoken := 0
	for flag, on := range map[string]bool{"--mcp": mcp, "--acp": f.acp, "--a2a": f.a2a, "--editor": f.editor} {
		if !on {
			continue
		}
		spoken++
		if !s.stdio {
			return usagef("%s goes with --stdio; http addresses have it anyway, others by --listen-mcp, --listen-acp and --listen-a2a", flag)
		}
		if s.framing == "header" || s.version != "" && s.version != "2.0" {
			return usagef("%s on stdio is a message a line of JSON-RPC 2.0; leave out --framing and --jsonrpc", strings.ToUpper(strings.TrimPrefix(flag, "--")))
		}
	}
	if spoken > 1 {
		return usagef("--mcp, --acp, --a2a and --editor are different protocols for one stdin; choose one")
	}
	return nil
}

// agentTargets reads where to listen for one protocol alone.
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
			return nil, usagef("on stdin and stdout it is --%s --stdio", strings.TrimPrefix(flag, "--listen-"))
		default:
			return nil, usagef("%s takes tcp, tls and unix; %s has it at %s with --listen", flag, t.Scheme, path)
		}
		if t.Version == jsonrpc.Version1 {
			return nil, usagef("%s speaks JSON-RPC 2.0; leave out jsonrpc=1.0", flag)
		}
		t.Scheme = prefix + t.Scheme
		targets = append(targets, t)
	}
	return targets, nil
}

// firstWith is the index of the first target of a protocol alone, or of one that comes behind it.
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

// demoAgents are the demo's agents, with what serves them.
type demoAgents struct {
	all    []*agent.Agent
	acp    *acp.Server
	a2a    *a2a.Server
	web    *a2ahttp.Server
	pusher *a2ahttp.Pusher
	store  *sqlite.Store // nil: memory
	log    *reporter

	planner *demo.Planner
	tools   *mcpagent.Tools // the planner's, where MCP is spoken
}

// demoAgents makes them of the flags. locked says that callers must show a token.
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
		_ = d.planner.Close() // already failing
		return nil, usagef("--first %s: there is no such agent", cut(first, 60))
	}
	ao := &acp.Options{Report: log.report}
	po := &a2a.ServerOptions{Report: log.report}
	if f.state != "" {
		limits := acp.StoreLimits()
		if d.store, err = sqlite.Open(f.state, &sqlite.Options{Limits: limits, Report: log.report}); err != nil {
			_ = d.planner.Close() // already failing with err
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
	if f.a2a { // on stdin and stdout there are no paths
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
		return "", nil // the listener's door has looked at the token, and all who have it are one
	}}
	if d.store != nil {
		if err := errors.Join(d.acp.Load(ctx), d.a2a.Load(ctx)); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// addProgram reads NAME=CMD ARG….
func addProgram(all []*agent.Agent, text, version string, log *reporter) ([]*agent.Agent, error) {
	name, command, found := strings.Cut(text, "=")
	argv, err := splitCommand(command)
	switch {
	case !found || err == nil && len(argv) == 0:
		return nil, usagef("--agent is 'NAME=CMD ARG…', not %q", cut(text, 60))
	case err != nil:
		return nil, usagef("--agent %s: %v", cut(name, 60), err)
	}
	all, err = demo.AddAgent(all, demo.Program(name, version, argv, log.report))
	if err != nil {
		return nil, usagef("--agent %s: %s", cut(name, 60), strings.TrimPrefix(err.Error(), "agent: "))
	}
	return all, nil
}

var errQuote = errors.New("a quote is not closed")

// splitCommand cuts a command into words as a shell would that knows quotes and nothing else.
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

// close ends what runs, and lets the state go.
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
		d.log.report("agents", err)
	}
}

// addTools offers the planner as a tool of MCP too. The others stay where agents are, so that the demo's tools are not lost among them.
func (d *demoAgents) addTools(s *mcp.Server) {
	d.tools = mcpagent.Add(s, d.planner.Agent)
}

// stop ends what runs, so that nobody waits for an agent that takes its time.
func (d *demoAgents) stop() {
	_ = d.acp.Close() // close tells
	d.a2a.Close()
}

// converseACP and converseA2A set up conversations on which both sides speak.
func (d *demoAgents) converseACP(conn *jsonrpc.Conn) func() {
	d.acp.Configure(&conn.Answerer)
	return nil
}

func (d *demoAgents) converseA2A(conn *jsonrpc.Conn) func() {
	d.a2a.Configure(&conn.Answerer)
	return nil
}

// add lets the listener speak the protocols of agents at paths of its http addresses, and on the targets that are marked.
func (d *demoAgents) add(l *parley.Listener, f agentFlags) error {
	o := &acphttp.Options{NoDoor: true, MaxMessage: l.MaxMessage} // the listener's door stands before it
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
		case a2ahttp.CardPath, a2ahttp.OldCardPath, a2aPath + a2ahttp.CardPath: // which says how to show a token, so it needs none
			card.ServeHTTP(w, r)
		default:
			pages.ServeHTTP(w, r)
		}
	})
	return nil
}

// serveEditor speaks the editor protocol on stdin and stdout.
func (d *demoAgents) serveEditor(ctx context.Context) error {
	err := demo.Editor(thisBuild().Version, firstForEditors, d.all, d.log.report).Serve(ctx, stdio.New(nil))
	if err == nil || errors.Is(err, os.ErrClosed) || ctx.Err() != nil {
		return nil //nolint:nilerr // whoever started us, or a person, has ended it
	}
	return err
}

// addresses lists where the demo's agents are, with something to try at each.
func (d *demoAgents) addresses(p *page, tokenFile string) []address {
	if d == nil {
		return nil
	}
	var list []address
	add := func(kind, verb, target, rest string) {
		call := p.prefix + " " + verb + " " + shellWord(target)
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
