package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

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
	return alsoClosing(flushing(s, rec), func() { _ = rec.Close() }), nil // a temporary file
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
	return alsoClosing(flushing(s, rec), func() {
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

// unwritten is how much the calls of a session may leave to its Recorder: enough that it writes
// many events at once, and much less than what it keeps before events are lost.
const unwritten = 2 << 20

// flushing makes the callers of s wait for the Recorder whenever they have sent and received about
// the size of unwritten, and when they have finished. A recording that loses events is an error:
// events that are not recorded cost nothing.
func flushing(s *Session, rec *capture.Recorder) *Session {
	const event = 512 // what an event costs in addition to its payload
	var left atomic.Int64
	var flush sync.Mutex
	spend := func(payload int, err error) error {
		if left.Add(int64(2*(payload+event))) < unwritten {
			return err
		}
		flush.Lock()
		defer flush.Unlock()
		if left.Load() >= unwritten { // no other caller has flushed meanwhile
			rec.Flush()
			left.Store(0)
		}
		return err
	}
	wrap := func(op Op, payload int) Op {
		if op == nil {
			return nil
		}
		return func(ctx context.Context) error { return spend(payload, op(ctx)) }
	}
	s.Call, s.Batch = wrap(s.Call, len(smallRequest)), wrap(s.Batch, batchSize*len(smallRequest))
	if echo := s.Echo; echo != nil {
		s.Echo = func(ctx context.Context, document []byte) error {
			return spend(len(document), echo(ctx, document))
		}
	}
	s.Settle = func() error {
		rec.Flush()
		left.Store(0)
		if n := rec.Lost(); n > 0 {
			return fmt.Errorf("%s were not recorded", plural(int(n), "event"))
		}
		return nil
	}
	return s
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

// relay starts a tap in front of a server and returns how to stop it. Its recording is r.Record.
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
	r := &tap.Relay{Framing: tap.Line}
	s, err := p.between(c, func(client, server net.Conn) (func(), error) {
		l := &single{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conns <- client
		r.Dial = func(context.Context) (net.Conn, error) { return server, nil }
		return relay(r, l)
	})
	if err != nil {
		return nil, err
	}
	return flushing(s, r.Record), nil
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
	r := &tap.Relay{
		Carrier: tap.HTTP, Host: address, Names: []string{at},
		Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) },
	}
	stop, err := relay(r, l)
	if err != nil {
		return nil, err
	}
	c := httprpc.NewClient("http://"+at, nil)
	return flushing(p.session(c, func() {
		c.Close()
		stop()
		stopServing()
	}), r.Record), nil
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
