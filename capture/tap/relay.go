package tap

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
)

// A Carrier is what a Relay passes on.
type Carrier int

const (
	Stream Carrier = iota // TCP or a Unix socket: each connection is a wire
	HTTP                  // HTTP/1.1, HTTP/2 without TLS and WebSocket: all HTTP is one wire, each WebSocket is another
)

// dialTime bounds the dial of the server for each connection.
const dialTime = 10 * time.Second

// A Relay takes connections for a server elsewhere and passes them on, each over one of its own.
type Relay struct {
	Dial    func(ctx context.Context) (net.Conn, error) // a connection to the server
	Dial2   func(ctx context.Context) (net.Conn, error) // one for a client that speaks HTTP/2 from its first byte on; nil: Dial
	Carrier Carrier
	Framing Framing // of a Stream

	// Host replaces the Host header of HTTP requests, since the client names us, and most servers answer only to their own
	// name. It is the one thing that is changed, and in HTTP/1.1 alone: the headers of HTTP/2 cannot be changed without making all of them
	// anew. Empty: the client's stays. Only what is in Names is replaced: a web page that
	// reaches us under a name of its own (DNS rebinding) must not borrow the server's.
	Host  string
	Names []string // of ours, with port

	Record *capture.Recorder
	Info   capture.WireInfo

	// Failed is told of a connection that could not be passed on. Nil: nobody is.
	Failed func(err error)

	once sync.Once
	web  *capture.Wire
}

// Serve passes connections on until ctx ends or the listener fails. It closes the listener, then the connections, and returns when all of
// them have ended; nil after the end of ctx.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer func() {
		cancel()
		conns.Wait()
		if r.web != nil {
			r.web.Close(nil)
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			_ = l.Close() // already failing with err
			return err
		}
		conns.Go(func() { r.serve(ctx, c) })
	}
}

// httpWire is the wire of all HTTP.
func (r *Relay) httpWire() *capture.Wire {
	r.once.Do(func() { r.web = r.Record.Wire(r.Info) })
	return r.web
}

func (r *Relay) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	dial := r.Dial
	if r.Dial2 != nil && r.Carrier == HTTP { // what the client speaks decides
		stop := context.AfterFunc(ctx, func() { _ = client.Close() })
		peeked := &peekedConn{Conn: client, first: make([]byte, len(prefaceHead))}
		n, err := io.ReadAtLeast(client, peeked.first, len("PRI"))
		if !stop() || err != nil && n == 0 {
			return
		}
		peeked.first = peeked.first[:n]
		if string(peeked.first[:min(n, 3)]) == "PRI" {
			dial = r.Dial2
		}
		client = peeked
	}
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	server, err := dial(dialing)
	cancel()
	if err != nil {
		if r.Failed != nil && ctx.Err() == nil {
			r.Failed(err)
		}
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()

	info := r.Info
	info.Peer = client.RemoteAddr().String()
	if r.Carrier == HTTP {
		r.serveHTTP(client, server, info)
		return
	}
	w := r.Record.Wire(info)
	out, in := newReader(r.Framing, wireSink{w, capture.Out}), newReader(r.Framing, wireSink{w, capture.In})
	var t turn
	both(client, server, func() error { return pass(server, client, out, &t) }, func() error { return pass(client, server, in, &t) })
	w.Close(nil)
}

func (r *Relay) serveHTTP(client, server net.Conn, info capture.WireInfo) {
	t := &talk{wire: r.httpWire, ws: func() *capture.Wire {
		info.Carrier = "ws"
		return r.Record.Wire(info)
	}}
	request, response := &half{t: t}, &half{t: t, response: true}
	if r.Host != "" {
		request.rewrite = func(head []byte) []byte { return withHost(head, r.Host, r.Names) }
	}
	var order turn
	both(client, server, func() error { return passHTTP(server, client, request, &order) }, func() error { return pass(client, server, response, &order) })
	t.cut()
}

// A peekedConn is a connection of which some bytes were read already.
type peekedConn struct {
	net.Conn
	first []byte
}

func (c *peekedConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends one direction, if the connection can do that.
func (c *peekedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// both copies in both directions and passes on half a close: one end of a connection may stop sending and still read.
func both(client, server net.Conn, out, in func() error) {
	var ways sync.WaitGroup
	ways.Go(func() {
		if out() != nil {
			_ = client.Close() // who sends to nobody learns it
		}
		closeWrite(server)
	})
	ways.Go(func() {
		if in() != nil {
			_ = server.Close()
		}
		closeWrite(client)
	})
	ways.Wait()
}

// closeWrite ends one direction of a connection; what cannot do that is closed.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
		return
	}
	_ = c.Close()
}

// withHost is a request's head with another Host.
func withHost(head []byte, host string, names []string) []byte {
	out := make([]byte, 0, len(head)+len(host))
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte("host")) && slices.Contains(names, strings.ToLower(string(bytes.TrimSpace(value)))) {
			out = append(out, name...)
			out = append(append(append(out, ": "...), host...), "\r\n"...)
			continue
		}
		out = append(out, line...)
	}
	return out
}
