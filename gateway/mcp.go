package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// An mcpAccess is a call that policy and limits decide on.
type mcpAccess struct {
	id        jsonrpc.ID // of the client's request
	server    string
	method    string
	tool      string      // the original name of a tool, prompt or resource
	exposed   string      // as the client named it
	params    jsonrpc.Raw // as the server gets them
	arguments jsonrpc.Raw
	text      jsonrpc.Raw // the list entry of a tool; may be nil
}

// mcpHooks are what the MCP aggregate needs from the rest of the gateway. Nil members permit
// everything.
type mcpHooks struct {
	// sees reports whether the caller of ctx may see a tool, prompt or resource. filters reports
	// whether there is anything that a caller may not see.
	filters func() bool
	sees    func(ctx context.Context, a *mcpAccess) bool

	pins *pins // what may be offered; nil permits everything

	// enter decides on a call, and waits for its turn. The returned function is called with what the
	// call shows about the server.
	enter func(ctx context.Context, a *mcpAccess) (leave func(v verdict, result jsonrpc.Raw, err error), err error)
}

// An mcpPart is what a Gateway does for MCP. It outlives configurations: client sessions, and links
// to servers that did not change, continue.
type mcpPart struct {
	hooks  mcpHooks
	report func(what string, err error)
	pool   *linkPool
	parked parking
	seen   seenURIs
	ctx    context.Context // of what runs by itself
	cancel context.CancelFunc

	key []byte // of sealed states

	mu      sync.Mutex // guards the fields below
	started bool
	began   time.Time
	servers map[string]*mcpServer
	sets    map[string]*mcpSet
}

// firstLists is how long lists and calls wait, after the start, for servers that were not heard of.
// Tests change it.
var firstLists = 2 * time.Second

func newMCPPart(report func(what string, err error), key []byte, hooks mcpHooks) *mcpPart {
	p := &mcpPart{hooks: hooks, key: key, report: report, pool: newLinkPool(report), servers: map[string]*mcpServer{}, sets: map[string]*mcpSet{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// apply makes a configuration the present one. Servers with an equal entry keep their links. The
// error is about the configuration; nothing has changed then.
//
// approved permits programs that are new to start.
func (p *mcpPart) apply(file *config.File, approved bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[string]*mcpServer{}
	for i := range file.Entries {
		e := &file.Entries[i]
		if e.Disabled || e.Protocol != config.MCP {
			continue
		}
		if old := p.servers[e.Name]; old != nil && old.entry.SameServer(e) && !(old.waiting && approved) {
			next[e.Name] = old
			continue
		}
		s, err := newMCPServer(*e, p.pool, p.changed, p.report)
		if err != nil {
			return fmt.Errorf("server %s: %w", e.Name, err)
		}
		s.waiting, s.pins = s.isProgram && !approved, p.hooks.pins
		next[e.Name] = s
	}
	for name, old := range p.servers {
		if next[name] != old {
			old.removed.Store(true)
			if old.stop != nil {
				old.stop()
			}
			ofOld := func(k linkKey) bool { return k.server == old }
			p.pool.endAll(true, ofOld)
			p.pool.run(func() { // what still uses it has had its time
				sleep(p.ctx, retireTime)
				p.pool.endAll(false, ofOld)
			})
		}
	}
	p.servers = next
	for i := range file.Gateway.Sets {
		set := &file.Gateway.Sets[i]
		var members []*mcpServer
		for _, name := range set.Servers {
			for _, s := range p.ofName(file, name) {
				if !slices.Contains(members, s) {
					members = append(members, s)
				}
			}
		}
		if p.sets[set.Name] == nil {
			p.sets[set.Name] = newMCPSet(p, set.Name)
		}
		p.sets[set.Name].apply(members, set.NoPrefix)
	}
	for name, set := range p.sets {
		if single, ok := strings.CutPrefix(name, "/s/"); ok {
			if server := next[single]; server != nil {
				set.apply([]*mcpServer{server}, true)
			} else {
				set.apply(nil, false)
			}
			continue
		}
		if !slices.ContainsFunc(file.Gateway.Sets, func(s config.Set) bool { return s.Name == name }) {
			set.apply(nil, false)
		}
	}
	if p.started {
		p.watchLocked()
	}
	return nil
}

// start begins to fetch the lists of the servers.
func (p *mcpPart) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.started {
		p.started, p.began = true, time.Now()
		p.watchLocked()
	}
}

// watchLocked begins to fetch the lists of all servers that are in a set.
func (p *mcpPart) watchLocked() {
	for _, set := range p.sets {
		for _, s := range set.members() {
			if s.stop != nil {
				continue // it has begun
			}
			ctx, stop := context.WithCancel(p.ctx)
			s.stop = stop
			if s.personal {
				close(s.heard)
				continue
			}
			p.pool.run(func() { s.watch(ctx) })
		}
	}
}

// ofName returns the server of a name, or the first server of the group of that name.
func (p *mcpPart) ofName(file *config.File, name string) []*mcpServer {
	if s := p.servers[name]; s != nil {
		return []*mcpServer{s}
	}
	for i := range file.Entries {
		if e := &file.Entries[i]; e.Upstream.Group == name && p.servers[e.Name] != nil {
			return []*mcpServer{p.servers[e.Name]}
		}
	}
	return nil
}

// approved is called when the pins of a server have changed.
func (p *mcpPart) approved(name string) {
	p.mu.Lock()
	s := p.servers[name]
	p.mu.Unlock()
	if s != nil {
		p.changed(s)
	}
}

// changed is called when the lists of a server have changed.
func (p *mcpPart) changed(s *mcpServer) {
	p.mu.Lock()
	var sets []*mcpSet
	for _, set := range p.sets {
		if slices.Contains(set.members(), s) {
			sets = append(sets, set)
		}
	}
	p.mu.Unlock()
	for _, set := range sets {
		set.refresh()
	}
}

// age returns how long ago the lists were first fetched.
func (p *mcpPart) age() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.began)
}

// set returns the set of a name, or nil.
func (p *mcpPart) set(name string) *mcpSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sets[name]; s != nil && s.plan.Load().present {
		return s
	}
	return nil
}

// The paths of MCP.
const (
	mcpPath      = "/mcp"
	mcpPairPath  = "/mcp/sse"
	mcpPairPosts = "/mcp/sse/messages"
)

// ServeHTTP serves /mcp, /mcp/SET, and the pair of 2024-11-05 at /mcp/sse.
func (p *mcpPart) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	name, pair := config.DefaultSet, false
	switch path := r.URL.Path; {
	case path == mcpPath:
	case path == mcpPairPath, path == mcpPairPosts:
		pair = true
	default:
		name = strings.TrimPrefix(path, mcpPath+"/")
	}
	if strings.Contains(name, "/") {
		http.NotFound(w, r)
		return
	}
	set := p.set(name)
	switch {
	case set == nil:
		http.NotFound(w, r)
	case pair:
		set.pair.ServeHTTP(w, r)
	default:
		set.handler.ServeHTTP(w, r)
	}
}

// serveOne serves one server, with its own names: a set of its own, which is made when it is first
// used.
func (p *mcpPart) serveOne(name string, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	key := "/s/" + name // no set has a slash in its name
	set, server := p.sets[key], p.servers[name]
	switch {
	case server == nil:
		p.mu.Unlock()
		http.NotFound(w, r)
		return
	case set == nil:
		set = newMCPSet(p, key)
		p.sets[key] = set
	}
	if members := set.members(); len(members) != 1 || members[0] != server {
		set.apply([]*mcpServer{server}, true)
		p.watchLocked()
	}
	p.mu.Unlock()
	set.handler.ServeHTTP(w, r)
}

// drain ends what would continue by itself, and waits for running calls until ctx ends.
func (p *mcpPart) drain(ctx context.Context) error {
	p.mu.Lock()
	sets := make([]*mcpSet, 0, len(p.sets))
	for _, s := range p.sets {
		sets = append(sets, s)
	}
	p.mu.Unlock()
	errs := make([]error, len(sets))
	var wg sync.WaitGroup
	for i, s := range sets {
		wg.Go(func() {
			errs[i] = rescue.Call(p.report, func() error {
				s.server.Close()
				return s.handler.Shutdown(ctx)
			})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close ends everything, after drain. It waits until ctx ends at most.
func (p *mcpPart) close(ctx context.Context) error {
	p.cancel()
	p.parked.close()
	err := p.pool.close(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		s.transport.CloseIdleConnections()
		s.creds.close()
	}
	return err
}

// An mcpSet is one MCP endpoint: the servers of a set, as one server. It is the [mcp.Source] of its
// server.
type mcpSet struct {
	part    *mcpPart
	name    string
	server  *mcp.Server
	handler *mcphttp.Handler
	pair    http.Handler
	plan    atomic.Pointer[setPlan]

	mu       sync.Mutex // guards the fields below
	catalogs map[string]*catalogs
}

// A setPlan is what the configuration says about a set. It never changes.
type setPlan struct {
	present  bool // the set exists
	servers  []*mcpServer
	noPrefix bool
	personal bool // the catalogue depends on the principal
}

// catalogs are the last two states of a catalogue.
type catalogs struct {
	now, before *catalog
	used        time.Time
}

func newMCPSet(p *mcpPart, name string) *mcpSet {
	s := &mcpSet{part: p, name: name, catalogs: map[string]*catalogs{}}
	s.plan.Store(&setPlan{})
	s.server = mcp.NewServer(mcp.Implementation{Name: "parley-gateway", Title: "parley gateway", Version: "1"}, &mcp.ServerOptions{
		Source: s, Tools: true, Prompts: true, Resources: true,
		StateKey: p.key,
		StateTTL: parkedTime,
		OnEnd:    p.sessionEnded,
		OnRoots:  p.rootsChanged,
		Limits:   jsonrpc.Limits{Deadline: -1, TotalDeadline: -1}, // calls have the time of their server
		Report:   p.report,
	})
	s.handler = mcphttp.NewHandler(s.server, &mcphttp.Options{Unguarded: true, Report: p.report})
	s.pair = s.handler.Pair(mcpPairPosts)
	return s
}

// apply changes the servers of the set.
func (s *mcpSet) apply(servers []*mcpServer, noPrefix bool) {
	s.plan.Store(&setPlan{
		present: servers != nil || s.name == config.DefaultSet, servers: servers, noPrefix: noPrefix,
		personal: slices.ContainsFunc(servers, func(m *mcpServer) bool { return m.personal }),
	})
	s.refresh()
}

func (s *mcpSet) members() []*mcpServer { return s.plan.Load().servers }

// refresh compares the present catalogue with the last one, and notifies clients.
func (s *mcpSet) refresh() {
	plan := s.plan.Load()
	if plan.personal {
		return // its lists are fetched when they are needed
	}
	s.mu.Lock()
	var before *catalog
	if c := s.catalogs[""]; c != nil {
		before = c.now
	}
	s.mu.Unlock()
	if before == nil {
		return // no client has seen it
	}
	now := s.catalogOf(context.Background(), "")
	told := map[string]bool{}
	for _, kind := range mcp.ListKinds() {
		if !told[kind.Changed()] && !sameLists(before.lists[kind], now.lists[kind]) {
			told[kind.Changed()] = true
			s.server.Changed(kind)
		}
	}
}

func sameLists(a, b []mcp.Entry) bool {
	return slices.EqualFunc(a, b, func(x, y mcp.Entry) bool { return x.Name == y.Name && string(x.Text) == string(y.Text) })
}

// catalogFor returns the catalogue for a request. It waits for servers that were not heard of, for
// a short time after the start.
func (s *mcpSet) catalogFor(ctx context.Context) *catalog {
	plan := s.plan.Load()
	if left := firstLists - s.part.age(); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		for _, m := range plan.servers {
			select {
			case <-m.heard:
				continue
			case <-timer.C:
			case <-ctx.Done():
			}
			break // the timer has fired, or the caller has gone
		}
	}
	who := ""
	if plan.personal {
		who = principal.Of(ctx)
	}
	return s.catalogOf(ctx, who)
}

// catalogOf returns the catalogue of a principal, or of all.
func (s *mcpSet) catalogOf(ctx context.Context, who string) *catalog {
	plan := s.plan.Load()
	offers := make([]*offer, len(plan.servers))
	for i, m := range plan.servers {
		offers[i] = m.known(ctx, who)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.catalogs[who]
	if c == nil {
		if len(s.catalogs) >= maxPersonal {
			dropOldest(s.catalogs, func(c *catalogs) time.Time { return c.used })
		}
		c = &catalogs{}
		s.catalogs[who] = c
	}
	c.used = time.Now()
	accepted := s.part.hooks.pins.version()
	if c.now != nil && c.now.plan == plan && c.now.accepted == accepted && slices.Equal(c.now.offers, offers) {
		return c.now
	}
	made := newCatalog(plan.servers, offers, plan.noPrefix)
	made.plan, made.accepted = plan, accepted
	if c.now == nil || c.now.id != made.id {
		for _, text := range made.hidden {
			s.part.report(ReportLeftOut, errors.New(text))
		}
		c.before = c.now
	}
	c.now = made
	return made
}

// past returns the state of the catalogue with an ID, if it is one of the last two.
func (s *mcpSet) past(ctx context.Context, id string) *catalog {
	now := s.catalogFor(ctx)
	if now.id == id {
		return now
	}
	who := ""
	if s.plan.Load().personal {
		who = principal.Of(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.catalogs[who]; c != nil && c.before != nil && c.before.id == id {
		return c.before
	}
	return nil
}

// metaUnavailable is the member of _meta that names the servers that were not heard of.
const metaUnavailable = "parley/unavailable"

// List implements [mcp.Source].
func (s *mcpSet) List(ctx context.Context, r *mcp.Request, kind mcp.ListKind, snapshot string) (*mcp.Listing, error) {
	var c *catalog
	if snapshot == "" {
		c = s.catalogFor(ctx)
	} else {
		id, _, _ := strings.Cut(snapshot, ".")
		if c = s.past(ctx, id); c == nil {
			return nil, mcp.ErrCursor
		}
	}
	l := &mcp.Listing{Entries: c.lists[kind], Snapshot: c.id, Caching: mcp.Caching{TTLMs: c.ttl.Milliseconds(), CacheScope: mcp.CachePublic}}
	filtered := s.filters()
	if s.plan.Load().personal || filtered {
		l.CacheScope = mcp.CachePrivate
	}
	if filtered {
		l.Entries = nil
		sum := newViewSum()
		for i := range c.lists[kind] {
			if s.sees(ctx, kind, c, i) {
				l.Entries = append(l.Entries, c.lists[kind][i])
				sum.add(i)
			}
		}
		l.Snapshot += "." + sum.text()
		if snapshot != "" && snapshot != l.Snapshot {
			return nil, mcp.ErrCursor // what the caller may see has changed
		}
	}
	if len(c.unavailable) > 0 {
		l.Meta = mcp.Meta{}.With(metaUnavailable, c.unavailable)
	}
	return l, nil
}

// filters reports whether there is anything that a caller may not see.
func (s *mcpSet) filters() bool { return s.part.hooks.filters != nil && s.part.hooks.filters() }

// sees reports whether the caller may see an entry of the catalogue.
func (s *mcpSet) sees(ctx context.Context, kind mcp.ListKind, c *catalog, i int) bool {
	if !s.filters() {
		return true
	}
	o := &c.owners[kind][i]
	return s.part.hooks.sees(ctx, &mcpAccess{server: o.server.name, method: callMethods[kind], tool: o.name, exposed: c.lists[kind][i].Name, text: o.entry.text})
}

// callMethods are the methods that use the entries of the lists.
var callMethods = [...]string{mcp.ListOfTools: mcp.MethodToolsCall, mcp.ListOfPrompts: mcp.MethodPromptsGet,
	mcp.ListOfResources: mcp.MethodResourcesRead, mcp.ListOfTemplates: mcp.MethodResourcesRead}

// Find implements [mcp.Source].
func (s *mcpSet) Find(ctx context.Context, _ *mcp.Request, kind mcp.ListKind, name string) (*mcp.Entry, bool) {
	c := s.catalogFor(ctx)
	_, e, ok := c.find(kind, name)
	if !ok || !s.sees(ctx, kind, c, c.byName[kind][name]) {
		return nil, false
	}
	return e, true
}

// own returns the owner of a tool or prompt, if the caller may see it.
func (s *mcpSet) own(ctx context.Context, c *catalog, kind mcp.ListKind, name string) (owner, bool) {
	o, _, ok := c.find(kind, name)
	if !ok || !s.sees(ctx, kind, c, c.byName[kind][name]) {
		return owner{}, false
	}
	return o, true
}

// ownResource returns the owner of a URI: the server that it names, the one that lists it, the
// first with a template that matches, the one that a result of this caller took it from, or the
// only one with resources.
func (s *mcpSet) ownResource(ctx context.Context, r *mcp.Request, c *catalog, uri string) (o owner, ok bool) {
	visible := func(o owner) (owner, bool) {
		if !s.filters() || s.part.hooks.sees(ctx, &mcpAccess{server: o.server.name, method: mcp.MethodResourcesRead, tool: o.name, exposed: uri}) {
			return o, true
		}
		return owner{}, false
	}
	servers := s.members()
	if name, original, ok := unwrapURI(uri); ok {
		for i, m := range servers {
			if m.name == name && i < len(c.offers) && c.offers[i] != nil {
				return visible(owner{server: m, offer: c.offers[i], name: original})
			}
		}
		return owner{}, false
	}
	if o, _, found := c.find(mcp.ListOfResources, uri); found {
		return visible(o)
	}
	for _, t := range c.owners[mcp.ListOfTemplates] {
		if t.entry.template.Match(uri) != nil {
			return visible(owner{server: t.server, offer: t.offer, name: uri})
		}
	}
	from := s.part.seen.server(seenOwner(ctx, r), uri)
	var only []int
	for i, m := range servers {
		if i >= len(c.offers) || c.offers[i] == nil {
			continue
		}
		if m.name == from {
			return visible(owner{server: m, offer: c.offers[i], name: uri})
		}
		if c.offers[i].capabilities.Resources != nil {
			only = append(only, i)
		}
	}
	if len(only) == 1 {
		return visible(owner{server: servers[only[0]], offer: c.offers[only[0]], name: uri})
	}
	return owner{}, false
}

// sessionEnded ends the links of a client session.
func (p *mcpPart) sessionEnded(n *mcp.Session) {
	p.pool.endAll(false, func(k linkKey) bool { return k.session == n })
	p.seen.forget(n)
}

// rootsChanged passes the notification on to the servers of the session.
func (p *mcpPart) rootsChanged(n *mcp.Session) {
	for _, l := range p.pool.ofSession(n) {
		p.pool.run(func() {
			<-l.ready
			if l.client == nil {
				return
			}
			ctx, cancel := context.WithTimeout(p.ctx, listTime)
			defer cancel()
			if err := l.client.RootsChanged(ctx); err != nil {
				l.key.server.dropped(ReportUndelivered, err)
			}
		})
	}
}

// unknownName is the response to a tool or prompt that does not exist, or that the caller may not
// see.
func unknownName(what, name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: unknown " + what + ": " + name}
}

// Subscribe implements [mcp.Source].
func (s *mcpSet) Subscribe(ctx context.Context, r *mcp.Request, uri string, updated func()) (stop func(), err error) {
	o, ok := s.ownResource(ctx, r, s.catalogFor(ctx), uri)
	if !ok {
		return nil, mcp.NoResource()
	}
	key, caps := s.part.linkFor(ctx, r, o)
	l, err := s.part.pool.acquire(ctx, key, caps)
	if err != nil {
		return nil, answerOf(err)
	}
	listening, cancel := context.WithCancel(context.WithoutCancel(ctx))
	began := make(chan error, 1)
	begin := func(err error) {
		select {
		case began <- err:
		default: // a server may acknowledge again
		}
	}
	s.part.pool.run(func() {
		defer s.part.pool.release(l)
		err := l.client.Listen(listening, mcp.Filter{ResourceSubscriptions: []string{o.name}}, func(ch mcp.Change) error {
			if ch.Method == mcp.NotifyAcknowledged {
				begin(nil)
			} else if ch.URI == o.name {
				updated()
			}
			return nil
		})
		begin(err)
	})
	timer := time.NewTimer(o.server.timeout())
	defer timer.Stop()
	select {
	case err = <-began:
	case <-timer.C:
		err = errTimeout
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.part.ctx.Done():
		err = jsonrpc.ErrClosed
	}
	if err != nil {
		cancel()
		return nil, (&exchange{part: s.part, r: r, owner: o, method: r.Method}).failed(ctx, err)
	}
	return cancel, nil
}
