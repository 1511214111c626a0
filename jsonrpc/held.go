package jsonrpc

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

const (
	// chargeStep is the amount that a lane takes at once, so that a small message needs no access
	// to memory that all lanes share.
	chargeStep = 32 << 10

	// freeNotifications is how much a Conn may hold in notifications even if other connections use
	// up the bound: notifications cannot be rejected.
	freeNotifications = 64 << 10
)

// mostResting bounds the handlers of a Conn that wait for their peer, and budget.Resting those of
// all connections. They do not count as running, so that two sides that call each other make
// progress.
const mostResting = 4096

// A room is the result of reserve.
type room uint8

const (
	reserved    room = iota
	lineFull         // the Conn holds too much
	processFull      // all connections together hold too much
)

// mayRest reports whether one more handler may wait for its peer, because a new request may start
// one. The lock is held.
func (l *lane) mayRest() bool {
	return l.resting == 0 || l.resting < mostResting && l.resters.Room(1)
}

// rest counts a handler that waits for its peer. The lock is held.
func (l *lane) rest() bool {
	if l.resters.Pool == nil {
		l.resters.Pool = &budget.Resting
	}
	return l.resting < mostResting && l.resters.Take(1)
}

// findRoom finds room for t when all connections together hold too much. If a call of ours is open,
// the peer's handler of that call may wait for this request: the request gets room from a reserve
// for such requests.
func (c *Conn) findRoom(ctx context.Context, t *task) bool {
	if c.asker.isOpen() {
		t.callback = true
		return c.lane.reserve(t) == reserved
	}
	return c.waitForRoom(ctx, t)
}

// waitForRoom waits until all connections together hold less, for a long request of a peer that has
// no call of ours: a rejected request would only be sent again. It reports whether t has its room.
func (c *Conn) waitForRoom(ctx context.Context, t *task) bool {
	if t.size < longRequest || c.release() != nil {
		return false
	}
	c.out.mu.Lock()
	wake := c.wakeup()
	c.out.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	for {
		switch c.lane.reserve(t) {
		case reserved:
			return true
		case lineFull:
			return false
		}
		if c.asker.isOpen() {
			return c.findRoom(ctx, t)
		}
		switch err := c.lane.account.WaitOr(ctx, wake, t.cost()); {
		case err == nil:
			return c.lane.reserveTaken(t) == reserved
		case ctx.Err() != nil:
			return false
		}
	}
}

const (
	longRequest = 64 << 10
	roomTime    = 30 * time.Second
)

// charge takes the cost of t, and reports whether there is room. The lock is held.
func (l *lane) charge(t *task) bool {
	cost := t.cost()
	if t.callback {
		if l.callbacks.Pool == nil {
			l.callbacks.Pool = &budget.Callbacks
		}
		return l.callbacks.Take(cost)
	}
	if l.held+cost <= l.taken {
		l.held += cost
		return true
	}
	if l.account.Pool == nil {
		l.account.Pool = &budget.Requests
	}
	more := max(l.held+cost-l.taken, chargeStep)
	switch {
	case l.account.Take(more):
	case !t.waits && l.queued+t.weight() <= freeNotifications:
		l.account.Force(more)
	default:
		return false
	}
	l.taken += more
	l.held += cost
	return true
}

// uncharge releases the cost of a task. The lock is held.
func (l *lane) uncharge(cost int64, callback bool) {
	if callback {
		l.callbacks.Give(cost)
		return
	}
	l.held -= cost
	l.trim()
}

// trim releases what the account has taken and no task needs, except for a little. The lock is
// held.
func (l *lane) trim() {
	if spare := l.taken - l.held; l.held == 0 || spare > 2*chargeStep {
		if l.held > 0 {
			spare -= chargeStep
		}
		l.account.Give(spare)
		l.taken -= spare
	}
}
