package jsonrpc

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
)

// Local returns a Peer whose calls a handles, in this process and on the caller's goroutine,
// without a transport, a queue and ids. What a's handlers send to their peer is handled by back in
// the same way. If back is nil, they cannot call or notify.
func Local(a, back *Answerer) Peer {
	a.init()
	if back != nil {
		back.init()
	}
	return &local{a: a, back: back, alone: &Exchange{}}
}

type local struct {
	a, back *Answerer
	alone   *Exchange // of calls whose handlers cannot call or notify
}

func (l *local) Call(ctx context.Context, method string, params, result any) error {
	return l.call(ctx, method, params, result, nil)
}

func (l *local) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	return l.call(ctx, method, params, result, on)
}

func (l *local) Notify(ctx context.Context, method string, params any) error {
	b := buffers.Get().(*buffer)
	defer b.free()
	_, err := l.run(ctx, ID{}, method, params, b, nil)
	return err
}

// localID is a placeholder: a local call needs no id.
var localID = IntID(0)

func (l *local) call(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	b := buffers.Get().(*buffer)
	defer b.free()
	text, err := l.run(ctx, localID, method, params, b, on)
	if err != nil {
		return err
	}
	return decodeResult(text, result)
}

// run passes one request to a and returns the text of its result. Params and result are stored in
// b.
func (l *local) run(ctx context.Context, id ID, method string, params any, b *buffer, on func(*Request) error) (Raw, error) {
	if ctx.Err() != nil {
		return nil, AsNotSent(context.Cause(ctx))
	}
	a := l.a
	a.active.Add(1)
	defer a.done()
	var err error
	if b.bytes, err = appendParams(b.bytes[:0], Version2, params); err != nil {
		return nil, AsNotSent(err)
	}
	j := jobs.Get().(*job)
	defer j.free()
	x := l.alone
	if l.back != nil || on != nil {
		own := &localExchange{sink: localSink{l: l, on: on}}
		own.Sink = &own.sink
		x = &own.Exchange
	}
	to := a.names.find([]byte(method))
	if to == nil {
		j.unknown = a.method(strings.Clone(method), strings.Contains(method, `\`))
		to = &j.unknown
	}
	j.begin(to.handler, x)
	j.mode, j.handler = to.mode, to.handler
	j.req = Request{ID: id, Method: method, origin: &j.origin}
	end := len(b.bytes)
	if end > 0 {
		if text := Raw(b.bytes[:end:end]); !isNull(text) {
			j.req.Params = text
		}
	}
	j.origin.a, j.origin.x = a, x
	if e := a.refuse(&j.req); e != nil {
		return nil, e
	}
	if j.ctx = ctx; j.mode&Quick == 0 {
		a.admit(ctx, j, &message{}, x)
	}
	out, e := a.result(j, b.bytes)
	b.bytes = out
	a.finish(j)
	if e != nil {
		return nil, e
	}
	return Raw(out[end:]), nil
}

// A localExchange is the Exchange of one local call whose handler can notify.
type localExchange struct {
	Exchange
	sink localSink
}

// A localSink handles what a handler sends while it runs: requests have their responses before Send
// returns.
type localSink struct {
	l     *local
	on    func(*Request) error
	calls atomic.Pointer[Asker] // of the handler; created when it first calls
}

// asker returns the Asker of the handler's calls.
func (s *localSink) asker() *Asker {
	if s.calls.Load() == nil {
		s.calls.CompareAndSwap(nil, new(Asker))
	}
	return s.calls.Load()
}

// SendNotification implements [NotificationSink].
func (s *localSink) SendNotification(ctx context.Context, payload []byte, method string, _ any) error {
	if s.on == nil {
		return s.Send(ctx, payload)
	}
	req := &Request{Method: method}
	const member = `,"params":`
	bare, _ := AppendNotification(nil, Version2, method, nil) // without params nothing can fail
	if start := len(bare) - 1 + len(member); start < len(payload) {
		req.Params = Raw(bytes.Trim(payload[start:len(payload)-1], " \t\r\n")).Clone()
	}
	return s.on(req)
}

// Send handles a message whose parts are not known: a call, or text that a handler has encoded.
func (s *localSink) Send(ctx context.Context, payload []byte) error {
	if s.on != nil {
		handled := false
		var err error
		_ = Scan(payload, func(m *Message) { // the caller may have encoded anything
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
		_, _ = s.l.a.Answer(ctx, nil, out, &Exchange{Asker: s.asker()}) // a response has no response
	}
	return nil
}
