package jsonrpc

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// admit lists a request so that it can be cancelled, and gives it a context. It runs before any
// wait for a place: the cancellation may be the next message.
func (a *Answerer) admit(ctx context.Context, j *job, m *message, x *Exchange) {
	a.admitMember(ctx, j, m, x, nil)
}

// admitMember is admit for a message of a batch.
func (a *Answerer) admitMember(ctx context.Context, j *job, m *message, x *Exchange, e *extra) {
	r := &running{parent: ctx, a: a, x: x, id: j.req.ID, v: m.version, open: j.mode&Open != 0, extra: e}
	a.mu.Lock()
	r.since, r.touched = a.now, uint32(a.now)
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

// unlist removes a request from the list. The lock is held.
func (a *Answerer) unlist(r *running) {
	if r.prev == nil && a.newest != r {
		return // not listed
	}
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

// Cancel cancels the contexts of the running requests with this id, with ErrPeerCancelled as the
// cause, and reports whether there was one.
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

// endAll cancels the contexts of all running requests.
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

// sweep finds requests that exceeded their deadline. It runs once a tick while requests run.
func (a *Answerer) sweep() {
	handler, total, second := ticks(a.Limits.Deadline, a.tick), ticks(a.Limits.TotalDeadline, a.tick), ticks(time.Second, a.tick)
	var late, stuck []*running
	a.mu.Lock()
	a.now++
	for r := a.newest; r != nil; r = r.next {
		switch {
		case r.open:
		case r.waits.Load() > 0:
			r.since++ // the time of the peer, not of the handler
			r.touched = uint32(a.now)
		case int64(r.overdue) > second: // it is in stuck already
		case r.overdue > 0:
			if r.overdue++; int64(r.overdue) > second {
				stuck = append(stuck, r)
			}
		case int64(uint32(a.now)-r.touched) > handler || a.now-r.since > total:
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

// giveUp responds to a request whose handler ignores its cancelled context. The handler's own
// response is dropped, and its Peer is closed.
func (a *Answerer) giveUp(r *running) {
	switch {
	case !r.mayBeLate():
	case r.extra != nil:
		r.extra.batch.giveUp(r.extra.index, r)
	case !r.id.IsZero() && !r.taken.Load():
		given := make(chan struct{})
		r.extra = &extra{given: given}
		if !r.taken.CompareAndSwap(false, true) {
			return
		}
		go func() {
			defer close(given)
			defer rescue.Catch(a.report, nil) // of a transport
			settlePeer(&r.peer)
			out, e := a.appendError(nil, r.v, r.id, faultDeadline)
			a.sendLate(r.x, out, e)
		}()
	}
}

// sendLate sends the response to a payload while one of its handlers still runs. e is its error if
// it is the error of a single request.
func (a *Answerer) sendLate(x *Exchange, response []byte, e *Error) {
	if x.lane == nil {
		if late, ok := x.Late.(LateErrorSender); ok && e != nil {
			late.SendLateError(response, e)
			return
		}
		x.Late.SendLate(response)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Limits.OutWait)
	defer cancel()
	_ = x.Sink.Send(ctx, response) // on an error the connection is closed
}
