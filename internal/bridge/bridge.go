// Package bridge passes JSON-RPC on between clients on one transport and a server on another.
package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// The flow of a request of a client:
//
//	client.Handle              handler of the client's connection, session or POST
//	└─ call                    client.go   registers the request
//	   ├─ initialize           hello.go    remembers the handshake of MCP
//	   ├─ link.server          link.go     the server, connected anew if it is gone
//	   │  └─ dial              server.go   a connection, a child, or HTTP
//	   └─ server.Do                        the response, or an error that fault maps
//
// And of what a server initiates: link.notified (in wire order, before any later response) and
// link.ask, both in fromserver.go.

// maxServers is the default of Options.MaxServers.
const maxServers = 64

// Options configure a Bridge.
type Options struct {
	// To is the server. A child process (scheme "exec") is started for each client.
	To parley.Target

	// Dialer has the settings of the connection to the server, or of the child.
	Dialer parley.Dialer

	// Share has all clients use one server.
	Share bool

	// MaxServers bounds the connections to servers, or the children, at one time. Zero means 64. A
	// client above it gets -31001.
	MaxServers int

	// CallTime bounds a call whose client does not give up before; each notification about the call
	// renews it. Zero means 10 min, negative means no bound. It does not bound a subscription of MCP,
	// nor the wait for the result of a task.
	CallTime time.Duration

	// Report is called with what has no receiver, as [jsonrpc.Answerer] describes. It must be set.
	Report func(what string, err error)
}

// A Bridge connects clients to servers. Each client gets its own server, with Share all use one. It
// is safe for concurrent use.
//
// A call is sent to a server once. If the server ends first, the call fails with -31006 whether it
// has run or not, and the next call of the client starts or dials the server again; the handshake
// of an MCP client is then repeated for it.
type Bridge struct {
	opts Options

	mu     sync.Mutex // guards the fields below
	closed bool
	links  map[*link]struct{}
	shared *link // of all clients with Share, and of HTTP clients without a session
	used   int   // servers
	wg     sync.WaitGroup
	web    *streamable.Server
}

// New creates a Bridge. It starts nothing.
func New(o Options) *Bridge {
	if o.MaxServers == 0 {
		o.MaxServers = maxServers
	}
	if o.CallTime == 0 {
		o.CallTime = 10 * time.Minute
	}
	if o.To.Scheme == "stdio" {
		o.Share = true // there is only one
	}
	b := &Bridge{opts: o, links: make(map[*link]struct{})}
	b.web = b.newWeb()
	return b
}

// anyMode applies to all methods: their deadline is that of the call to the server.
func anyMode(string) jsonrpc.Mode { return jsonrpc.Open | jsonrpc.InOrder }

// Converse sets up the connection of a client, for [parley.Listener].
func (b *Bridge) Converse(conn *jsonrpc.Conn) (over func()) {
	c := b.newClient(conn)
	conn.Handler, conn.Mode, conn.Cancellation = c, anyMode, mcp.Cancellation
	conn.Open = func(string) bool { return true } // the server decides how long it waits
	var inputEnded context.CancelCauseFunc
	c.reading, inputEnded = context.WithCancelCause(context.Background())
	conn.InputEnded = func() { inputEnded(errInputEnded) }
	return func() {
		inputEnded(jsonrpc.ErrClosed)
		c.leave()
	}
}

// newClient returns a client with its own link, or the common one with Share. down is nil for
// requests that belong to no conversation.
func (b *Bridge) newClient(down jsonrpc.Peer) *client {
	var l *link
	if b.opts.Share || down == nil {
		l = b.common()
	} else {
		l = b.newLink(true)
	}
	c := &client{link: l, down: down, runs: make(map[*run]struct{})}
	l.join(c)
	return c
}

// common returns the link of clients that share a server.
func (b *Bridge) common() *link {
	b.mu.Lock()
	l := b.shared
	b.mu.Unlock()
	if l != nil {
		return l
	}
	l = b.newLink(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared == nil {
		b.shared = l
	}
	return b.shared
}

func (b *Bridge) newLink(exclusive bool) *link {
	l := &link{b: b, exclusive: exclusive, clients: make(map[*client]struct{}), tokens: make(map[string]*run)}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		l.cancel(jsonrpc.ErrClosed)
	} else {
		b.links[l] = struct{}{}
	}
	return l
}

// takePlace counts one more server, unless there are too many.
func (b *Bridge) takePlace() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.used >= b.opts.MaxServers {
		return false
	}
	b.used++
	b.wg.Add(1)
	return true
}

func (b *Bridge) givePlace() {
	b.mu.Lock()
	b.used--
	b.mu.Unlock()
	b.wg.Done()
}

// Servers returns the number of servers in use.
func (b *Bridge) Servers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// closeTime bounds Close: the steps in which a child is ended take 12 s.
const closeTime = 15 * time.Second

// Close ends all servers and waits for them, at most 15 s. Stop the listener first.
func (b *Bridge) Close() error {
	b.web.Close()
	b.mu.Lock()
	b.closed = true
	links := b.links
	b.links = make(map[*link]struct{})
	b.mu.Unlock()
	for l := range links {
		l.close()
	}
	if !grace.Wait(&b.wg, closeTime) {
		return errors.New("bridge: a server has not ended")
	}
	return nil
}

// report passes err to Options.Report.
func (b *Bridge) report(what string, err error) { b.opts.Report(what, err) }
