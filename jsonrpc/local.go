package jsonrpc

import "context"

// Local is a Peer whose answers come from a, in this process and on the caller's goroutine: no transport, no queue, no id
// on a wire. What a's handlers ask their peer goes to back in the same way; nil means they cannot ask or notify.
func Local(a, back *Answerer) Peer {
	a.init()
	if back != nil {
		back.init()
	}
	return &local{a: a, back: back, alone: &Exchange{}}
}

type local struct {
	a, back *Answerer
	alone   *Exchange // of calls whose handlers cannot talk back
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

// localID stands for the id that a local call does not need.
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

// run hands one request to the answering half and returns the text of its result. Both lie in b.
func (l *local) run(ctx context.Context, id ID, method string, params any, b *buffer, on func(*Request) error) (Raw, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a := l.a
	a.active.Add(1)
	defer a.done()
	var err error
	if b.bytes, err = appendParams(b.bytes[:0], Version2, params); err != nil {
		return nil, err
	}
	j := jobs.Get().(*job)
	defer j.free()
	j.req = Request{ID: id, Method: method, origin: &j.origin}
	end := len(b.bytes)
	if end > 0 {
		if text := Raw(b.bytes[:end:end]); !isNull(text) {
			j.req.Params = text
		}
	}
	x := l.alone
	if l.back != nil || on != nil {
		s := &localSink{l: l, on: on}
		x = &Exchange{Sink: s, Asker: &s.asker}
	}
	j.origin.a, j.origin.x = a, x
	if a.Mode != nil {
		j.mode = a.Mode(method)
	}
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
