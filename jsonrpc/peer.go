package jsonrpc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Peer returns the caller of this request, bound to it: messages that are sent through it are sent
// before the response, on the same path. It may be retained; it returns ErrAnswered after the
// response, and ErrPeerCancelled after the peer has cancelled the request in a protocol that
// requires silence then. While a handler waits in its Call, the handler's deadline is suspended and
// its place is free for others, so that two sides that call each other do not block. On a one-way
// transport, and for a quick method, Call returns ErrOneWay.
func (r *Request) Peer() Peer {
	o := r.origin
	if o == nil {
		return noPeer{}
	}
	place := o.peer()
	p := place.Load()
	if p == nil {
		place.CompareAndSwap(nil, &boundPeer{a: o.a, x: o.x, run: o.run})
		p = place.Load()
	}
	return p
}

// peer returns where the Peer of the request is stored. It is created on first use, by any
// goroutine of the handler.
func (o *origin) peer() *atomic.Pointer[boundPeer] {
	if o.run != nil {
		return &o.run.peer
	}
	return &o.quick
}

// answeredPeer is the Peer of a request if Peer was first called after the response.
var answeredPeer = &boundPeer{answered: true}

// settlePeer closes the peer in place, and one that would be created there later.
func settlePeer(place *atomic.Pointer[boundPeer]) {
	if !place.CompareAndSwap(nil, answeredPeer) {
		place.Load().settle()
	}
}

// After runs f once the response to this request is queued: what f sends follows it on the wire. f
// runs on the handler's goroutine and must not wait. On a transport with one payload per exchange
// it runs when the response is complete. Do not call After once Handle has returned.
func (r *Request) After(f func()) {
	if r.origin != nil {
		r.origin.after = append(r.origin.after, f)
	}
}

// Proceed lets the messages after this request start, if its method is [InOrder]. It may be called
// more than once, by any goroutine; otherwise it has no effect.
func (r *Request) Proceed() {
	if o := r.origin; o != nil && o.delays && o.x.lane != nil && !o.proceeded.Swap(true) {
		o.x.lane.pass()
	}
}

// Batched reports whether the request arrived in a batch.
func (r *Request) Batched() bool { return r.origin != nil && r.origin.batched }

// noPeer is the peer of a request that was not received.
type noPeer struct{}

func (noPeer) Call(context.Context, string, any, any) error { return errOneWay }
func (noPeer) Stream(context.Context, string, any, any, func(*Request) error) error {
	return errOneWay
}
func (noPeer) Notify(context.Context, string, any) error { return errOneWay }

// The errors of a peer that has sent nothing.
var (
	errAnswered = AsNotSent(ErrAnswered)
	errOneWay   = AsNotSent(ErrOneWay)
	errBusy     = AsNotSent(ErrBusy)

	errPeerCancelled = AsNotSent(ErrPeerCancelled)

	errManyWait = fmt.Errorf("too many handlers are waiting for their peers: %w", ErrBusy)
)

// A boundPeer is the peer of one request.
type boundPeer struct {
	a   *Answerer
	x   *Exchange
	run *running // nil for a quick request

	// mu is held for reading while a message is passed to the sink, so that the response cannot
	// overtake it. The sink waits for room, in first-come order, as long as the peer reads
	// something within Limits.OutWait.
	mu       sync.RWMutex
	answered bool
}

func (p *boundPeer) settle() {
	p.mu.Lock()
	p.answered = true
	p.mu.Unlock()
}

// Send implements [Sink] for the peer. It fails after the response.
func (p *boundPeer) Send(ctx context.Context, payload []byte) error {
	return p.send(ctx, payload, ours, "", nil)
}

// SendNotification implements [NotificationSink] for the peer.
func (p *boundPeer) SendNotification(ctx context.Context, payload []byte, method string, params any) error {
	return p.send(ctx, payload, ours, method, params)
}

// send passes payload to the sink. method is empty unless payload is a notification of ours.
func (p *boundPeer) send(ctx context.Context, payload []byte, s sender, method string, params any) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.answered {
		return errAnswered
	}
	if p.a.silent(p.run) {
		return errPeerCancelled
	}
	if p.x.Sink == nil {
		return errOneWay
	}
	if p.run != nil {
		p.run.touch()
	} else if p.x.out != nil { // on the reader goroutine, which does not wait
		if !p.x.out.put(payload) {
			return errBusy
		}
		return nil
	}
	if p.x.out != nil {
		return p.x.out.send(ctx, payload, s)
	}
	return sendNotification(ctx, p.x.Sink, payload, method, params)
}

// sendNotification passes the parts of a notification to a sink that wants them.
func sendNotification(ctx context.Context, s Sink, payload []byte, method string, params any) error {
	if to, ok := s.(NotificationSink); ok && method != "" {
		return to.SendNotification(ctx, payload, method, params)
	}
	return s.Send(ctx, payload)
}

func (p *boundPeer) Notify(ctx context.Context, method string, params any) error {
	if p == answeredPeer {
		return errAnswered
	}
	if p.x.out == nil { // not a Conn, which sends what is encoded
		if to, ok := p.x.Sink.(withoutPayload); ok && to.WithoutPayload(method, params) {
			return p.send(ctx, nil, ours, method, params)
		}
	}
	return notify(ctx, p, p.a.Version, method, params)
}

func (p *boundPeer) Call(ctx context.Context, method string, params, result any) error {
	return p.Stream(ctx, method, params, result, nil)
}

func (p *boundPeer) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	if p == answeredPeer {
		return errAnswered
	}
	asker := p.x.asker()
	if asker == nil || p.x.Sink == nil || p.run == nil {
		return errOneWay
	}
	if !p.run.rest() {
		return AsNotSent(fmt.Errorf("call of %s: %w", method, errManyWait))
	}
	defer p.run.resume()
	return asker.Call(ctx, p, method, params, result, on)
}

// asker returns the Asker of handlers' calls. That of a local call is created when it is needed.
func (x *Exchange) asker() *Asker {
	if s, ok := x.Sink.(*localSink); ok {
		return s.asker()
	}
	return x.Asker
}

// withoutPayload is the optional method of a [NotificationSink].
type withoutPayload interface {
	NotificationSink
	WithoutPayload(method string, params any) bool
}

// notify encodes a notification and sends it.
func notify(ctx context.Context, s Sink, v Version, method string, params any) error {
	b := buffers.Get().(*buffer)
	defer b.free()
	var err error
	if b.bytes, err = AppendNotification(b.bytes[:0], v, method, params); err != nil {
		return AsNotSent(err)
	}
	return sendNotification(ctx, s, b.bytes, method, params)
}

// A buffer is reused memory for one outgoing message.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) free() {
	poison(b.bytes)
	if cap(b.bytes) <= tooBigToKeep {
		buffers.Put(b)
	}
}
