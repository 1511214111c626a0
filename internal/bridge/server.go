package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// errFull is the reason why no more servers are started.
var errFull = jsonrpc.AsNotSent(errors.New("too many servers"))

// A server is a connection to a server, or a child, or the sender of POSTs.
type server struct {
	link    *link
	since   time.Time
	ordered bool // messages arrive in the order in which they are sent
	conn    *jsonrpc.Conn
	web     *webServer // instead of conn, over HTTP
	once    sync.Once
}

// dial connects to the server, or starts it.
func (l *link) dial(ctx context.Context) (*server, error) {
	if !l.b.takePlace() {
		return nil, errFull
	}
	s := &server{link: l, since: time.Now()}
	to := l.b.opts.To
	if to.Scheme == "http" || to.Scheme == "https" {
		s.web = newWebServer(l)
		return s, nil
	}
	t, err := l.b.opts.Dialer.Open(ctx, to)
	if err != nil {
		l.b.givePlace()
		return nil, jsonrpc.AsNotSent(err)
	}
	s.ordered = true
	s.conn = s.converse(t)
	go s.run()
	return s, nil
}

// converse sets up the connection. Notifications are passed on by Related, which the reader calls
// in wire order: before the next response is delivered.
func (s *server) converse(t jsonrpc.Transport) *jsonrpc.Conn {
	l := s.link
	c := jsonrpc.NewConn(t)
	c.Version = l.b.opts.To.Version
	c.Quiet = l.b.opts.To.Scheme == "exec" // programs print other things too
	c.Report = l.b.opts.Report
	c.Limits.CallTime = l.b.opts.CallTime
	c.Open = mcp.Open
	c.Cancellation = jsonrpc.CancelRequest
	l.mu.Lock()
	if l.isMCP {
		c.Cancellation = mcp.Cancellation
	}
	l.mu.Unlock()
	c.Mode = func(string) jsonrpc.Mode { return jsonrpc.Open | jsonrpc.Unordered }
	c.Handler = jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		switch {
		case !req.IsNotification():
			return l.ask(ctx, req)
		case req.Batched():
			l.notified(req)
		}
		return nil, nil // Related has passed it on
	})
	c.Related = func(n *jsonrpc.Request) (jsonrpc.ID, bool) {
		l.notified(n)
		return jsonrpc.ID{}, false
	}
	return c
}

// run reads the server's messages until it ends, and then frees what belongs to it.
func (s *server) run() {
	defer s.link.b.givePlace()
	defer rescue.Catch(s.link.b.report, nil)
	err := s.conn.Serve(context.Background()) // end closes it
	s.link.lost(s)
	if s.link.ctx.Err() == nil {
		if err == nil {
			err = errors.New("it has ended")
		}
		s.link.b.report(ReportServer, fmt.Errorf("%s: %w", s.link.b.opts.To, err))
	}
	_ = s.conn.Close() // err has the reason
}

// Do sends one message.
func (s *server) Do(ctx context.Context, item *jsonrpc.Item) error {
	if s.web != nil {
		return s.web.Do(ctx, item)
	}
	return s.conn.Do(ctx, item)
}

// gone reports whether the connection has ended.
func (s *server) gone() bool { return s.conn != nil && s.conn.Err() != nil }

// listen opens the stream of a session over HTTP, after the handshake.
func (s *server) listen() {
	if s.web != nil {
		s.web.listen()
	}
}

// end ends the server and does not wait: run closes the connection.
func (s *server) end() {
	s.once.Do(func() {
		if s.conn != nil {
			s.conn.Hangup(jsonrpc.ErrClosed)
			return
		}
		go func() {
			defer s.link.b.givePlace()
			defer rescue.Catch(s.link.b.report, nil)
			_ = s.web.transport.Close() // it is no longer used
		}()
	})
}
