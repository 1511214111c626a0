package agent

import (
	"context"
	"sync"
)

// A Remote is a run at the other side of a link whose protocol names it by an id that comes with its first event, perhaps after the run was to end.
// It tells the run's caller what is heard of it, and cancels the run as soon as it is known which. Stop may be called at any time; all else is for
// the one goroutine that hears of the run.
type Remote struct {
	ctx    context.Context // the caller's; its end is not the end of the talk
	caller Caller
	cancel func(ctx context.Context, id string)
	broken error // of the caller

	mu      sync.Mutex // guards what follows
	id      string
	stopped bool
}

// NewRemote makes a run of which nothing is known yet, but who asked for it, until ctx ends. cancel cancels the run with this id over there; it may be called
// more than once, and on any goroutine.
func NewRemote(ctx context.Context, caller Caller, cancel func(ctx context.Context, id string)) *Remote {
	return &Remote{ctx: ctx, caller: caller, cancel: cancel}
}

// Stop cancels the run, at once or as soon as its id is known. It is what [Outlive] wants.
func (r *Remote) Stop(ctx context.Context) {
	r.mu.Lock()
	id := r.id
	r.stopped = true
	r.mu.Unlock()
	if id != "" {
		r.cancel(ctx, id)
	}
}

// Started notes which run it is, tells the caller, and cancels a run that was stopped before. The first id stays: later calls do nothing.
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

// ID returns the id, "" as long as it is not known.
func (r *Remote) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// Tell hands an event to the caller, unless that has gone. If the caller wants no more of them the run is stopped, and Err says why.
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

// Err returns what the caller said when it wanted to hear no more, nil as long as it does.
func (r *Remote) Err() error { return r.broken }
