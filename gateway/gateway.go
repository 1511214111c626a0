package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/internal/x/seal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// Options configure a Gateway.
type Options struct {
	// File is the configuration, read with config.Options.Gateway. It must have no problems. The
	// Gateway does not change it.
	File *config.File

	// Audit gets the lines of the audit log if the configuration names no file for them. If nil, they
	// are dropped.
	Audit io.Writer

	// Load reads the configuration again, for the control method gateway.reload. If nil, that method
	// fails.
	Load func() (*config.File, error)

	// Exposed means that other machines can call without an identity: the control methods are then
	// only on the admin address.
	Exposed bool

	// Report is called with what no client receives, from many goroutines at once. If nil, it is
	// logged with slog's default logger.
	Report func(what string, err error)
}

// A Gateway passes requests to the servers of a configuration. It is safe for concurrent use.
type Gateway struct {
	report func(what string, err error)
	state  atomic.Pointer[state]
	sealer *seal.Sealer
	gate   *jsonrpc.Gate
	cache  *cache
	mcp    *mcpPart

	metrics *metrics
	audit   *auditLog // nil without a file or a writer
	pins    *pins

	control *jsonrpc.Mux
	load    func() (*config.File, error)
	exposed bool

	draining atomic.Bool

	// streaming ends when the gateway stops: streams of /s/NAME would delay that.
	streaming  context.Context
	endStreams context.CancelFunc

	ended chan struct{} // closed by Close

	mu     sync.Mutex // held while the state changes
	closed bool
}

// A state is what a Gateway makes of one configuration. It never changes: a request uses the state
// that it began with.
type state struct {
	file      *config.File
	upstreams []*upstream // in the order of the file
	byName    map[string]*upstream
	groups    map[string]*group[*upstream] // by name; a server without a group is one by itself
	members   map[string][]string          // the names of the servers of each group
	routes    []*route
	checks    *checks
	identity  *identity // nil if all callers are "local"

	users    atomic.Int64 // requests that use it
	retired  atomic.Bool  // there is a newer one
	idleOnce sync.Once
	idle     chan struct{} // closed when it is retired and no request uses it

	// earlier is closed when the requests of the states before have ended, or their time is over;
	// nil for the first state. They may use the same upstreams.
	earlier chan struct{}
}

// New returns a Gateway. It connects to nothing: servers are connected, and programs are started,
// when they are first used, MCP servers when a Listener is set up. The error is about the
// configuration.
func New(o *Options) (*Gateway, error) {
	g := &Gateway{report: report.Or(o.Report, "gateway"), gate: &jsonrpc.Gate{Max: maxRunning}, ended: make(chan struct{})}
	g.streaming, g.endStreams = context.WithCancel(context.Background())
	g.cache, g.load, g.exposed = newCache(0, g.report), o.Load, o.Exposed
	g.control = g.newControl()
	g.metrics = newMetrics(o.File.Gateway)
	g.metrics.collect = g.collect
	s, err := g.newState(o.File, nil, true)
	if err != nil {
		return nil, err
	}
	g.state.Store(s)
	key := o.File.Gateway.Key
	if key == nil {
		key = seal.NewKey()
	}
	if g.sealer, err = seal.New(key); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.pins, err = openPins(o.File.Gateway.Pins, o.File.Gateway.Lock, g.report); err != nil {
		return nil, err
	}
	if own := o.File.Gateway; own.Audit != "" || o.Audit != nil {
		g.audit, err = newAuditLog(&auditOptions{
			path: own.Audit, to: o.Audit, arguments: own.AuditArguments, redactor: redactorOf(o.File), report: g.report,
			dropped: func(lines int) { g.metrics.drops.add(uint64(lines), "audit") },
		})
		if err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	g.mcp = newMCPPart(g.report, key, g.mcpHooks())
	if err := g.mcp.apply(o.File, true); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	return g, nil
}

// newState returns the state for a configuration. Servers that old has, too, are taken from it.
// approved permits programs that old does not have to start.
func (g *Gateway) newState(file *config.File, old *state, approved bool) (*state, error) {
	if file.Gateway == nil {
		return nil, errors.New("gateway: the file was not read for a gateway")
	}
	s := &state{file: file, byName: make(map[string]*upstream), idle: make(chan struct{})}
	for i := range file.Entries {
		e := &file.Entries[i]
		if e.Disabled {
			continue
		}
		u, err := g.upstreamFor(e, old, approved)
		if err != nil {
			return nil, err
		}
		s.upstreams = append(s.upstreams, u)
		s.byName[e.Name] = u
	}
	if err := s.join(old, g.report); err != nil {
		return nil, err
	}
	var before *checks
	if old != nil {
		before = old.checks
	}
	var err error
	if s.checks, err = newChecks(file.Gateway, before); err != nil {
		return nil, err
	}
	if err := s.identify(old, g.report); err != nil {
		return nil, err
	}
	for _, r := range file.Gateway.Routes {
		to := s.groups[r.To]
		if to == nil {
			return nil, fmt.Errorf("gateway: route to %s: no server or group has this name", r.To)
		}
		s.routes = append(s.routes, newRoute(r, to))
	}
	return s, nil
}

// errIdentity is the error for a configuration that cannot apply to connections that are open.
var errIdentity = errors.New("gateway: adding or removing identity needs a restart")

// identify makes the identity of a configuration. Whether callers need a token is fixed by the
// addresses that are listened on.
func (s *state) identify(old *state, report func(what string, err error)) (err error) {
	var before *identity
	if own := s.file.Gateway; old != nil {
		if before = old.identity; (before == nil) != (own.Identity == nil) {
			return errIdentity
		}
	}
	keep := slices.ContainsFunc(s.upstreams, func(u *upstream) bool {
		return u.entry.Upstream.Exchange != nil || u.entry.Upstream.ForwardToken
	})
	s.identity, err = newIdentity(s.file.Gateway.Identity, s.file.Gateway.PublicURL, keep, before, report)
	return err
}

// verify implements [parley.Listener.Verify] with the present configuration.
func (g *Gateway) verify(ctx context.Context, token string) (context.Context, error) {
	s := g.enter()
	defer s.leave()
	return s.identity.verify(ctx, token)
}

// join makes the groups of all servers. A group of old with the same members remains, with its
// budgets and latencies.
func (s *state) join(old *state, report func(what string, err error)) error {
	s.groups = make(map[string]*group[*upstream])
	s.members = make(map[string][]string)
	members := make(map[string][]*member[*upstream])
	var names []string
	for _, u := range s.upstreams {
		name := cmp.Or(u.entry.Upstream.Group, u.entry.Name)
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = append(members[name], u.member)
		s.members[name] = append(s.members[name], u.entry.Name)
	}
	for _, name := range names {
		if old != nil {
			if g := old.groups[name]; g != nil && slices.Equal(g.members, members[name]) {
				s.groups[name] = g
				continue
			}
		}
		g, err := newGroup(name, members[name]...)
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		g.report = report
		s.groups[name] = g
	}
	return nil
}

// upstreamFor returns the server of an entry: that of old if nothing differs, or a new one.
func (g *Gateway) upstreamFor(e *config.Entry, old *state, approved bool) (*upstream, error) {
	if old != nil {
		if u := old.byName[e.Name]; u != nil && u.entry.SameServer(e) && !(u.waiting && approved) {
			return u, nil
		}
	}
	u, err := newUpstream(*e, g.report)
	if err != nil {
		return nil, fmt.Errorf("gateway: server %s: %w", e.Name, err)
	}
	u.waiting = !approved && len(e.Command) > 0
	if u.endpoint, err = g.newEndpoint(u); err != nil {
		return nil, err
	}
	if u.isHTTP && u.entry.Protocol == config.A2A {
		if u.agent, err = newA2AAgent(g, u); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// maxRunning bounds the requests of all clients that run at once.
const maxRunning = 4096

// defaultTimeout bounds a call if the configuration does not.
const defaultTimeout = time.Minute

// Listener sets up l to serve the gateway. It sets Handler, Mode, Endpoint, Mounts, Pages, Verify,
// Challenge, Gate and Report; the caller sets what depends on the addresses, such as TLS. The
// endpoint of an HTTP address should be /rpc.
func (g *Gateway) Listener(l *parley.Listener) {
	l.Handler, l.Mode, l.Report, l.Gate = router{gateway: g}, anyMode, g.report, g.gate
	answerer := &jsonrpc.Answerer{Handler: l.Handler, Mode: anyMode, Gate: l.Gate, Limits: l.Limits, Report: g.report}
	post := &httprpc.Server{Answerer: answerer, Status: status}
	l.Endpoint = &parley.Mount{Handler: post, Drain: answerer.Drain}
	if l.Mounts == nil {
		l.Mounts = make(map[string]parley.Mount)
	}
	g.state.Load().startChecks()
	if id := g.state.Load().identity; id != nil {
		l.Verify, l.Challenge = g.verify, id.challenge()
	}
	l.Pages = http.HandlerFunc(g.pages)
	if own := g.state.Load().file.Gateway; own.Admin == "" && !g.exposed {
		l.Mounts["/metrics"] = parley.Mount{Handler: g.metrics}
	}
	l.Mounts["/a2a"] = parley.Mount{Handler: http.HandlerFunc(g.serveAgents)}
	l.Mounts[a2aPrefix] = parley.Mount{Handler: http.HandlerFunc(g.serveAgent)}
	l.Mounts["/s/"] = parley.Mount{Handler: http.HandlerFunc(g.serveServer), Drain: func(context.Context) error {
		g.Drain()
		g.endStreams()
		return nil
	}}
	l.Mounts[mcpPath] = parley.Mount{Handler: g.mcp, Drain: g.mcp.drain}
	l.Mounts[mcpPath+"/"] = parley.Mount{Handler: g.mcp}
	l.Endpoint.Handler = traced(l.Endpoint.Handler)
	for path, m := range l.Mounts {
		m.Handler = traced(m.Handler)
		l.Mounts[path] = m
	}
	g.mcp.start()
}

// startChecks starts the active checks of all servers that have some.
func (s *state) startChecks() {
	for _, u := range s.upstreams {
		if u.member.health != nil {
			u.member.health.start()
		}
	}
}

// serveServer serves /s/NAME: one server.
func (g *Gateway) serveServer(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/s/"), "/")
	s := g.enter()
	defer s.leave()
	if u := s.byName[name]; u != nil && u.endpoint != nil {
		u.endpoint.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// anyMode applies to all methods: routes and servers have times of their own.
func anyMode(string) jsonrpc.Mode { return jsonrpc.Open }

// status returns the HTTP status of an error response to a single request, 0 for that of the
// engine.
func status(e *jsonrpc.Error) int {
	if e.Code == jsonrpc.CodeDeadline {
		return http.StatusGatewayTimeout
	}
	return 0
}

// closeTime bounds the wait for upstreams that are closed. A program gets 12 s of it, as
// stdio.Patience describes.
const closeTime = 15 * time.Second

// Close ends all connections and programs. Calls in flight fail: stop the Listener first. It waits
// until ctx ends, and for at most 15 s; then the error counts the upstreams that have not ended.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	close(g.ended)
	g.endStreams()
	defer g.cache.close()
	if g.audit != nil {
		defer func() { _ = g.audit.close(ctx) }() // what was lost is reported
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	s := g.state.Load()
	ends := make(chan error, len(s.upstreams)+1)
	go func() { ends <- rescue.Call(g.report, func() error { return g.mcp.close(ctx) }) }()
	for _, u := range s.upstreams {
		go func() { ends <- rescue.Call(g.report, u.close) }()
	}
	var errs []error
	for left := len(s.upstreams) + 1; left > 0; left-- {
		select {
		case err := <-ends:
			errs = append(errs, err)
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("gateway: %d upstreams have not ended: %w", left, context.Cause(ctx)))
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// Endpoint returns t with the path /rpc if it is an HTTP address without a path.
func Endpoint(t parley.Target) parley.Target {
	if t.Path == "" || t.Path == "/" {
		switch t.Scheme {
		case "http", "https", "ws", "wss":
			t.Path = "/rpc"
		}
	}
	return t
}
