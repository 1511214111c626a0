package websocket

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options tune Dial and Upgrade. The zero value is ready for use; a nil *Options is the same.
type Options struct {
	// MaxMessage bounds one incoming message, in bytes. Zero means 4 MiB for Upgrade and 16 MiB for Dial, negative means
	// no bound. A longer message ends the connection with 1009 before it is read.
	MaxMessage int64

	// WriteTimeout bounds one write to the network. Zero means 10 s, negative means no bound. After it the connection is
	// cut with jsonrpc.ErrSlowPeer.
	WriteTimeout time.Duration

	// FrameTimeout bounds the time from the first byte of a message to its last. Zero means 30 s, negative means no bound.
	// After it the connection ends with 1008.
	FrameTimeout time.Duration

	// PingInterval is how often the peer is pinged. Zero means 30 s, negative means never.
	PingInterval time.Duration

	// PongTimeout is how long the peer may stay silent after a ping. Zero means 20 s, negative means for ever. Any byte counts,
	// not the pong alone: it may stand behind a long message. After it the connection is cut with [ErrDeadPeer]. Somebody
	// must be in Read to hear the peer. There is one ping on the way at a time.
	PongTimeout time.Duration

	// CloseTimeout bounds the closing handshake, and how long after the peer's close frame, or its mistake, a connection is
	// kept open for answers if nobody calls Close. Zero means 1 s.
	CloseTimeout time.Duration

	// Subprotocols are offered by Dial, the best first, and understood by Upgrade, which takes the first of
	// the client's that is among them. With none in common the connection has none: see [Transport.Subprotocol].
	Subprotocols []string

	// CheckOrigin decides whether Upgrade takes a request from a web page. Nil refuses each Origin whose host and port are
	// not those of the request's Host; a request without Origin passes. That alone does not stop DNS rebinding, under
	// which both are equal: a list of allowed hosts must stand in front.
	CheckOrigin func(*http.Request) bool

	// Header is added to the request of Dial, such as Authorization. Host replaces the one of the URL.
	Header http.Header

	// TLS configures wss addresses for Dial. Nil means the default.
	TLS *tls.Config

	// DialTimeout bounds Dial with all its steps. Zero means 5 s, negative leaves it to the context.
	DialTimeout time.Duration

	// DialContext opens the connection for Dial, such as one to a proxy or a Unix socket. Nil means a net.Dialer.
	// TLS for wss is added on top of what it returns.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// settings are the options that outlive the handshake, with the defaults filled in.
type settings struct {
	max                             int64
	write, frame, ping, pong, close time.Duration
}

func (o *Options) settings(client bool) settings {
	if o == nil {
		o = &Options{}
	}
	s := settings{
		max:   o.MaxMessage,
		write: or(o.WriteTimeout, 10*time.Second),
		frame: or(o.FrameTimeout, 30*time.Second),
		ping:  or(o.PingInterval, 30*time.Second),
		pong:  or(o.PongTimeout, 20*time.Second),
		close: or(o.CloseTimeout, time.Second),
	}
	if s.max == 0 {
		s.max = 4 << 20
		if client {
			s.max = 16 << 20
		}
	}
	return s
}

func or(d, zero time.Duration) time.Duration {
	if d == 0 {
		return zero
	}
	return d
}

// A Transport is one WebSocket connection, either end. It is a jsonrpc.Transport: one goroutine may be in Read,
// any number in Write, and Close may come from anywhere.
type Transport struct {
	conn     net.Conn
	client   bool
	protocol string
	settings settings

	reading sync.Mutex // held by Read, then by the farewell; guards in
	in      reader
	heard   atomic.Bool // bytes have come since the last ping
	over    atomic.Bool // cause is set; for Read, without the lock

	turn  chan struct{} // full while somebody writes to conn; its holder owns what follows
	torn  bool          // a frame was cut off, so none can follow
	out   sink
	begun bool   // TryWrite has sent a part of the burst that the next Write gets
	rest  []byte // and this is what is left of it

	mu       sync.Mutex // guards what follows
	controls []control  // wait for the next write
	flushing bool       // a goroutine is on its way to write them
	cause    error      // why nothing is read any more; nil while something is
	goodbye  farewell   // what Close says
	last     farewell   // what follows from cause
	ending   bool       // and has begun: nothing but a close frame is written any more
	waiting  bool       // for the answer to a ping
	timer    *time.Timer

	flushes sync.WaitGroup
	done    chan struct{} // closed when the farewell is over
}

// newTransport makes an end of a connection whose handshake is over. rest is what was read behind the handshake.
func newTransport(conn net.Conn, client bool, o *Options, protocol string, rest []byte) *Transport {
	t := &Transport{
		conn:     conn,
		client:   client,
		protocol: protocol,
		settings: o.settings(client),
		turn:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		goodbye:  farewell{kind: asking, code: CloseNormal},
	}
	t.in.init(conn, rest)
	t.out.init(conn)
	t.keepAlive()
	return t
}

// Subprotocol is what both sides agreed on in the handshake, or "".
func (t *Transport) Subprotocol() string { return t.protocol }

// RemoteAddr is the peer's address.
func (t *Transport) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }
