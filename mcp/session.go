package mcp

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// SessionOptions configure [Server.NewSession].
type SessionOptions struct {
	// ID identifies the session for its transport. It is empty if the connection is the session.
	ID string

	// Voice is the Peer for messages that do not belong to a request: list changes, updates,
	// questions of tasks. It is the [jsonrpc.Conn], or over HTTP the [jsonrpc.PeerOf] the session's
	// Asker and its event stream. If nil, such messages are dropped.
	Voice jsonrpc.Peer

	// OnRoots is called when the client's roots have changed. It must not block. It may be nil.
	OnRoots func()
}

// A Session is a legacy conversation after its handshake: it stores the negotiated version, the
// client's capabilities and its subscriptions. It is a [jsonrpc.Handler], also for modern requests
// on the same connection, which do not use its state. It takes about 1 KB of memory.
type Session struct {
	ID string

	server   *Server
	serial   uint64 // unique among all sessions of the server, including closed ones
	notifier jsonrpc.Peer
	onRoots  func()

	principal string // set before the session is in Server.sessions

	version      atomic.Uint32
	level        atomic.Uint32
	capabilities atomic.Pointer[ClientCapabilities]
	client       atomic.Pointer[Implementation]
	tools        atomic.Pointer[registry[*tool]] // the session's own tools; nil if it has none
	live         atomic.Bool                     // the client has sent notifications/initialized
	// closed when the client has closed its sending direction; nil if that is not observed
	over chan struct{}

	room budget.Account // in Server.room; what the session holds beyond freeWeight

	mu     sync.Mutex // guards the fields below
	held   int64      // weight of the client, its capabilities and subs
	subs   map[string]struct{}
	stops  map[string]func() // subscriptions at the Source, by URI
	outbox noteQueue
	pump   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
	closed bool
}

// NewSession returns a session. The server stores it only between its handshake and Close.
func (s *Server) NewSession(o SessionOptions) *Session {
	return &Session{ID: o.ID, server: s, serial: s.serials.Add(1), notifier: o.Voice, onRoots: o.OnRoots, room: budget.Account{Pool: &s.room}}
}

// What clients may make the sessions of a server hold, in bytes of memory. Sessions last for hours,
// and there may be ten thousand.
const (
	maxSessionRoom     = 32 << 20 // of all sessions together, beyond freeWeight of each
	freeWeight         = 8 << 10
	maxCapabilities    = 64 << 10 // length of the JSON text
	maxClientInfo      = 64 << 10 // a longer one is stored without its icons, and with short texts
	weightOfJSON       = 8        // memory that a byte of JSON takes once it is decoded
	weightOfSubscriber = 256      // of one subscription, besides its URI
)

// holdLocked counts memory that the client makes the session hold, and reports whether there was
// room.
func (n *Session) holdLocked(weight int64) bool {
	over := max(n.held+weight-freeWeight, 0) - max(n.held-freeWeight, 0)
	if over > 0 && !n.room.Take(over) {
		return false
	}
	n.held += weight
	return true
}

// releaseLocked is the opposite of holdLocked.
func (n *Session) releaseLocked(weight int64) {
	over := max(n.held-freeWeight, 0) - max(n.held-weight-freeWeight, 0)
	n.held -= weight
	if over > 0 {
		n.room.Give(over)
	}
}

// errFull is the response to what a session has no room for.
var errFull = jsonrpc.NewError(jsonrpc.CodeBusy, "The sessions hold too much").
	WithData(jsonrpc.FaultData{Reason: "busy", Retryable: true, RetryAfterMs: 5000})

func weightOfURI(uri string) int64 { return weightOfSubscriber + 2*int64(len(uri)) }

// brief returns a client's description without what may be long.
func brief(info Implementation) Implementation {
	short := func(text string) string {
		return strings.Clone(strings.ToValidUTF8(text[:min(len(text), 256)], "")) // the text may have been cut within a letter
	}
	return Implementation{Name: short(info.Name), Title: short(info.Title), Version: short(info.Version)}
}

// Handle handles a request of this conversation.
func (n *Session) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	return n.server.serve(ctx, n, req)
}

// Version returns the negotiated version, or the zero Version before the handshake.
func (n *Session) Version() Version { return Version(n.version.Load()) }

// Client returns the client's description of itself from the handshake.
func (n *Session) Client() Implementation {
	if c := n.client.Load(); c != nil {
		return *c
	}
	return Implementation{}
}

// Capabilities returns the client's capabilities from the handshake, or nil before it. They must
// not be changed.
func (n *Session) Capabilities() *ClientCapabilities { return n.capabilities.Load() }

// Peer returns the Peer for messages that do not belong to a request. It may be nil.
func (n *Session) Peer() jsonrpc.Peer { return n.notifier }

// begin stores the result of the handshake; caps and info are the lengths of two of its texts. It
// returns an error if there was a handshake already, if the session is closed, or if there is no
// room for the capabilities.
func (n *Session) begin(principal string, v Version, in *InitializeParams, caps, info int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.version.Load() != 0 || n.closed {
		return jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: already initialized")
	}
	if !n.holdLocked(weightOfJSON * int64(caps)) {
		return errFull
	}
	if info > maxClientInfo || !n.holdLocked(weightOfJSON*int64(info)) {
		in.ClientInfo = brief(in.ClientInfo)
	}
	n.principal = principal
	n.capabilities.Store(&in.Capabilities)
	n.client.Store(&in.ClientInfo)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.version.Store(uint32(v))
	n.server.mu.Lock()
	n.server.sessions[n] = struct{}{}
	n.server.mu.Unlock()
	return nil
}

// ready marks the client as initialized: from now on it may receive notifications about changes.
func (n *Session) ready() {
	if n.version.Load() != 0 {
		n.live.Store(true)
	}
}

// Close closes the session. It sends nothing more, and waits at most 5 s for messages that are
// being sent. Tasks that belong only to this session are cancelled.
func (n *Session) Close() {
	n.server.tasks.endSession(n)
	n.server.mu.Lock()
	delete(n.server.sessions, n)
	n.server.mu.Unlock()
	n.mu.Lock()
	began := !n.closed && n.version.Load() != 0
	n.closed = true
	n.releaseLocked(n.held)
	stops := n.stops
	n.subs, n.stops = nil, nil
	if n.cancel != nil {
		n.cancel()
	}
	n.mu.Unlock()
	n.outbox.close()
	for _, stop := range stops {
		stop()
	}
	if began && n.server.opts.OnEnd != nil {
		n.server.opts.OnEnd(n)
	}
	grace.Wait(&n.pump, grace.Time) // it writes to a peer that may not read
}

// AddTool adds a tool for this session only; see [Server.AddTool]. It hides a server tool of the
// same name.
func (n *Session) AddTool(t Tool, f ToolFunc) error {
	made, err := n.server.newTool(t, f)
	if err != nil {
		return err
	}
	own := n.tools.Load()
	if own == nil {
		n.tools.CompareAndSwap(nil, new(registry[*tool]))
		own = n.tools.Load()
	}
	own.put(t.Name, made, made.text)
	n.notify(note{method: NotifyToolsChanged})
	return nil
}

// RemoveTools removes tools of this session.
func (n *Session) RemoveTools(names ...string) {
	if own := n.tools.Load(); own != nil && own.remove(names...) {
		n.notify(note{method: NotifyToolsChanged})
	}
}

// ElicitationComplete notifies the client that the interaction at a URL is complete (MCP
// 2025-11-25, Elicitation, URL Mode). id is the ElicitationID of the question. Other versions do
// not have this notification, and nothing is sent.
func (n *Session) ElicitationComplete(id string) {
	if n.Version().HasElicitationID() {
		n.notify(note{method: NotifyElicitationComplete, other: ElicitationCompleteParams{ElicitationID: id}})
	}
}

// subscribed reports whether the client has subscribed to a resource.
func (n *Session) subscribed(uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.subs[uri]
	return ok
}

// maxSubscriptions is the maximum number of subscriptions of one conversation.
const maxSubscriptions = 1000

// subscribe handles resources/subscribe and resources/unsubscribe.
func (s *Server) subscribe(ctx context.Context, r *Request) (any, error) {
	uri, ok := textOf(r.p.uri)
	if !ok || uri == "" {
		return nil, invalidParams("uri must be a string")
	}
	n := r.session
	if n == nil {
		return nil, jsonrpc.ErrMethodNotFound // without a session the subscription cannot be stored
	}
	if s.opts.Source != nil {
		return s.subscribeSession(ctx, r, uri)
	}
	if r.Method == MethodResourcesSubscribe && !s.hasResource(ctx, r, uri) {
		return nil, s.noResource(r.version, uri)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, there := n.subs[uri]
	switch {
	case n.closed:
		return nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "Invalid Request: the session has ended")
	case r.Method == MethodResourcesUnsubscribe:
		if there {
			delete(n.subs, uri)
			n.releaseLocked(weightOfURI(uri))
		}
		return empty, nil
	case there:
		return empty, nil
	case len(n.subs) >= maxSubscriptions:
		return nil, invalidParams("too many subscriptions")
	case !n.holdLocked(weightOfURI(uri)):
		return nil, errFull
	}
	if n.subs == nil {
		n.subs = map[string]struct{}{}
	}
	n.subs[uri] = struct{}{}
	return empty, nil
}

// notify queues a message for an initialized client, and starts sending if necessary.
func (n *Session) notify(m note) {
	if n.notifier == nil || !n.live.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	if n.outbox.push(m) {
		n.pump.Add(1)
		go n.drain()
	}
}

// drain sends the queued messages, and returns when the queue is empty.
func (n *Session) drain() {
	defer n.pump.Done()
	for {
		m, ok := n.outbox.take()
		if !ok {
			return
		}
		// After a panic of a transport or a store, the next messages are sent.
		err := rescue.Call(n.server.report, func() error { return n.notifier.Notify(n.ctx, m.method, m.paramsFor(jsonrpc.ID{})) })
		if err != nil && n.ctx.Err() == nil && !errors.Is(err, jsonrpc.ErrOneWay) {
			n.server.report(ReportNotify, err)
		}
	}
}

// A capabilityCache caches the decoded capabilities that modern clients repeat in each request.
type capabilityCache struct {
	mu   sync.RWMutex // guards the fields below
	seen map[string]*ClientCapabilities
}

// cachedCapabilities is the maximum number of cached texts, and longestCapabilities the maximum
// length of each.
const (
	cachedCapabilities  = 256
	longestCapabilities = 4096
)

func (c *capabilityCache) read(text jsonrpc.Raw) (*ClientCapabilities, error) {
	c.mu.RLock()
	caps := c.seen[string(text)]
	c.mu.RUnlock()
	if caps != nil {
		return caps, nil
	}
	caps = new(ClientCapabilities)
	if err := text.Decode(caps); err != nil {
		return nil, err
	}
	if len(text) > longestCapabilities {
		return caps, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= cachedCapabilities {
		c.seen = map[string]*ClientCapabilities{}
	}
	c.seen[string(text)] = caps
	return caps, nil
}
