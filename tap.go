package parley

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A Frame is one payload that a transport sent or received: a message or a batch.
type Frame struct {
	Time    time.Time // when it was sent or received
	Out     bool      // sent by this side
	Payload []byte    // valid until the function returns
}

// A Tap is called with each payload, in both directions, in wire order for each connection. It may
// be called from many goroutines at once, and the transport waits for it.
type Tap func(Frame)

// tapped passes the payloads of a transport to a Tap.
type tapped struct {
	jsonrpc.Transport
	tap   Tap
	shown bool // a TryWrite has passed the burst of the next Write to the Tap
}

// withTap returns t with tap, or t itself if tap is nil.
func withTap(t jsonrpc.Transport, tap Tap) jsonrpc.Transport {
	if tap == nil {
		return t
	}
	return &tapped{Transport: t, tap: tap}
}

func (t *tapped) Read() (payload []byte, more bool, err error) {
	payload, more, err = t.Transport.Read()
	if err == nil {
		t.tap(Frame{Time: time.Now(), Payload: payload})
	}
	return payload, more, err
}

func (t *tapped) Write(b jsonrpc.Burst) error {
	if !t.shown {
		t.show(b)
	}
	t.shown = false
	return t.Transport.Write(b)
}

func (t *tapped) TryWrite(b jsonrpc.Burst) bool {
	t.show(b) // before the write: the response must not be shown first
	t.shown = !t.Transport.TryWrite(b)
	return !t.shown
}

func (t *tapped) WrittenBytes() uint64 { return jsonrpc.WrittenBytes(t.Transport) }

func (t *tapped) show(b jsonrpc.Burst) {
	for payload := range b.All() {
		t.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	}
}

// answeringTo returns a with tap, or a itself if tap is nil. It is for HTTP, where each payload has
// its own response.
func answeringTo(a *jsonrpc.Answerer, tap Tap) httprpc.Answering {
	if tap == nil {
		return a
	}
	return &tappedAnswering{a, tap}
}

type tappedAnswering struct {
	next *jsonrpc.Answerer
	tap  Tap
}

func (a *tappedAnswering) Answer(ctx context.Context, dst, payload []byte, x *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	a.tap(Frame{Time: time.Now(), Payload: payload})
	if x.Sink != nil {
		x.Sink = &tappedSink{x.Sink, a.tap}
	}
	if x.Late != nil {
		x.Late = &tappedLate{x.Late, a.tap}
	}
	before := len(dst)
	out, fault := a.next.Answer(ctx, dst, payload, x)
	if len(out) > before {
		a.tap(Frame{Time: time.Now(), Out: true, Payload: out[before:]})
	}
	return out, fault
}

type tappedLate struct {
	jsonrpc.LateSender
	tap Tap
}

func (s *tappedLate) SendLate(payload []byte) {
	s.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	s.LateSender.SendLate(payload)
}

// SendLateError implements [jsonrpc.LateErrorSender].
func (s *tappedLate) SendLateError(payload []byte, e *jsonrpc.Error) {
	late, ok := s.LateSender.(jsonrpc.LateErrorSender)
	if !ok {
		s.SendLate(payload)
		return
	}
	s.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	late.SendLateError(payload, e)
}

type tappedSink struct {
	jsonrpc.Sink
	tap Tap
}

func (s *tappedSink) Send(ctx context.Context, payload []byte) error {
	s.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	return s.Sink.Send(ctx, payload)
}

// SendNotification implements [jsonrpc.NotificationSink].
func (s *tappedSink) SendNotification(ctx context.Context, payload []byte, method string, params any) error {
	s.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	if to, ok := s.Sink.(jsonrpc.NotificationSink); ok {
		return to.SendNotification(ctx, payload, method, params)
	}
	return s.Sink.Send(ctx, payload)
}
