package jsonrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A running is one request while its handler runs: its context, its entry in the list of
// cancellable requests, and its deadline. It is never pooled, because handlers retain contexts.
//
// The real context is created only when Done is called: most handlers never call it. A running has
// 160 bytes, a size of the allocator: one is allocated for each request. What few requests need is
// in extra.
type running struct {
	parent context.Context
	real   atomic.Pointer[realContext]

	a     *Answerer
	x     *Exchange
	id    ID
	peer  atomic.Pointer[boundPeer]
	extra *extra // of a request whose response may be made elsewhere; nil for none
	// bytes of the response, probably; 0 in a batch, which counts as one
	expects int64

	waits atomic.Int32 // own calls to the peer that wait; meanwhile the deadline is suspended
	// the response is taken: by the handler's goroutine, or by the sweeper if the handler does not
	// return
	taken atomic.Bool

	cause atomic.Pointer[error] // why it was cancelled; nil while it runs, and set once

	// guards the field below, creating the real context, and releasing and retaking the handler's
	// place
	mu    sync.Mutex
	place *place // its job's place at the Gate; nil if it has none

	// Guarded by a.mu.
	prev, next *running
	since      int64  // ticks of a
	touched    uint32 // ticks of a, modulo 2³²: a deadline is at most 2³² ticks
	overdue    int16  // ticks since its deadline, at most those of a second and one more

	v    Version
	open bool // no deadline
}

// An extra is what a running has in a batch, or after its deadline.
type extra struct {
	batch *batchRun // the batch of the request; nil for a single message
	index int       // in the batch
	// of a single message: closed when the sweeper has sent the response; created before taken is
	// set
	given chan struct{}
}

type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// Deadline returns the parent's deadline. A handler's own deadline is renewed by what it sends, so
// it has no fixed time.
func (r *running) Deadline() (time.Time, bool) { return r.parent.Deadline() }

func (r *running) Done() <-chan struct{} { return r.materialize().Done() }

func (r *running) Err() error {
	if real := r.real.Load(); real != nil {
		return real.Err()
	}
	if r.ended() != nil {
		return context.Canceled
	}
	return r.parent.Err()
}

// Value uses the real context if it exists or if r was cancelled: context.Cause looks it up this
// way, also for children.
func (r *running) Value(key any) any {
	real := r.real.Load()
	if real == nil {
		if r.ended() == nil {
			return r.parent.Value(key)
		}
		real = r.materialize()
	}
	return real.Value(key)
}

func (r *running) materialize() *realContext {
	if real := r.real.Load(); real != nil {
		return real
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if real := r.real.Load(); real != nil {
		return real
	}
	ctx, cancel := context.WithCancelCause(r.parent)
	real := &realContext{ctx, cancel}
	if cause := r.ended(); cause != nil {
		cancel(cause)
	}
	r.real.Store(real)
	if cause := r.ended(); cause != nil { // end did not find the real context
		cancel(cause)
	}
	return real
}

// take reports whether the caller must send the response to a single message. If false, the sweeper
// has sent one already. For a quick request, r is nil.
func (r *running) take() bool {
	if r == nil || !r.mayBeLate() || r.taken.CompareAndSwap(false, true) {
		return true
	}
	<-r.extra.given
	return false
}

// mayBeLate reports whether the sweeper can send the response.
func (r *running) mayBeLate() bool { return r.x.lane != nil || r.x.Late != nil }

// end cancels the context. The first cause is retained.
func (r *running) end(cause error) { r.endBy(&cause) }

// endBy is end without an allocation. It takes no lock: cause is set before real is read here, and
// real is set before cause is read in materialize.
func (r *running) endBy(cause *error) {
	r.cause.CompareAndSwap(nil, cause)
	if real := r.real.Load(); real != nil {
		real.cancel(r.ended())
	}
}

// handlerReturned is the cause of the end of most requests.
var handlerReturned = context.Canceled

// ended returns why the request was cancelled, or nil.
func (r *running) ended() error {
	if cause := r.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// rest is called before the handler waits for its peer: the deadline is suspended and its place is
// free until resume. It returns false if too many handlers wait already.
func (r *running) rest() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits.Add(1) == 1 {
		r.place.pause() // first, because leave wakes a request that needs the place
		if r.x.lane != nil && !r.x.lane.leave(r.expects) {
			r.place.resume()
			r.waits.Add(-1)
			return false
		}
	}
	return true
}

func (r *running) resume() {
	r.mu.Lock()
	last := r.waits.Add(-1) == 0
	if last {
		r.place.resume()
		if r.x.lane != nil {
			r.x.lane.enter(r.expects)
		}
	}
	r.mu.Unlock()
	if last {
		r.touch()
	}
}

// touch renews the deadline.
func (r *running) touch() {
	r.a.mu.Lock()
	r.touched = uint32(r.a.now)
	r.a.mu.Unlock()
}
