package parley

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/socket"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// openSocket implements Open for tcp, tls and unix.
func openSocket(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	transport, err := socket.Dial(ctx, t.Scheme, t.Address, &socket.Options{
		Options: stream.Options{MaxMessage: d.maxMessage()},
		Framing: t.Framing,
		TLS:     d.TLS,
	})
	if err != nil {
		return nil, err
	}
	return transport, nil
}

// dialSocket implements Dial for tcp, tls and unix.
func dialSocket(ctx context.Context, d *Dialer, t Target) (Caller, error) {
	transport, err := openSocket(ctx, d, t)
	if err != nil {
		return nil, err
	}
	conn := d.Converse(ctx, transport, t.Version)
	if d.Token != "" && t.Scheme != "unix" {
		if err := d.authenticate(ctx, conn); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", t.URL(), err), conn.Close())
		}
	}
	return conn, nil
}

// openWebSocket implements Open for ws and wss.
func openWebSocket(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	transport, err := websocket.Dial(ctx, t.URL(), &websocket.Options{
		MaxMessage:  d.MaxMessage,
		Header:      d.header(),
		TLS:         d.TLS,
		DialTimeout: -1, // ctx bounds the dial
	})
	if err != nil {
		return nil, err
	}
	return transport, nil
}

// dialWebSocket implements Dial for ws and wss.
func dialWebSocket(ctx context.Context, d *Dialer, t Target) (Caller, error) {
	transport, err := openWebSocket(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return d.Converse(ctx, transport, t.Version), nil
}

// openPair implements Open for sse+http and sse+https.
func openPair(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error) {
	return sse.Dial(ctx, strings.TrimPrefix(t.URL(), "sse+"), &sse.Options{
		TLS:        d.TLS,
		Header:     d.Header,
		Token:      d.Token,
		MaxMessage: d.MaxMessage,
	})
}

// dialPair implements Dial for sse+http and sse+https.
func dialPair(ctx context.Context, d *Dialer, t Target) (Caller, error) {
	transport, err := openPair(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return d.Converse(ctx, transport, t.Version), nil
}

// A sockets is one tcp, tls or unix address that accepts connections.
type sockets struct {
	target Target
	bound  *socket.Listener
	open   connSet
	report func(what string, err error)
}

// listenSocket implements Listen for tcp, tls and unix.
func listenSocket(ctx context.Context, l *Listener, t Target) (Service, error) {
	if t.Scheme != "unix" {
		if err := l.Admit(ctx, t); err != nil {
			return nil, err
		}
	}
	if t.Scheme == "tls" && l.TLS == nil {
		return nil, needsCertificate(t)
	}
	bound, err := socket.Listen(ctx, t.Scheme, t.Address, &socket.Options{
		Options:  stream.Options{MaxMessage: l.MaxMessage},
		Framing:  t.Framing,
		TLS:      l.TLS,
		MaxConns: l.MaxConns,
		MaxPerIP: l.MaxConnsPerIP,
		Report:   l.Report,
	})
	if errors.Is(err, socket.ErrInUse) {
		err = fmt.Errorf("%w: %w", ErrAddressInUse, err)
	}
	if err != nil {
		return nil, listenError(t, err)
	}
	if t.Scheme != "unix" {
		t.Address = withPort(t.Address, bound.Addr())
	}
	s := &sockets{target: t, bound: bound, report: l.Report}
	s.open.listener = l
	s.open.grace = halfClosed
	s.open.locked = t.Scheme != "unix" && l.needsToken()
	return s, nil
}

// withPort returns address with the port that was bound.
func withPort(address string, taken net.Addr) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	_, port, err := net.SplitHostPort(taken.String())
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, port)
}

func (s *sockets) Target() Target { return s.target }

// Serve accepts connections until Shutdown, and waits until they are closed.
func (s *sockets) Serve(ctx context.Context) error {
	var wg sync.WaitGroup
	defer func() { grace.Wait(&wg, 2*grace.Time) }() // each ends within its grace
	for {
		transport, err := s.bound.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		conn := s.open.openConn(transport, opening{version: s.target.Version, remote: transport.RemoteAddr(), tls: transport.TLS, ending: func(error) {
			if s.open.isPolite() {
				// the peer may be sending the next request, and must still receive the responses to
				// earlier ones
				transport.Linger()
			}
		}})
		if conn == nil {
			continue
		}
		wg.Go(func() {
			if err := s.open.serve(ctx, conn); err != nil {
				s.report(ReportConnection, fmt.Errorf("%v: %w", transport.RemoteAddr(), err))
			}
		})
	}
}

func (s *sockets) Shutdown(ctx context.Context) error {
	err := s.bound.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.open.shutdown(ctx))
}

func needsCertificate(t Target) error {
	return &RefusedError{Target: t, Reason: "it needs a certificate (--tls-cert and --tls-key, Listener.TLS)"}
}
