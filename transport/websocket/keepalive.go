package websocket

import (
	"errors"
	"time"
)

// ErrDeadPeer means that the peer did not respond to a ping.
var ErrDeadPeer = errors.New("websocket: the peer does not answer pings")

// keepAlive starts the timer of the pings. Between two pings there is only the timer.
func (t *Transport) keepAlive() {
	if t.settings.ping < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.settings.ping, t.tick)
}

// tick sends a ping, or checks whether anything arrived since the last one.
func (t *Transport) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.cause != nil:
	case t.settings.pong < 0:
		t.queueLocked(control{op: opPing})
		t.timer.Reset(t.settings.ping)
	case !t.waiting:
		t.waiting = true
		t.heard.Store(false)
		t.timer.Reset(t.settings.pong)
		t.queueLocked(control{op: opPing})
	case t.heard.Load() || t.blocked.Load():
		t.waiting = false
		t.timer.Reset(max(t.settings.ping-t.settings.pong, 0))
	default:
		_ = t.startCloseLocked(closeMode{kind: abrupt}, ErrDeadPeer) // there is no earlier cause
	}
}

// A bucket limits the peer's pings to one in 5 s on average. Its zero value is full: 100 pings may
// arrive at once, since some peers measure a connection by a burst of them. A ping that finds it
// empty is not refused but counted; the third ends the connection. The count is reset when the
// bucket is full again.
type bucket struct {
	spent   time.Duration // 0 means full
	last    time.Time
	strikes int
}

const (
	pingCost   = 5 * time.Second
	pingBurst  = 100
	maxStrikes = 3
)

// allow counts one ping and reports whether the connection may continue.
func (b *bucket) allow(now time.Time) bool {
	if !b.last.IsZero() {
		b.spent = max(b.spent-now.Sub(b.last), 0)
	}
	b.last = now
	if b.spent == 0 {
		b.strikes = 0
	}
	if b.spent > (pingBurst-1)*pingCost {
		b.strikes++
		return b.strikes < maxStrikes
	}
	b.spent += pingCost
	return true
}
