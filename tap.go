package parley

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A Frame is one payload as it went over a carrier: a message or a batch.
type Frame struct {
	Time    time.Time // when it was sent or had arrived
	Out     bool      // we sent it
	Payload []byte    // valid until the function returns
}

// A Tap sees each payload, in both directions, in the order of the wire for each connection. It is called from many
// goroutines at once, and the wire waits for it.
type Tap func(Frame)

// tapped shows the payloads of a carrier to a Tap.
type tapped struct {
	jsonrpc.Transport
	tap   Tap
	shown bool // the burst of the next Write was shown by a TryWrite
}

// withTap is t, shown to tap if there is one.
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
	t.show(b) // before: its answer must not be shown first
	t.shown = !t.Transport.TryWrite(b)
	return !t.shown
}

func (t *tapped) show(b jsonrpc.Burst) {
	for payload := range b.All() {
		t.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	}
}

// answeringTo is a, shown to tap if there is one: over HTTP, where each payload is answered by itself.
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
	before := len(dst)
	out, fault := a.next.Answer(ctx, dst, payload, x)
	if len(out) > before {
		a.tap(Frame{Time: time.Now(), Out: true, Payload: out[before:]})
	}
	return out, fault
}

type tappedSink struct {
	jsonrpc.Sink
	tap Tap
}

func (s *tappedSink) Send(ctx context.Context, payload []byte) error {
	s.tap(Frame{Time: time.Now(), Out: true, Payload: payload})
	return s.Sink.Send(ctx, payload)
}
