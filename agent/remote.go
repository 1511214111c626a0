package agent

import (
	"context"
	"sync"
)

// A Remote is a remote run in a protocol whose first event carries the run's ID, possibly after the
// run was to be cancelled. It forwards the run's events to its caller and cancels the run as soon
// as the ID is known. Stop is safe for concurrent use; all other methods are for the one goroutine
// that receives the run's events.
type Remote struct {
	ctx    context.Context // the caller's; communication continues after it ends
	caller Caller
	cancel func(ctx context.Context, id string)
	broken error // the caller's error

	mu      sync.Mutex // guards the fields below
	id      string
	stopped bool
}

// NewRemote returns a Remote for a run whose ID is not known yet. caller receives its events until
// ctx ends. cancel cancels the remote run with the given ID; it may be called more than once and
// from any goroutine.
func NewRemote(ctx context.Context, caller Caller, cancel func(ctx context.Context, id string)) *Remote {
	return &Remote{ctx: ctx, caller: caller, cancel: cancel}
}

// Stop cancels the run, at once or as soon as its ID is known. It has the signature that [Outlive]
// requires.
func (r *Remote) Stop(ctx context.Context) {
	r.mu.Lock()
	id := r.id
	r.stopped = true
	r.mu.Unlock()
	if id != "" {
		r.cancel(ctx, id)
	}
}

// Started sets the ID of the run, sends EventStarted to the caller, and cancels the run if it was
// stopped before. The first ID is final: later calls do nothing.
func (r *Remote) Started(id, session string) {
	r.mu.Lock()
	known, stopped := r.id != "", r.stopped
	if !known {
		r.id = id
	}
	r.mu.Unlock()
	if known {
		return
	}
	r.Tell(Event{Kind: EventStarted, ID: id, Session: session})
	if stopped {
		r.Stop(context.WithoutCancel(r.ctx))
	}
}

// ID returns the run's ID, or "" if it is not known yet.
func (r *Remote) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// Tell forwards an event to the caller unless the caller's context has ended. If the caller returns
// an error, the run is stopped, and Err returns the error.
func (r *Remote) Tell(e Event) {
	if r.broken != nil || r.Gone() {
		return
	}
	if err := r.caller.Tell(r.ctx, e); err != nil && !r.Gone() {
		r.broken = err
		r.Stop(context.WithoutCancel(r.ctx))
	}
}

// Ask puts a question to the caller.
func (r *Remote) Ask(q *Question) (*Answer, error) { return r.caller.Ask(r.ctx, q) }

// Gone reports whether the caller's context has ended.
func (r *Remote) Gone() bool { return r.ctx.Err() != nil }

// Err returns the error with which the caller rejected an event, or nil.
func (r *Remote) Err() error { return r.broken }
