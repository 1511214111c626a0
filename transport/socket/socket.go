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

// Options tune Dial and Listen. The zero value is ready for use, but for a listener on "tls", which needs a certificate.
type Options struct {
	// Options bound messages and their time. A listener sets RefuseHTTP itself.
	stream.Options

	// Framing tells payloads apart: stream.Line, the zero value, or stream.Header.
	Framing stream.Framer

	// TLS is for the network "tls". Versions below TLS 1.2 are refused, whatever it says. Nil dials with the
	// system's roots and the host of the address.
	TLS *tls.Config

	// MaxConns bounds the connections that a listener has open at once. Zero means 16,384. It is never more than
	// 80 % of the files that the process may open. Who is one too many gets -31001 with id null and is closed.
	MaxConns int

	// MaxPerIP bounds them for each remote address, loopback excepted; of an IPv6 address the first 64 bits count.
	// Zero means 256, negative means no bound.
	MaxPerIP int

	// Report is told what a listener met and went on from: connections that it refused, files that it had no room
	// for. It is called on the goroutine of Accept. Nil drops it.
	Report func(what string, err error)
}

// Times of a connection. What happens on it later has the times of [stream.Options].
const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 5 * time.Second
)

// keepAlive finds a peer that is gone without a word: after 15 s of silence, 9 probes 15 s apart.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 9}

// A Transport is a [stream.Transport] on a socket.
type Transport struct {
	*stream.Transport
	conn    net.Conn
	release func() // gives the place at the listener back; nil for none
	once    sync.Once
}

func newTransport(conn net.Conn, o *Options, release func()) *Transport {
	return &Transport{Transport: stream.New(conn, o.Framing, &o.Options), conn: conn, release: release}
}

// Close closes the connection. Until then it counts at its listener, also when the peer is long gone.
func (t *Transport) Close() error {
	err := t.Transport.Close()
	if t.release != nil {
		t.once.Do(t.release)
	}
	return err
}

// RemoteAddr is where the peer is.
func (t *Transport) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// LocalAddr is where this end is.
func (t *Transport) LocalAddr() net.Addr { return t.conn.LocalAddr() }

// TLS is what was agreed on the network "tls". At a listener it is known once the first payload was read.
func (t *Transport) TLS() (state tls.ConnectionState, ok bool) {
	c, ok := t.conn.(*secured)
	if !ok {
		return state, false
	}
	state = c.ConnectionState()
	return state, state.HandshakeComplete
}

// Dial connects to addr on network, which is "tcp", "tls" or "unix", within 5 s or the time of ctx. The end of ctx
// has no effect later. For "tls" the handshake is part of it.
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

// modern returns a copy of c that accepts TLS 1.2 and newer alone.
func modern(c *tls.Config) *tls.Config {
	if c == nil {
		c = &tls.Config{}
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return c
}

// secured is the listener's end of TLS. The handshake waits for the first Read or Write, so that Accept never does, and
// has 5 s from then.
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

// errNoCertificate is a listener on "tls" that nobody could trust.
var errNoCertificate = errors.New("a TLS listener needs a certificate")

// certified reports whether c can serve.
func certified(c *tls.Config) bool {
	return c != nil && (len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil)
}
