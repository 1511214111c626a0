package jsonrpc

import (
	"context"
	"fmt"
)

// Local is a Peer whose answers come from a, in this process and on the caller's goroutine: no transport, no queue, no id
// on a wire. What a's handlers ask their peer goes to back in the same way; nil means they cannot ask or notify.
func Local(a, back *Answerer) Peer {
	a.init()
	if back != nil {
		back.init()
	}
	return &local{a: a, back: back}
}

type local struct {
	a, back *Answerer
}

func (l *local) Call(ctx context.Context, method string, params, result any) error {
	return l.call(ctx, method, params, result, nil)
}

func (l *local) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	return l.call(ctx, method, params, result, on)
}

func (l *local) Notify(ctx context.Context, method string, params any) error {
	_, err := l.run(ctx, ID{}, method, params, nil, nil)
	return err
}

// localID stands for the id that a local call does not need.
var localID = IntID(0)

func (l *local) call(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	b := buffers.Get().(*buffer)
	defer b.free()
	out, err := l.run(ctx, localID, method, params, b, on)
	if err != nil {
		return err
	}
	var failure error
	if e := Scan(out, func(m *Message) { failure = m.Decode(result) }); e != nil {
		return fmt.Errorf("%w: %w", ErrBadResponse, e)
	}
	return failure
}

// run hands one request to the answering half and returns its response.
func (l *local) run(ctx context.Context, id ID, method string, params any, b *buffer, on func(*Request) error) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	in := buffers.Get().(*buffer)
	defer in.free()
	var err error
	if id.IsZero() {
		in.bytes, err = AppendNotification(in.bytes[:0], Version2, method, params)
	} else {
		in.bytes, err = AppendRequest(in.bytes[:0], Version2, id, method, params)
	}
	if err != nil {
		return nil, err
	}
	x := &Exchange{}
	if l.back != nil || on != nil {
		s := &localSink{l: l, on: on}
		x.Sink, x.Asker = s, &s.asker
	}
	var dst []byte
	if b != nil {
		dst = b.bytes[:0]
	}
	out, _ := l.a.Answer(ctx, dst, in.bytes, x)
	if b != nil {
		b.bytes = out
	}
	return out, nil
}

// localSink takes what a handler sends while it runs: its requests are answered before Send returns.
type localSink struct {
	l     *local
	on    func(*Request) error
	asker Asker
}

func (s *localSink) Send(ctx context.Context, payload []byte) error {
	if s.on != nil {
		handled := false
		var err error
		_ = Scan(payload, func(m *Message) { // our own bytes
			if m.Request && m.ID.IsZero() {
				handled = true
				err = s.on(&Request{Method: m.Method, Params: m.Params.Clone()})
			}
		})
		if handled {
			return err
		}
	}
	if s.l.back == nil {
		return ErrOneWay
	}
	out, _ := s.l.back.Answer(ctx, nil, payload, &Exchange{})
	if len(out) > 0 {
		_, _ = s.l.a.Answer(ctx, nil, out, &Exchange{Asker: &s.asker}) // a response says nothing
	}
	return nil
}
