package jsonrpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// running is one request while its handler runs: its context, its place in the list of those that can be
// cancelled, and its deadline. It is never pooled, since handlers keep contexts.
//
// As a context it is made real only when somebody asks for Done: most handlers never do.
type running struct {
	parent context.Context
	real   atomic.Pointer[realContext]

	a     *Answerer
	x     *Exchange
	id    ID
	v     Version
	open  bool        // no deadline
	taken atomic.Bool // somebody answers it: its goroutine, or the sweeper when that does not return

	waits atomic.Int32 // own calls to the peer that wait; meanwhile no time passes

	mu    sync.Mutex // guards what follows, and making the context real
	cause error      // why it ended; nil while it runs

	// Guarded by a.mu.
	prev, next     *running
	since, touched int64 // ticks of a
	overdue        int64 // ticks since its deadline
	listed         bool
}

type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// Deadline is the caller's. A handler's own deadline is renewed by what it sends, so that it has no fixed time.
func (r *running) Deadline() (time.Time, bool) { return r.parent.Deadline() }

func (r *running) Done() <-chan struct{} { return r.materialize().Done() }

func (r *running) Err() error {
	if real := r.real.Load(); real != nil {
		return real.Err()
	}
	r.mu.Lock()
	ended := r.cause != nil
	r.mu.Unlock()
	if ended {
		return context.Canceled
	}
	return r.parent.Err()
}

// Value goes through the real context once there is one, or an end: context.Cause asks by this way, also for children.
func (r *running) Value(key any) any {
	real := r.real.Load()
	if real == nil {
		r.mu.Lock()
		ended := r.cause != nil
		r.mu.Unlock()
		if !ended {
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
	if r.cause != nil {
		cancel(r.cause)
	}
	r.real.Store(real)
	return real
}

// end cancels the context. The first cause stays.
func (r *running) end(cause error) {
	r.mu.Lock()
	if r.cause == nil {
		r.cause = cause
	}
	real := r.real.Load()
	r.mu.Unlock()
	if real != nil {
		real.cancel(cause)
	}
}

// ended returns why the request was cancelled, or nil.
func (r *running) ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

// rest is called before the handler waits for its peer: no time passes and its place is free. resume takes both back.
func (r *running) rest() {
	if r.waits.Add(1) == 1 {
		r.a.Gate.leave()
		if r.x.lane != nil {
			r.x.lane.leave()
		}
	}
}

func (r *running) resume() {
	if r.waits.Add(-1) == 0 {
		r.a.Gate.mustEnter()
		if r.x.lane != nil {
			r.x.lane.enter()
		}
		r.touch()
	}
}

// touch renews the deadline.
func (r *running) touch() {
	r.a.mu.Lock()
	r.touched = r.a.now
	r.a.mu.Unlock()
}
