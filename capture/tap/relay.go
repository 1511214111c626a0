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
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A Carrier is the transport that a Relay forwards.
type Carrier int

const (
	Stream Carrier = iota // TCP or a Unix socket: each connection is a wire
	// HTTP is HTTP/1.1, HTTP/2 without TLS and WebSocket. All HTTP is one wire, and each WebSocket
	// is another.
	HTTP
)

// dialTime limits the dial to the server for each connection.
const dialTime = 10 * time.Second

// A Relay accepts connections for a server elsewhere and forwards each over a connection of its
// own.
type Relay struct {
	Dial func(ctx context.Context) (net.Conn, error) // connects to the server
	// Dial2 connects to the server for a client that starts with HTTP/2. If nil, Dial is used.
	Dial2   func(ctx context.Context) (net.Conn, error)
	Carrier Carrier
	Framing Framing // of a Stream

	// Host replaces the Host header of HTTP requests, because the client sends our name and most
	// servers accept only their own. This is the only change, and only HTTP/1.1 requests are
	// changed: in HTTP/2, a header cannot be replaced without encoding all of them again. If "",
	// the client's Host is sent. Only a Host listed in Names is replaced: a web page that reaches
	// us under another name (DNS rebinding) must not get the server's.
	Host  string
	Names []string // our host names, with port

	Record *capture.Recorder
	Info   capture.WireInfo

	// Failed is called for a connection that could not be forwarded. If nil, it is not called. Of
	// HTTP, the client also gets a response with status 502 and the reason, which is recorded.
	Failed func(err error)

	once sync.Once
	web  *capture.Wire
}

// Serve forwards connections until ctx ends or the listener fails. It closes the listener and then
// the connections, and returns when all of them are closed. It returns nil after ctx ends.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer func() {
		cancel()
		grace.Wait(&conns, grace.Time) // Dial may ignore its context
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
			_ = l.Close() // err is already being returned
			return err
		}
		conns.Go(func() { r.serve(ctx, c) })
	}
}

// httpWire returns the wire of all HTTP.
func (r *Relay) httpWire() *capture.Wire {
	r.once.Do(func() { r.web = r.Record.Wire(r.Info) })
	return r.web
}

func (r *Relay) serve(ctx context.Context, client net.Conn) {
	defer client.Close()
	defer rescue.Catch(nil, nil) // of Dial and Failed
	dial := r.Dial
	if r.Dial2 != nil && r.Carrier == HTTP { // the client's protocol decides
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
	info := r.Info
	info.Peer = client.RemoteAddr().String()
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		if r.Failed != nil {
			r.Failed(err)
		}
		if r.Carrier == HTTP {
			defer context.AfterFunc(ctx, func() { _ = client.Close() })()
			r.refuse(client, info, err)
		}
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()

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

// A peekedConn is a connection of which some bytes have been read already.
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

// CloseWrite closes one direction, if the connection supports that.
func (c *peekedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// both copies in both directions and forwards half-closes: one side may stop sending and still
// read.
func both(client, server net.Conn, out, in func() error) {
	var ways sync.WaitGroup
	broken := func(error) { _, _ = client.Close(), server.Close() } // a panic of one of them
	ways.Go(func() {
		defer rescue.Catch(nil, broken)
		if out() != nil {
			_ = client.Close() // the client detects that nothing is received
		}
		closeWrite(server)
	})
	ways.Go(func() {
		defer rescue.Catch(nil, broken)
		if in() != nil {
			_ = server.Close()
		}
		closeWrite(client)
	})
	ways.Wait()
}

// closeWrite closes one direction of a connection, or the whole connection if that is not
// supported.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
		return
	}
	_ = c.Close()
}

// withHost returns a request head with another Host.
func withHost(head []byte, host string, names []string) []byte {
	out := make([]byte, 0, len(head)+len(host))
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if ok && bytes.EqualFold(name, []byte("host")) && slices.Contains(names, strings.ToLower(string(bytes.TrimSpace(value)))) {
			out = append(out, name...)
			out = append(append(out, ": "...), host...)
			if bytes.HasSuffix(line, []byte("\r\n")) {
				out = append(out, '\r')
			}
			out = append(out, '\n')
			continue
		}
		out = append(out, line...)
	}
	return out
}
