package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/transport/stream"
)

// Options configure Dial and Listen. The zero value is ready for use, except for a listener on
// "tls", which needs a certificate.
type Options struct {
	// Options bound messages and their time. A listener sets RefuseHTTP itself.
	stream.Options

	// Framing delimits payloads: stream.Line, the zero value, or stream.Header.
	Framing stream.Framer

	// TLS is for the network "tls". Versions below TLS 1.2 are refused, regardless of its
	// MinVersion. If nil, Dial uses the system's roots and the host of the address.
	TLS *tls.Config

	// MaxConns bounds the connections that a listener has open at once. Zero means 16,384. The
	// limit is at most 80 % of the files that the process may open. A connection above it gets
	// -31001 with ID null and is closed.
	MaxConns int

	// MaxPerIP bounds them for each remote address, except loopback; of an IPv6 address the first
	// 64 bits count. Zero means 256, negative means no bound.
	MaxPerIP int

	// Report is called with problems after which a listener continues: connections that it refused,
	// and files that it had no room for. It is called on the goroutine of Accept. If nil, the
	// reports are dropped.
	Report func(what string, err error)
}

// Timeouts of opening a connection. Later operations have the timeouts of [stream.Options].
const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
)

// keepAlive detects a peer that is gone without closing: after 15 s of silence, 9 probes 15 s
// apart.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 9}

// A Transport is a [stream.Transport] on a socket.
type Transport struct {
	*stream.Transport
	conn    net.Conn
	release func() // releases the place at the listener; may be nil
	once    sync.Once
}

func newTransport(conn net.Conn, o *Options, release func()) *Transport {
	return &Transport{Transport: stream.New(conn, o.Framing, &o.Options), conn: conn, release: release}
}

// Close closes the connection. Until then it counts at its listener, also if the peer has
// disconnected.
func (t *Transport) Close() error {
	err := t.Transport.Close()
	if t.release != nil {
		t.once.Do(t.release)
	}
	return err
}

// RemoteAddr returns the peer's address.
func (t *Transport) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// LocalAddr returns the address of this end.
func (t *Transport) LocalAddr() net.Addr { return t.conn.LocalAddr() }

// TLS returns the negotiated state on the network "tls". At a listener it is available after the
// first payload was read.
func (t *Transport) TLS() (state tls.ConnectionState, ok bool) {
	c, ok := t.conn.(*secured)
	if !ok {
		return state, false
	}
	state = c.ConnectionState()
	return state, state.HandshakeComplete
}

// Dial connects to addr on network, which is "tcp", "tls" or "unix", within 5 s or the time of ctx.
// The end of ctx has no effect later. For "tls" Dial includes the handshake.
func Dial(ctx context.Context, network, addr string, o *Options) (*Transport, error) {
	if o == nil {
		o = &Options{}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dial(ctx, network, addr, o)
	if err != nil {
		return nil, fmt.Errorf("socket: dial %s %s: %w", network, addr, err)
	}
	return newTransport(conn, o, nil), nil
}

func dial(ctx context.Context, network, addr string, o *Options) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	switch network {
	case "tcp", "unix":
		return d.DialContext(ctx, network, addr)
	case "tls":
		c := &tls.Dialer{NetDialer: &d, Config: modern(o.TLS)}
		return c.DialContext(ctx, "tcp", addr)
	}
	return nil, net.UnknownNetworkError(network)
}

// modern returns a copy of c that accepts only TLS 1.2 and newer.
func modern(c *tls.Config) *tls.Config {
	if c == nil {
		c = &tls.Config{}
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return c
}

// secured is the listener's end of TLS. The handshake runs with the first Read or Write, so that
// Accept does not wait, and has 5 s from then.
type secured struct {
	*tls.Conn
	once sync.Once
	err  error
}

func (c *secured) handshake() error {
	c.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		defer cancel()
		if c.err = c.HandshakeContext(ctx); c.err != nil {
			c.err = fmt.Errorf("TLS handshake: %w", c.err)
		}
	})
	return c.err
}

func (c *secured) Read(p []byte) (int, error) {
	if err := c.handshake(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *secured) Write(p []byte) (int, error) {
	if err := c.handshake(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// errNoCertificate is the error of a listener on "tls" without a certificate.
var errNoCertificate = errors.New("a TLS listener needs a certificate")

// certified reports whether c can serve.
func certified(c *tls.Config) bool {
	return c != nil && (len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil)
}
