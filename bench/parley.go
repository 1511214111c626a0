package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/inproc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// ours returns parley's entries: concurrent handlers, which are the default, and methods added as
// quick; each with types that the codec decodes by reflection, and with types that have their own
// methods. Limits, tracking and cancellation have their defaults.
func ours() []Entry {
	var entries []Entry
	for _, p := range []parleyUse{newParleyUse(false, false), newParleyUse(true, false), newParleyUse(false, true), newParleyUse(true, true)} {
		open := half{serve: p.serve, ask: p.ask}.on(Pipe, Unix, TCP, Feed)
		open[HTTPServer] = rawHTTP(p.handler(), smallRequest, rawBatch)
		open[HTTP] = p.overHTTP
		open[WebSocket] = p.overWebSocket
		open[Memory] = p.local
		if p.quick {
			open[Dispatch] = p.dispatch
		}
		entries = append(entries, Entry{Name: p.name(), Role: Ours, Open: open})
	}
	return append(entries,
		Entry{Name: "parley, inproc pipe", Role: Ours, Open: map[Transport]func() (*Session, error){Memory: newParleyUse(false, false).overInproc}},
		parleyMCP(),
		Entry{Name: "parley lone", Role: Ours, Open: half{serve: newParleyUse(true, false).serve, ask: parleyLone}.on(UnixAlone)},
	)
}

// A parleyUse is one way to use parley.
type parleyUse struct {
	quick bool // handlers run on the reading goroutine
	own   bool // payloads have their own append and parse
	mux   *jsonrpc.Mux
}

func (p parleyUse) name() string {
	name := "parley"
	if p.quick {
		name += " quick"
	}
	if p.own {
		name += ", own payload"
	}
	return name
}

func newParleyUse(quick, own bool) parleyUse {
	var mode jsonrpc.Mode
	if quick {
		mode = jsonrpc.Quick
	}
	mux := new(jsonrpc.Mux)
	if own {
		mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in OwnPair) (OwnNumber, error) {
			return OwnNumber(in.Minuend - in.Subtrahend), nil
		}), mode)
	} else {
		mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in Pair) (int, error) {
			return in.Minuend - in.Subtrahend, nil
		}), mode)
	}
	mux.Add("echo", jsonrpc.Func(func(_ context.Context, in jsonrpc.Raw) (jsonrpc.Raw, error) { return in, nil }), mode)
	return parleyUse{quick, own, mux}
}

func (p parleyUse) answerer() *jsonrpc.Answerer {
	return &jsonrpc.Answerer{Handler: p.mux, Mode: p.mux.Mode, Cancellation: jsonrpc.CancelRequest}
}

// serving starts a Conn that handles requests on t.
func (p parleyUse) serving(t jsonrpc.Transport) *jsonrpc.Conn {
	c := jsonrpc.NewConn(t)
	c.Handler, c.Mode, c.Cancellation = p.mux, p.mux.Mode, jsonrpc.CancelRequest
	c.Start(context.Background())
	return c
}

// asking starts a Conn that sends requests on t.
func (p parleyUse) asking(t jsonrpc.Transport) *Session {
	c := jsonrpc.NewConn(t)
	c.Cancellation = jsonrpc.CancelRequest
	c.Start(context.Background())
	return p.session(c, func() { c.Close() })
}

func (p parleyUse) serve(conn net.Conn) (func(), error) {
	c := p.serving(stream.New(conn, stream.Line, nil))
	return func() { c.Close() }, nil
}

func (p parleyUse) ask(conn net.Conn) (*Session, error) {
	return p.asking(stream.New(conn, stream.Line, &stream.Options{MaxMessage: 16 << 20})), nil
}

// A parleyPeer is any client of parley that supports batches.
type parleyPeer interface {
	jsonrpc.Peer
	Batch(ctx context.Context, items []jsonrpc.Item) error
}

func (p parleyUse) session(peer parleyPeer, stop func()) *Session {
	s := &Session{
		Call:  p.call(peer),
		Batch: func(ctx context.Context) error { return p.batch(ctx, peer) },
		Close: stop,
	}
	if !p.own { // raw JSON is the same for both
		s.Echo = func(ctx context.Context, document []byte) error {
			var got jsonrpc.Raw
			if err := peer.Call(ctx, "echo", jsonrpc.Raw(document), &got); err != nil {
				return err
			}
			return checkEcho(document, got)
		}
	}
	return s
}

func (p parleyUse) call(peer jsonrpc.Peer) Op {
	if p.own {
		return func(ctx context.Context) error {
			var got OwnNumber
			if err := peer.Call(ctx, "subtract", OwnPair{minuend, subtrahend}, &got); err != nil {
				return err
			}
			return checkDifference(int(got))
		}
	}
	return func(ctx context.Context) error {
		var got int
		if err := peer.Call(ctx, "subtract", Pair{minuend, subtrahend}, &got); err != nil {
			return err
		}
		return checkDifference(got)
	}
}

func (p parleyUse) batch(ctx context.Context, peer parleyPeer) error {
	var numbers [batchSize]int
	var own [batchSize]OwnNumber
	items := make([]jsonrpc.Item, batchSize)
	for i := range items {
		if p.own {
			items[i] = jsonrpc.Item{Method: "subtract", Params: OwnPair{minuend, subtrahend}, Result: &own[i]}
		} else {
			items[i] = jsonrpc.Item{Method: "subtract", Params: Pair{minuend, subtrahend}, Result: &numbers[i]}
		}
	}
	if err := peer.Batch(ctx, items); err != nil {
		return err
	}
	for i := range items {
		if items[i].Err != nil {
			return items[i].Err
		}
		if err := checkDifference(numbers[i] + int(own[i])); err != nil {
			return err
		}
	}
	return nil
}

func (p parleyUse) handler() http.Handler { return httprpc.Handler(p.mux) }

func (p parleyUse) overHTTP() (*Session, error) {
	url, stop, err := serveHTTP(p.handler())
	if err != nil {
		return nil, err
	}
	c := httprpc.NewClient(url, nil)
	return p.session(c, func() { c.Close(); stop() }), nil
}

func (p parleyUse) overWebSocket() (*Session, error) {
	server := make(chan *jsonrpc.Conn, 1)
	url, stop, err := serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t, err := websocket.Upgrade(w, r, nil); err == nil {
			server <- p.serving(t)
		}
	}))
	if err != nil {
		return nil, err
	}
	t, err := websocket.Dial(context.Background(), strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		return nil, err
	}
	s, c := p.asking(t), <-server
	hangUp := s.Close
	s.Close = func() { hangUp(); c.Close(); stop() }
	return s, nil
}

// local has no transport: calls run on the caller's goroutine.
func (p parleyUse) local() (*Session, error) {
	peer := jsonrpc.Local(p.answerer(), nil)
	return &Session{Call: p.call(peer), Close: func() {}}, nil
}

// overInproc uses a Conn on each end of a pipe that transports payloads.
func (p parleyUse) overInproc() (*Session, error) {
	a, b := inproc.Pipe(nil)
	c := p.serving(a)
	s := p.asking(b)
	hangUp := s.Close
	s.Close = func() { hangUp(); c.Close() }
	return s, nil
}

// dispatch responds to one payload, as a transport without conversations does.
func (p parleyUse) dispatch() (*Session, error) {
	a := p.answerer()
	request, x := []byte(smallRequest), &jsonrpc.Exchange{}
	var out []byte
	return &Session{
		Call: func(ctx context.Context) error {
			if out, _ = a.Answer(ctx, out[:0], request, x); !bytes.Equal(out, []byte(smallAnswer)) {
				return fmt.Errorf("the answer is %s", out)
			}
			return nil
		},
		Close: func() {},
	}, nil
}

// parleyLone is a client for one call at a time, whose caller reads the response.
func parleyLone(conn net.Conn) (*Session, error) {
	c := jsonrpc.NewLoneClient(stream.New(conn, stream.Line, nil))
	return &Session{
		Call: func(ctx context.Context) error {
			got, err := jsonrpc.Call[int](ctx, c, "subtract", Pair{minuend, subtrahend})
			if err != nil {
				return err
			}
			return checkDifference(got)
		},
		Close: func() { c.Close() },
	}, nil
}
