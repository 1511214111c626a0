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

// Options configure Dial and Upgrade. The zero value is ready for use; a nil *Options is the same.
type Options struct {
	// MaxMessage bounds one incoming message, in bytes. Zero means 4 MiB for Upgrade and 16 MiB for
	// Dial, negative means no bound. A longer message ends the connection with 1009 before it is
	// read.
	MaxMessage int64

	// WriteTimeout bounds one write to the network. Zero means 10 s, negative means no bound. When
	// it expires, the connection is cut with jsonrpc.ErrSlowPeer.
	WriteTimeout time.Duration

	// FrameTimeout bounds the time from the first byte of a message to its last. Zero means 30 s,
	// negative means no bound. When it expires, the connection ends with 1008.
	FrameTimeout time.Duration

	// PingInterval is the interval between pings. Zero means 30 s, negative means no pings.
	PingInterval time.Duration

	// PongTimeout is how long the peer may be silent after a ping. Zero means 20 s, negative means
	// no timeout. Any byte counts, not only the pong, which may follow a long message. When it
	// expires, the connection is cut with [ErrDeadPeer]. A goroutine must be in Read to receive the
	// peer's bytes. At most one ping is on the way at a time.
	PongTimeout time.Duration

	// CloseTimeout bounds the closing handshake. After the peer's close frame, or a violation by
	// the peer, it is also how long the connection is open for responses if Close is not called.
	// Zero means 1 s.
	CloseTimeout time.Duration

	// Subprotocols are offered by Dial, the preferred one first, and accepted by Upgrade, which
	// selects the first of the client's that is in the list. Without a common one the connection
	// has no subprotocol: see [Transport.Subprotocol].
	Subprotocols []string

	// CheckOrigin reports whether Upgrade accepts a request from a web page. If nil, each Origin is
	// refused whose host and port differ from the request's Host; a request without Origin is
	// accepted. This does not prevent DNS rebinding, where both are equal: check the Host against a
	// list of allowed hosts before Upgrade.
	CheckOrigin func(*http.Request) bool

	// Header is added to the request of Dial, such as Authorization. Host replaces the host of the
	// URL.
	Header http.Header

	// TLS configures wss addresses for Dial. If nil, the default configuration is used.
	TLS *tls.Config

	// DialTimeout bounds all steps of Dial. Zero means 5 s, negative means that only the context
	// bounds it.
	DialTimeout time.Duration

	// DialContext opens the connection for Dial, such as one to a proxy or a Unix socket. If nil, a
	// net.Dialer is used. TLS for wss is added on top of the returned connection.
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

// A Transport is one end of a WebSocket connection. It is a jsonrpc.Transport: one goroutine may be
// in Read, any number in Write, and Close may be called from any goroutine.
type Transport struct {
	conn     net.Conn
	client   bool
	protocol string
	settings settings

	reading sync.Mutex // held by Read, then by the closing handshake; guards in
	in      reader
	heard   atomic.Bool // bytes have arrived since the last ping
	blocked atomic.Bool // Read waits for room in memory
	over    atomic.Bool // cause is set; for Read, without the lock

	turn  chan struct{} // full while a goroutine writes to conn; its holder owns the fields below
	torn  bool          // a frame was cut off, so no frame can follow
	out   sink
	steps atomic.Uint64 // pieces of writes that had to wait
	begun bool          // TryWrite has sent a part of the burst that the next Write gets
	rest  []byte        // and this is what is left of it

	mu        sync.Mutex // guards the fields below
	controls  []control  // wait for the next write
	flushing  bool       // a goroutine is about to write them
	cause     error      // why reading has ended; nil before that
	closeWith closeMode  // what Close sends
	last      closeMode  // follows from cause
	ending    bool       // the closing handshake has begun: only a close frame may still be written
	waiting   bool       // for the response to a ping
	timer     *time.Timer

	flushes sync.WaitGroup
	done    chan struct{} // closed when the closing handshake is over
}

// newTransport returns one end of a connection whose handshake is over. rest is what was read after
// the handshake.
func newTransport(conn net.Conn, client bool, o *Options, protocol string, rest []byte) *Transport {
	t := &Transport{
		conn:      conn,
		client:    client,
		protocol:  protocol,
		settings:  o.settings(client),
		turn:      make(chan struct{}, 1),
		done:      make(chan struct{}),
		closeWith: closeMode{kind: asking, code: CloseNormal},
	}
	t.in.init(conn, rest)
	t.out.init(conn)
	t.keepAlive()
	return t
}

// Subprotocol returns the subprotocol that was negotiated in the handshake, or "".
func (t *Transport) Subprotocol() string { return t.protocol }

// RemoteAddr returns the peer's address.
func (t *Transport) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }
