package mcp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// SessionOptions tune [Server.NewSession].
type SessionOptions struct {
	// ID names the session for its carrier, and is empty where the connection is the session.
	ID string

	// Voice is how the server speaks when nobody has asked: list changes, updates, questions of tasks. A [jsonrpc.Conn] is one; over HTTP
	// it is [jsonrpc.PeerOf] the session's Asker and its event stream. Nil: such messages are dropped.
	Voice jsonrpc.Peer

	// OnRoots is called when the client's roots have changed. It must not wait. Nil: nobody cares.
	OnRoots func()
}

// A Session is a legacy conversation, from its handshake on: the version it agreed on, what the client can do, what it subscribed to. It is
// a [jsonrpc.Handler], also for modern requests on the same connection, which see nothing of it. It costs about 1 KB.
type Session struct {
	ID string

	server  *Server
	serial  uint64 // tells sessions apart, also when they are gone
	voice   jsonrpc.Peer
	onRoots func()

	version      atomic.Uint32
	level        atomic.Uint32
	capabilities atomic.Pointer[ClientCapabilities]
	client       atomic.Pointer[Implementation]
	tools        atomic.Pointer[registry[*tool]] // the session's own; nil for none
	live         atomic.Bool                     // the client said that it is initialized
	over         chan struct{}                   // closed when the client has said its last word; nil: nobody tells

	mu     sync.Mutex // guards what follows
	subs   map[string]struct{}
	outbox noteQueue
	pump   sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc
	closed bool
}

// NewSession makes a session. Nothing is kept of it until its handshake, and nothing after Close.
func (s *Server) NewSession(o SessionOptions) *Session {
	return &Session{ID: o.ID, server: s, serial: s.serials.Add(1), voice: o.Voice, onRoots: o.OnRoots}
}

// Handle answers a request of this conversation.
func (n *Session) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	return n.server.serve(ctx, n, req)
}

// Version returns what the handshake agreed on, and the zero Version before.
func (n *Session) Version() Version { return Version(n.version.Load()) }

// Client returns how the client presented itself in the handshake.
func (n *Session) Client() Implementation {
	if c := n.client.Load(); c != nil {
		return *c
	}
	return Implementation{}
}

// Capabilities returns what the client said in the handshake, nil before it. It is not to be changed.
func (n *Session) Capabilities() *ClientCapabilities { return n.capabilities.Load() }

// Peer is the client as seen from the server when nobody has asked. Nil where there is no way to it.
func (n *Session) Peer() jsonrpc.Peer { return n.voice }

// begin keeps what the handshake agreed on, and reports false when there was one already.
func (n *Session) begin(v Version, in *InitializeParams) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.version.Load() != 0 || n.closed {
		return false
	}
	n.capabilities.Store(&in.Capabilities)
	n.client.Store(&in.ClientInfo)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.version.Store(uint32(v))
	n.server.mu.Lock()
	n.server.sessions[n] = struct{}{}
	n.server.mu.Unlock()
	return true
}

// ready is called when the client said that it is initialized: from now on it may be told of changes.
func (n *Session) ready() {
	if n.version.Load() != 0 {
		n.live.Store(true)
	}
}

// Close ends the session: nothing is sent any more, and it waits for what is being sent. Tasks that only this session could ask for are cancelled.
func (n *Session) Close() {
	n.server.tasks.endSession(n)
	n.server.mu.Lock()
	delete(n.server.sessions, n)
	n.server.mu.Unlock()
	n.mu.Lock()
	n.closed = true
	if n.cancel != nil {
		n.cancel()
	}
	n.mu.Unlock()
	n.outbox.close()
	n.pump.Wait()
}

// AddTool offers a tool to this session alone; see [Server.AddTool]. It hides one of the server with the same name.
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
	n.tell(note{method: NotifyToolsChanged})
	return nil
}

// RemoveTools takes tools of this session away.
func (n *Session) RemoveTools(names ...string) {
	if own := n.tools.Load(); own != nil && own.remove(names...) {
		n.tell(note{method: NotifyToolsChanged})
	}
}

// ElicitationComplete tells the client that what the user was sent to a URL for is done (MCP 2025-11-25, Elicitation, URL Mode). id is the
// ElicitationID of the question. Other revisions have no such message, and nothing is sent.
func (n *Session) ElicitationComplete(id string) {
	if n.Version().HasElicitationID() {
		n.tell(note{method: NotifyElicitationComplete, other: ElicitationCompleteParams{ElicitationID: id}})
	}
}

// subscribed reports whether the client wants to hear of a resource.
func (n *Session) subscribed(uri string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.subs[uri]
	return ok
}

// maxSubscriptions bounds what one conversation may subscribe to.
const maxSubscriptions = 1000

// subscribe answers resources/subscribe and resources/unsubscribe.
func (s *Server) subscribe(ctx context.Context, r *Request) (any, error) {
	uri, ok := textOf(r.p.uri)
	if !ok || uri == "" {
		return nil, invalidParams("uri is a string")
	}
	n := r.session
	if n == nil {
		return nil, jsonrpc.ErrMethodNotFound // nobody would remember it
	}
	if r.Method == MethodResourcesSubscribe && !s.hasResource(ctx, r, uri) {
		return nil, s.noResource(r.version, uri)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Method == MethodResourcesUnsubscribe {
		delete(n.subs, uri)
		return empty, nil
	}
	if len(n.subs) >= maxSubscriptions {
		return nil, invalidParams("too many subscriptions")
	}
	if n.subs == nil {
		n.subs = map[string]struct{}{}
	}
	n.subs[uri] = struct{}{}
	return empty, nil
}

// tell queues a message to a client that is ready for it, and sees that it goes out.
func (n *Session) tell(m note) {
	if n.voice == nil || !n.live.Load() {
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

// drain sends what is queued, and ends when nothing is.
func (n *Session) drain() {
	defer n.pump.Done()
	for {
		m, ok := n.outbox.take()
		if !ok {
			return
		}
		if err := n.voice.Notify(n.ctx, m.method, m.paramsFor(jsonrpc.ID{})); err != nil && n.ctx.Err() == nil && !errors.Is(err, jsonrpc.ErrOneWay) {
			n.server.report("notify", err)
		}
	}
}

// A capabilityCache decodes the capabilities that modern clients repeat in each request.
type capabilityCache struct {
	mu   sync.RWMutex // guards what follows
	seen map[string]*ClientCapabilities
}

// cachedCapabilities bounds how many texts are kept, and longestCapabilities each of them.
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
