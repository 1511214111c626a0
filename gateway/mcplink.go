package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A linkScope says who shares a link to an MCP server.
type linkScope uint8

const (
	forLists     linkScope = iota // the catalogue; it calls no tools
	forAll                        // all callers
	forPrincipal                  // all clients of one principal
	forSession                    // one client session
	forOneCall                    // one call at a time of one principal
)

// A linkKey identifies the links that a call may use. A call never uses a link of another key, so
// that what belongs to one principal or session stays there.
type linkKey struct {
	server    *mcpServer
	scope     linkScope
	principal string       // of forPrincipal, forSession and forOneCall
	session   *mcp.Session // of forSession
	caps      string       // of forOneCall: the capabilities that were declared to the server
}

// An mcpLink is one conversation with an MCP server.
type mcpLink struct {
	key   linkKey
	pool  *linkPool
	ready chan struct{} // closed when client or err is set
	// what the client behind the link can do
	caps   mcp.ClientCapabilities
	client *mcp.Client
	err    error

	// guarded by linkPool.mu
	users  int
	idleAt time.Time // since when users is 0
	kept   bool      // it is not closed because it is idle, but it makes room for others
	gone   bool      // no further call may use it

	mu    sync.Mutex // guards the fields below
	calls []*linkCall
	began chan struct{} // closed when the next call begins; nil if no question waits
	level mcp.Level     // that was set at the server
}

// A linkCall is a call that runs on a link. What the server asks and logs meanwhile goes to the
// client behind the call.
type linkCall struct {
	ask func(ctx context.Context, in mcp.InputRequest) (jsonrpc.Raw, error)
	log func(*mcp.LogParams)
}

// Bounds of links.
const (
	maxChildren  = 64     // programs of the whole gateway
	maxHTTPLinks = 10_000 // links over HTTP, of the whole gateway
	keptForCalls = 4      // idle links forOneCall of one key
	openTime     = 30 * time.Second
	slotTime     = 15 * time.Second // the wait for a program that ends, to make room
	sweepLinks   = 10 * time.Second
)

// A linkPool has the links to all MCP servers.
type linkPool struct {
	opening     context.Context // of links that are being opened; it ends with the pool
	stopOpening context.CancelFunc

	report func(what string, err error)

	wg sync.WaitGroup // of everything that runs for links; Add only with mu held and closed false

	mu       sync.Mutex // guards the fields below
	links    map[linkKey][]*mcpLink
	children map[*mcpServer]int // programs that run, or are being started or ended
	allKids  int
	web      int
	ending   int           // links that are being closed
	freed    chan struct{} // closed when a link was closed
	sweeper  *time.Timer
	closed   bool
}

func newLinkPool(report func(what string, err error)) *linkPool {
	p := &linkPool{report: report, links: map[linkKey][]*mcpLink{}, children: map[*mcpServer]int{}, freed: make(chan struct{})}
	p.opening, p.stopOpening = context.WithCancel(context.Background())
	return p
}

// acquire returns a link for one user, and opens it if necessary. The caller calls release. ctx
// bounds the wait. A link that is opened gets its values, such as the identity of the caller.
func (p *linkPool) acquire(ctx context.Context, key linkKey, caps mcp.ClientCapabilities) (*mcpLink, error) {
	l, err := p.take(ctx, key, caps)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		p.release(l)
		return nil, jsonrpc.AsNotSent(context.Cause(ctx))
	}
	if l.err != nil {
		p.release(l)
		return nil, l.err
	}
	return l, nil
}

// take returns a link that may still be opening.
func (p *linkPool) take(ctx context.Context, key linkKey, caps mcp.ClientCapabilities) (*mcpLink, error) {
	var late <-chan time.Time
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, jsonrpc.AsNotSent(jsonrpc.ErrClosed)
		}
		for _, l := range p.links[key] {
			if !l.gone && (key.scope != forOneCall || l.users == 0) {
				l.users++
				p.mu.Unlock()
				return l, nil
			}
		}
		room, wait := p.makeRoomLocked(key)
		if room {
			l := &mcpLink{key: key, pool: p, ready: make(chan struct{}), caps: caps, users: 1}
			p.links[key] = append(p.links[key], l)
			p.countLocked(key.server, 1)
			if p.sweeper == nil {
				p.sweeper = time.AfterFunc(sweepLinks, p.sweep)
			}
			p.wg.Add(1)
			p.mu.Unlock()
			go func() {
				defer rescue.Catch(p.report, nil)
				p.open(context.WithoutCancel(ctx), l)
			}()
			return l, nil
		}
		freed := p.freed
		p.mu.Unlock()
		if !wait {
			return nil, newFault(jsonrpc.CodeBusy, "Too many processes", reasonTooManyProcesses, key.server.name, true).error()
		}
		if late == nil {
			timer := time.NewTimer(slotTime)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
		case <-late:
			return nil, newFault(jsonrpc.CodeBusy, "Too many processes", reasonTooManyProcesses, key.server.name, true).error()
		case <-ctx.Done():
			return nil, jsonrpc.AsNotSent(context.Cause(ctx))
		}
	}
}

// makeRoomLocked reports whether there is room for one more link. If not, it ends a link for lists,
// or else the link that is idle for longest, and reports whether waiting for room makes sense. A
// link for lists ends no other: what a server stores for its client would be lost.
func (p *linkPool) makeRoomLocked(key linkKey) (room, wait bool) {
	s := key.server
	var candidate func(*mcpLink) bool
	switch {
	case !s.isProgram && p.web < maxHTTPLinks:
		return true, false
	case !s.isProgram:
		candidate = func(l *mcpLink) bool { return !l.key.server.isProgram }
	case p.children[s] >= s.maxChildren():
		candidate = func(l *mcpLink) bool { return l.key.server == s }
	case p.allKids >= maxChildren:
		candidate = func(l *mcpLink) bool { return l.key.server.isProgram }
	default:
		return true, false
	}
	if key.scope == forLists {
		return false, false
	}
	var longest *mcpLink
	for _, links := range p.links {
		for _, l := range links {
			if l.users > 0 || l.gone || !candidate(l) {
				continue
			}
			if longest == nil || l.kept && !longest.kept || l.kept == longest.kept && l.idleAt.Before(longest.idleAt) {
				longest = l
			}
		}
	}
	if longest != nil {
		p.endLocked(longest)
	}
	return false, p.ending > 0
}

func (p *linkPool) countLocked(s *mcpServer, n int) {
	if !s.isProgram {
		p.web += n
		return
	}
	p.allKids += n
	if p.children[s] += n; p.children[s] == 0 {
		delete(p.children, s)
	}
}

// release ends the use of a link.
func (p *linkPool) release(l *mcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.users--
	if l.users > 0 || l.gone {
		return
	}
	l.idleAt = time.Now()
	idle := 0
	for _, other := range p.links[l.key] {
		if other.users == 0 && !other.gone {
			idle++
		}
	}
	if l.key.scope == forOneCall && idle > keptForCalls || l.key.server.removed.Load() {
		p.endLocked(l)
	}
}

// endLocked takes a link out of the pool and closes it.
func (p *linkPool) endLocked(l *mcpLink) {
	if l.gone {
		return
	}
	l.gone = true
	p.links[l.key] = slices.DeleteFunc(p.links[l.key], func(o *mcpLink) bool { return o == l })
	if len(p.links[l.key]) == 0 {
		delete(p.links, l.key)
	}
	p.ending++
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		defer rescue.Catch(p.report, nil)
		<-l.ready
		if l.client != nil {
			_ = l.client.Close() // nothing from it is needed any more
		}
		if s := l.key.server; s.isWeb && s.removed.Load() {
			s.transport.CloseIdleConnections()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ending--
		p.countLocked(l.key.server, -1)
		close(p.freed)
		p.freed = make(chan struct{})
	}()
}

// end takes a link out of the pool and closes it. Calls on it fail. It reports whether the link was
// in the pool.
func (p *linkPool) end(l *mcpLink) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || l.gone {
		return false
	}
	p.endLocked(l)
	return true
}

// keep makes a link stay open while it is idle, as long as its room is not needed.
func (p *linkPool) keep(l *mcpLink, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.kept = on
}

// endAll ends the links that which selects: all of them, or only those without a user.
func (p *linkPool) endAll(idle bool, which func(linkKey) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var all []*mcpLink
	for key, links := range p.links {
		if which(key) {
			for _, l := range links {
				if !idle || l.users == 0 {
					all = append(all, l)
				}
			}
		}
	}
	for _, l := range all {
		p.endLocked(l)
	}
}

// hasEnded reports whether no further call may use a link.
func (p *linkPool) hasEnded(l *mcpLink) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.gone
}

// run runs f on a goroutine that close waits for. It reports whether it could do so.
func (p *linkPool) run(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		defer rescue.Catch(p.report, nil)
		f()
	}()
	return true
}

// ofSession returns the open links of a session.
func (p *linkPool) ofSession(n *mcp.Session) (all []*mcpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, links := range p.links {
		if key.session == n {
			all = append(all, links...)
		}
	}
	return all
}

// sweep ends the links that are idle for too long.
func (p *linkPool) sweep() {
	defer rescue.Catch(p.report, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var over []*mcpLink
	for _, links := range p.links {
		for _, l := range links {
			if l.users == 0 && !l.kept && time.Since(l.idleAt) >= l.key.server.idleTime() {
				over = append(over, l)
			}
		}
	}
	for _, l := range over {
		p.endLocked(l)
	}
	p.sweeper.Reset(sweepLinks)
}

// close ends all links, and waits for what runs for them, until ctx ends.
func (p *linkPool) close(ctx context.Context) error {
	p.stopOpening()
	p.endAll(false, func(linkKey) bool { return true })
	p.mu.Lock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer rescue.Catch(p.report, nil)
		p.wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open connects a link.
func (p *linkPool) open(ctx context.Context, l *mcpLink) {
	defer p.wg.Done()
	defer close(l.ready)
	s := l.key.server
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, errTimeout)
	defer cancel()
	defer context.AfterFunc(p.opening, cancel)()
	err := rescue.Call(p.report, func() (err error) {
		l.client, err = s.connect(ctx, l.options(), func() {
			if p.end(l) && l.key.scope == forLists {
				s.look() // it has ended by itself
			}
		})
		return err
	})
	if err == nil {
		return
	}
	p.report(ReportUpstream, fmt.Errorf("%s: %w", s.name, err))
	f := (&callError{reason: reasonUnreachable, upstream: s.name, err: err}).fault()
	if isAnswer(err) { // what a server says to a handshake is not for the client of a call
		f = unavailable(reasonBadAnswer, s.name, false)
	}
	l.client, l.err = nil, &openError{f.error(), err}
	p.end(l)
}

// An openError is the response to a call whose link could not be opened, and the reason for the
// operator.
type openError struct {
	answer *jsonrpc.Error
	err    error
}

func (e *openError) Error() string { return e.err.Error() }
func (e *openError) Unwrap() error { return e.err }

// options returns the options of the link's client.
func (l *mcpLink) options() *mcp.ClientOptions {
	o := &mcp.ClientOptions{
		Capabilities: &l.caps,
		Ask:          l.ask,
		OnLog:        l.log,
		NoTasks:      true,
		Limits:       jsonrpc.Limits{CallTime: -1}, // calls have a context that ends
		Report:       l.key.server.dropped,
	}
	if l.key.scope == forLists {
		o.OnChange = l.key.server.changed
	}
	return o
}

// linkCallKey is the key of the *linkCall in the context of a call.
type linkCallKey struct{}

// begin registers a call, for what the server asks and logs meanwhile. The caller calls end.
func (l *mcpLink) begin(c *linkCall) (end func()) {
	l.mu.Lock()
	l.calls = append(l.calls, c)
	if l.began != nil {
		close(l.began)
		l.began = nil
	}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		l.calls = slices.DeleteFunc(l.calls, func(o *linkCall) bool { return o == c })
		l.mu.Unlock()
	}
}

// callOf returns the call that a message of the server belongs to: the one that the transport
// names, otherwise the last that began.
func (l *mcpLink) callOf(ctx context.Context) (c *linkCall, began <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := ctx.Value(linkCallKey{}).(*linkCall); ok && slices.Contains(l.calls, c) {
		return c, nil
	}
	if n := len(l.calls); n > 0 {
		return l.calls[n-1], nil
	}
	if l.began == nil {
		l.began = make(chan struct{})
	}
	return nil, l.began
}

// askTime is how long a question waits for a call to begin: some servers ask for the roots as soon
// as they are connected.
const askTime = 2 * time.Second

// ask passes a question of a legacy server to the client behind the link. A link of several clients
// has none.
func (l *mcpLink) ask(ctx context.Context, in mcp.InputRequest) (jsonrpc.Raw, error) {
	if l.key.scope != forSession && l.key.scope != forOneCall {
		return nil, jsonrpc.ErrMethodNotFound
	}
	c, began := l.callOf(ctx)
	if c == nil {
		timer := time.NewTimer(askTime)
		defer timer.Stop()
		select {
		case <-began:
			c, _ = l.callOf(ctx)
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if c != nil {
		return c.ask(ctx, in)
	}
	return nil, jsonrpc.ErrMethodNotFound
}

// log passes a log message of the server to the client behind the link.
func (l *mcpLink) log(p *mcp.LogParams) {
	if l.key.scope != forSession && l.key.scope != forOneCall {
		return // it belongs to no client that is known
	}
	if c, _ := l.callOf(context.Background()); c != nil {
		c.log(p)
		return
	}
	if l.key.session != nil {
		l.key.session.Log(l.key.server.renamedLog(p))
	}
}

// renamedLog returns a log message with the name of its server.
func (s *mcpServer) renamedLog(p *mcp.LogParams) *mcp.LogParams {
	c := *p
	c.Logger = s.name
	if p.Logger != "" {
		c.Logger += "/" + p.Logger
	}
	return &c
}

// setLevel sets the log level that a client wants at a legacy server.
func (l *mcpLink) setLevel(ctx context.Context, level mcp.Level) {
	if level == mcp.LevelNone || l.client.Version().Modern() || l.client.ServerCapabilities().Logging == nil {
		return
	}
	l.mu.Lock()
	same := l.level == level || l.level != mcp.LevelNone && l.key.scope != forSession && l.level < level
	if !same {
		l.level = level
	}
	l.mu.Unlock()
	if same {
		return
	}
	if err := l.client.SetLogLevel(ctx, level); err != nil {
		l.key.server.dropped(ReportUndelivered, err) // the messages are filtered in any case
	}
}

// connect opens a conversation with a server. gone is called when the conversation has ended by
// itself, for servers where that can be observed.
func (s *mcpServer) connect(ctx context.Context, o *mcp.ClientOptions, gone func()) (*mcp.Client, error) {
	if s.waiting {
		return nil, errNotApproved
	}
	if s.isWeb {
		var owner *caller
		if s.personal {
			owner = callerOf(ctx)
		}
		return mcphttp.Connect(ctx, s.target.URL(), presentation, &mcphttp.ClientOptions{
			Client:     *o,
			HTTP:       &http.Client{Transport: s.creds.trip(s.transport, owner)},
			MaxMessage: maxAnswer,
			CallTime:   -1,
		})
	}
	dialer := &parley.Dialer{
		Header:     s.entry.Header,
		MaxMessage: maxAnswer,
		Timeout:    dialTime,
		Report:     s.dropped,
		Stderr:     func(line string) { s.report(ReportStderr, fmt.Errorf("%s: %s", s.name, line)) },
	}
	transport, err := dialer.Open(ctx, s.target)
	if err != nil {
		return nil, err
	}
	conn := jsonrpc.NewConn(transport)
	c := mcp.NewClient(presentation, o)
	c.Attach(conn)
	conn.Ending = func(error) {
		c.Gone()
		gone()
	}
	conn.Start(context.WithoutCancel(ctx))
	if err := c.Open(ctx, conn); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// presentation is what the gateway says about itself to MCP servers.
var presentation = mcp.Implementation{Name: "parley-gateway", Title: "parley gateway", Version: "1"}

// newTransport returns a Transport like the default one.
func newTransport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment} // the program has replaced the default one
}
