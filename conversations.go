package parley

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// halfClosed is the grace of byte streams: printf … | nc -N, and a program at the end of a pipe, close their side and wait. A
// peer that is gone altogether looks the same there until something is written to it.
const halfClosed = 15 * time.Second

// conversations are the open connections of one service on which both sides speak.
type conversations struct {
	listener *Listener
	locked   bool          // a token must be shown before the first request
	grace    time.Duration // how long what runs may finish after the peer has sent its last byte

	mu      sync.Mutex               // guards what is below
	open    map[*jsonrpc.Conn]func() // with what to call when it is over
	closing bool
	done    sync.WaitGroup // one for each that is open
}

// An opening is what is particular about a conversation.
type opening struct {
	version  jsonrpc.Version
	ending   func(cause error)                 // tells the carrier why it ends; nil: nothing
	converse func(*jsonrpc.Conn) (over func()) // has the last word; nil: Listener.Converse
}

// begin makes a conversation of a carrier. It returns nil when the service is closing; the carrier is then closed.
func (c *conversations) begin(transport jsonrpc.Transport, o opening) *jsonrpc.Conn {
	conn := jsonrpc.NewConn(withTap(transport, c.listener.Tap))
	conn.Grace, conn.Ending = c.grace, o.ending
	c.listener.Answering(&conn.Answerer, o.version)
	if o.converse == nil {
		o.converse = c.listener.Converse
	}
	over := func() {}
	if o.converse != nil {
		if f := o.converse(conn); f != nil {
			over = f
		}
	}
	if !c.enter(conn, over) {
		if o.ending != nil {
			o.ending(jsonrpc.ErrClosed)
		}
		_ = transport.Close() // never used
		over()
		return nil
	}
	return conn
}

// enter counts a conversation in, unless the service is closing.
func (c *conversations) enter(conn *jsonrpc.Conn, over func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return false
	}
	if c.open == nil {
		c.open = make(map[*jsonrpc.Conn]func())
	}
	c.open[conn] = over
	c.done.Add(1)
	return true
}

// serve runs a conversation that begin has made until the peer hangs up or the service ends.
func (c *conversations) serve(ctx context.Context, conn *jsonrpc.Conn) error {
	if c.locked {
		defer lock(conn, c.listener.Tokens)()
	}
	defer func() {
		c.mu.Lock()
		over := c.open[conn]
		delete(c.open, conn)
		c.mu.Unlock()
		over()
		c.done.Done()
	}()
	err := conn.Serve(ctx)
	_ = conn.Close() // err says why it ended
	return err
}

// shutdown ends all conversations, politely until ctx ends.
func (c *conversations) shutdown(ctx context.Context) error {
	c.mu.Lock()
	c.closing = true
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
				errs[i] = cause // something was cut off; all else is the peer's way to go
			}
		})
	}
	wg.Wait()
	c.done.Wait()
	return errors.Join(errs...)
}
