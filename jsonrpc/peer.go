package jsonrpc

import (
	"context"
	"sync"
)

// Peer returns the caller of this request, bound to it: what is sent through it leaves before the response, on
// the same way. It may be kept; once the request is answered it returns ErrAnswered. While a handler waits in its Call the handler's
// deadline stands still and its place is free for others, so that two sides that call each other do not
// block. On a one-way carrier, and for a quick method, Call returns ErrOneWay.
func (r *Request) Peer() Peer {
	o := r.origin
	if o == nil {
		return noPeer{}
	}
	p := o.peer.Load()
	if p == nil {
		o.peer.CompareAndSwap(nil, &boundPeer{a: o.a, x: o.x, run: o.run})
		p = o.peer.Load()
	}
	return p
}

// After runs f once the response to this request is queued: what f sends follows it on the wire. f runs on the
// handler's goroutine and is not to wait. On a carrier of one payload it runs when the response is complete. Not for use after Handle has returned.
func (r *Request) After(f func()) {
	if r.origin != nil {
		r.origin.after = append(r.origin.after, f)
	}
}

// Batched reports whether the request came in a batch.
func (r *Request) Batched() bool { return r.origin != nil && r.origin.batched }

// noPeer is the peer of a request that nobody sent.
type noPeer struct{}

func (noPeer) Call(context.Context, string, any, any) error { return ErrOneWay }
func (noPeer) Stream(context.Context, string, any, any, func(*Request) error) error {
	return ErrOneWay
}
func (noPeer) Notify(context.Context, string, any) error { return ErrOneWay }

// boundPeer is the peer of one request.
type boundPeer struct {
	a   *Answerer
	x   *Exchange
	run *running // nil for a quick request

	// Held for reading while a message goes to the sink, so that the answer cannot overtake it; the sink
	// waits for room at most Limits.OutWait.
	mu       sync.RWMutex
	answered bool
}

func (p *boundPeer) settle() {
	p.mu.Lock()
	p.answered = true
	p.mu.Unlock()
}

// Send makes the peer a Sink that closes with the answer.
func (p *boundPeer) Send(ctx context.Context, payload []byte) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.answered {
		return ErrAnswered
	}
	if p.x.Sink == nil {
		return ErrOneWay
	}
	if p.run != nil {
		p.run.touch()
	} else if p.x.out != nil { // the reader's goroutine, which does not wait
		if !p.x.out.put(payload) {
			return ErrBusy
		}
		return nil
	}
	return p.x.Sink.Send(ctx, payload)
}

func (p *boundPeer) Notify(ctx context.Context, method string, params any) error {
	return notify(ctx, p, p.a.Version, method, params)
}

func (p *boundPeer) Call(ctx context.Context, method string, params, result any) error {
	return p.Stream(ctx, method, params, result, nil)
}

func (p *boundPeer) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	if p.x.Asker == nil || p.x.Sink == nil || p.run == nil {
		return ErrOneWay
	}
	p.run.rest()
	defer p.run.resume()
	return p.x.Asker.Call(ctx, p, method, params, result, on)
}

// notify encodes a notification and sends it.
func notify(ctx context.Context, s Sink, v Version, method string, params any) error {
	b := buffers.Get().(*buffer)
	defer b.free()
	var err error
	if b.bytes, err = AppendNotification(b.bytes[:0], v, method, params); err != nil {
		return err
	}
	return s.Send(ctx, b.bytes)
}

// A buffer is reused memory for one message on its way out.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) free() {
	poison(b.bytes)
	if cap(b.bytes) <= tooBigToKeep {
		buffers.Put(b)
	}
}
