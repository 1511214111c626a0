package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// captured returns parley's pair with a recording at the client's end, and with a tap between the
// two. Their ratios to "parley" are the cost of recording, which includes writing the file.
func captured() []Entry {
	p := newParleyUse(false, false)
	recorded := half{serve: p.serve, ask: p.askRecorded}.on(Unix, TCP)
	recorded[HTTP], recorded[WebSocket] = p.recordedHTTP, p.recordedWebSocket
	tapped := map[Transport]func() (*Session, error){HTTP: p.tappedHTTP, WebSocket: p.tappedWebSocket}
	for _, c := range []Transport{Unix, TCP} {
		tapped[c] = func() (*Session, error) { return p.tapped(c) }
	}
	return []Entry{
		{Name: "parley, recorded", Role: Ours, Open: recorded},
		{Name: "parley, tapped", Role: Ours, Open: tapped},
	}
}

func (p parleyUse) askRecorded(conn net.Conn) (*Session, error) {
	rec, err := capture.New(nil)
	if err != nil {
		return nil, err
	}
	t := stream.New(conn, stream.Line, &stream.Options{MaxMessage: 16 << 20})
	s := p.asking(rec.Wire(capture.WireInfo{Target: "bench"}).Transport(t))
	return alsoClosing(s, func() { _ = rec.Close() }), nil // a temporary file
}

func (p parleyUse) recordedHTTP() (*Session, error) {
	rec, err := capture.New(nil)
	if err != nil {
		return nil, err
	}
	url, stop, err := serveHTTP(p.handler())
	if err != nil {
		return nil, err
	}
	client := httpClient()
	s := p.withClient(url, &http.Client{Transport: tap.RoundTripper(rec.Wire(capture.WireInfo{Target: "bench"}), client.Transport)}, stop)
	return alsoClosing(s, func() {
		client.CloseIdleConnections()
		_ = rec.Close() // a temporary file
	}), nil
}

// withClient calls the server at url with the given net/http client, so that what wraps the client
// can be compared.
func (p parleyUse) withClient(url string, client *http.Client, stop func()) *Session {
	c := httprpc.NewClient(url, &httprpc.Options{HTTP: client})
	return p.session(c, func() {
		c.Close()
		client.CloseIdleConnections()
		stop()
	})
}

// alsoClosing adds f to the closing of s.
func alsoClosing(s *Session, f func()) *Session {
	first := s.Close
	s.Close = func() {
		if first != nil {
			first()
		}
		f()
	}
	return s
}

// relay starts a tap in front of a server and returns how to stop it.
func relay(r *tap.Relay, l net.Listener) (stop func(), err error) {
	if r.Record, err = capture.New(nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Serve(ctx, l) }) // returns when ctx ends
	return func() {
		cancel()
		running.Wait()
		_ = r.Record.Close() // a temporary file
	}, nil
}

func (p parleyUse) tapped(c Transport) (*Session, error) {
	return p.between(c, func(client, server net.Conn) (func(), error) {
		l := &single{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conns <- client
		return relay(&tap.Relay{Framing: tap.Line, Dial: func(context.Context) (net.Conn, error) { return server, nil }}, l)
	})
}

func (p parleyUse) tappedHTTP() (*Session, error) {
	url, stopServing, err := serveHTTP(p.handler())
	if err != nil {
		return nil, err
	}
	address := strings.TrimPrefix(url, "http://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at := l.Addr().String()
	stop, err := relay(&tap.Relay{
		Carrier: tap.HTTP, Host: address, Names: []string{at},
		Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) },
	}, l)
	if err != nil {
		return nil, err
	}
	c := httprpc.NewClient("http://"+at, nil)
	return p.session(c, func() {
		c.Close()
		stop()
		stopServing()
	}), nil
}

// single is a listener with one existing connection.
type single struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, errors.New("closed")
	}
}

func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *single) Addr() net.Addr { return &net.UnixAddr{} }
