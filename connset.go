package parley

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// halfClosed is the grace period of byte streams: printf … | nc -N, and a program at the end of a
// pipe, close their sending side and wait for the response. A peer that is gone cannot be
// distinguished from them until something is written to it.
const halfClosed = 15 * time.Second

// lastStep is the time for goroutines to return after all of them were cancelled and the shutdown
// time has expired.
const lastStep = 100 * time.Millisecond

// A connSet holds the open bidirectional connections of one service.
type connSet struct {
	listener *Listener
	locked   bool          // requires a token before the first request
	grace    time.Duration // time for running handlers to finish after the peer's last byte
	strikes  guard.Strikes // wrong tokens by address

	mu      sync.Mutex // guards the fields below
	open    map[*jsonrpc.Conn]openState
	closing bool
	polite  bool           // closed by Shutdown, which allows time to finish
	done    sync.WaitGroup // one count for each open connection
}

// An opening holds the settings of one connection.
type opening struct {
	version jsonrpc.Version
	// reports to the transport why the connection is closed; may be nil
	ending   func(cause error)
	converse func(*jsonrpc.Conn) (over func()) // runs last in the setup; if nil, Listener.Converse
	// the peer's address and its TLS state, for byte streams; may be empty
	remote net.Addr
	tls    func() (tls.ConnectionState, bool)
}

// An openState belongs to one open connection.
type openState struct {
	opening
	over func() // called when the connection is closed
}

// openConn creates a connection on a transport. It returns nil if the service is closing; the
// transport is then closed.
func (c *connSet) openConn(transport jsonrpc.Transport, o opening) *jsonrpc.Conn {
	conn := jsonrpc.NewConn(withTap(transport, c.listener.Tap))
	conn.Grace, conn.Ending = c.grace, o.ending
	c.listener.Answering(&conn.Answerer, o.version)
	if o.converse == nil {
		o.converse = c.listener.Converse
	}
	over := func() {}
	if o.converse != nil {
		set := func() error {
			if f := o.converse(conn); f != nil {
				over = func() { _ = rescue.Run(c.listener.Report, f) } // the connection is closed
			}
			return nil
		}
		if rescue.Call(c.listener.Report, set) != nil {
			_ = transport.Close() // it was never used
			return nil
		}
	}
	if !c.enter(conn, openState{o, over}) {
		if o.ending != nil {
			o.ending(jsonrpc.ErrClosed)
		}
		_ = transport.Close() // it was never used
		over()
		return nil
	}
	return conn
}

// enter registers a connection, unless the service is closing.
func (c *connSet) enter(conn *jsonrpc.Conn, state openState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	if c.open == nil {
		c.open = make(map[*jsonrpc.Conn]openState)
	}
	c.open[conn] = state
	c.done.Add(1)
	return true
}

// serve serves a connection that begin created, until the peer closes it or the service stops.
func (c *connSet) serve(ctx context.Context, conn *jsonrpc.Conn) error {
	c.mu.Lock()
	state := c.open[conn]
	c.mu.Unlock()
	if state.tls != nil && c.listener.certifies() {
		certify(conn, state.tls)
	}
	if state.remote != nil {
		ctx = withRemote(ctx, ipOf(state.remote))
	}
	if c.locked {
		remote := ""
		if state.remote != nil {
			remote = state.remote.String()
		}
		defer lock(conn, c.listener, &c.strikes, remote)()
	}
	defer func() {
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
		state.over()
		c.done.Done()
	}()
	err := conn.Serve(ctx)
	_ = conn.Close() // err has the reason
	return err
}

// isPolite reports whether connections are closed because the service shuts down with time to
// finish.
func (c *connSet) isPolite() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.polite
}

// shutdown closes all connections, and waits for running handlers until ctx ends.
func (c *connSet) shutdown(ctx context.Context) error {
	c.mu.Lock()
	c.closing, c.polite = true, ctx.Err() == nil
	open := make([]*jsonrpc.Conn, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	c.mu.Unlock()

	errs := make([]error, len(open))
	var wg sync.WaitGroup
	for i, conn := range open {
		wg.Go(func() {
			err := conn.Shutdown(ctx)
			if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
				// requests were cancelled; every other error only means that the peer closed the
				// connection
				errs[i] = cause
			}
		})
	}
	wg.Wait()
	if ctx.Err() == nil {
		grace.Wait(&c.done, grace.Time)
	} else {
		grace.Wait(&c.done, lastStep) // a handler that ignores its context is abandoned
	}
	return errors.Join(errs...)
}
