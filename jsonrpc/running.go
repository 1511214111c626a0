package jsonrpc

import (
	"context"
	"time"
)

// admit makes a request known, so that it can be cancelled, and gives it a context. It comes before any wait for a place:
// the cancel may be the next message.
func (a *Answerer) admit(ctx context.Context, j *job, m *message, x *Exchange) {
	r := &running{parent: ctx, a: a, x: x, id: j.req.ID, v: m.version, open: j.mode&Open != 0}
	a.mu.Lock()
	r.since, r.touched, r.listed = a.now, a.now, true
	if r.next = a.newest; r.next != nil {
		r.next.prev = r
	}
	a.newest = r
	if !a.armed {
		a.armed = true
		if a.sweeper == nil {
			a.sweeper = time.AfterFunc(a.tick, a.sweep)
		} else {
			a.sweeper.Reset(a.tick)
		}
	}
	a.mu.Unlock()
	j.run, j.ctx, j.origin.run = r, r, r
}

// unlist takes a request out of the list. The lock is held.
func (a *Answerer) unlist(r *running) {
	if !r.listed {
		return
	}
	r.listed = false
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		a.newest = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// Cancel ends the context of the running requests with this id, with ErrPeerCancelled as cause, and reports whether there
// was one.
func (a *Answerer) Cancel(id ID) bool {
	var hit []*running
	a.mu.Lock()
	for r := a.newest; r != nil; r = r.next {
		if r.id == id && !id.IsZero() {
			hit = append(hit, r)
		}
	}
	a.mu.Unlock()
	for _, r := range hit {
		r.end(ErrPeerCancelled)
	}
	return len(hit) > 0
}

func (a *Answerer) isCancel(req *Request) bool {
	return a.Cancellation.Method != "" && req.Method == a.Cancellation.Method && req.IsNotification()
}

// cancelNamed cancels the request that the params of a cancel message name.
func (a *Answerer) cancelNamed(params Raw) {
	if len(params) == 0 || params[0] != '{' {
		return
	}
	w := walk(params)
	for {
		name, value, ok := w.member()
		if !ok {
			return
		}
		if string(name) == a.Cancellation.Member && isScalarID(value) {
			a.Cancel(idOf(value))
		}
	}
}

// endAll ends the contexts of all running requests.
func (a *Answerer) endAll(cause error) {
	a.mu.Lock()
	var all []*running
	for r := a.newest; r != nil; r = r.next {
		all = append(all, r)
	}
	a.mu.Unlock()
	for _, r := range all {
		r.end(cause)
	}
}

// sweep looks for requests that passed their deadline, once a tick while anything runs.
func (a *Answerer) sweep() {
	handler, total, second := ticks(a.Limits.Deadline, a.tick), ticks(a.Limits.TotalDeadline, a.tick), ticks(time.Second, a.tick)
	var late, stuck []*running
	a.mu.Lock()
	a.now++
	for r := a.newest; r != nil; r = r.next {
		switch {
		case r.open:
		case r.waits.Load() > 0:
			r.since++ // the peer's time, not the handler's
			r.touched = a.now
		case r.overdue > 0:
			if r.overdue++; r.overdue == second+1 {
				stuck = append(stuck, r)
			}
		case a.now-r.touched > handler || a.now-r.since > total:
			r.overdue = 1
			late = append(late, r)
		}
	}
	if a.newest == nil {
		a.armed = false
	} else {
		a.sweeper.Reset(a.tick)
	}
	a.mu.Unlock()
	for _, r := range late {
		r.end(ErrTimeout)
	}
	for _, r := range stuck {
		a.giveUp(r)
	}
}

// giveUp answers a request whose handler ignores that its context has ended. The handler's own answer will be dropped.
func (a *Answerer) giveUp(r *running) {
	if r.x.lane == nil || r.id.IsZero() || !r.taken.CompareAndSwap(false, true) {
		return // a carrier of one payload can only wait
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), a.Limits.OutWait)
		defer cancel()
		_ = r.x.Sink.Send(ctx, AppendError(nil, r.v, r.id, faultDeadline)) // else the conversation is over
	}()
}
