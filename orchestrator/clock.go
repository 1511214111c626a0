package orchestrator

import (
	"context"
	"sync"
	"time"
)

// A clock measures the time of a step. It is paused while the step, or a step in it, waits for the
// user.
type clock struct {
	up     *clock
	soft   bool // also paused while a step of the plan asks the user; set before the first use
	cancel context.CancelCauseFunc
	after  time.Duration

	mu     sync.Mutex // guards the fields below
	timer  *time.Timer
	left   time.Duration // the time left when the clock was started or paused
	since  time.Time     // when the clock was started
	paused int
	over   bool
}

// withClock returns a context that ends after d of running clock time, and a function that releases
// it. If d is 0, the context gets no deadline of its own.
func withClock(ctx context.Context, up *clock, d time.Duration) (context.Context, *clock, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d <= 0 {
		return ctx, up, func() { cancel(nil) }
	}
	c := &clock{up: up, cancel: cancel, after: d, left: d}
	c.mu.Lock()
	c.runLocked()
	c.mu.Unlock()
	return ctx, c, func() {
		c.mu.Lock()
		c.over = true
		c.timer.Stop()
		c.mu.Unlock()
		cancel(nil)
	}
}

func (c *clock) runLocked() {
	c.since = time.Now()
	c.timer = time.AfterFunc(c.left, func() { c.cancel(&timeoutError{c.after}) })
}

// pause stops this clock and its parents; if soft, only the soft ones. Each pause needs a resume.
func (c *clock) pause(soft bool) {
	for ; c != nil; c = c.up {
		if soft && !c.soft {
			continue
		}
		c.mu.Lock()
		if c.paused++; c.paused == 1 && !c.over {
			c.timer.Stop()
			c.left = max(c.left-time.Since(c.since), 0)
		}
		c.mu.Unlock()
	}
}

func (c *clock) resume(soft bool) {
	for ; c != nil; c = c.up {
		if soft && !c.soft {
			continue
		}
		c.mu.Lock()
		if c.paused--; c.paused == 0 && !c.over {
			c.runLocked()
		}
		c.mu.Unlock()
	}
}

// remaining returns the shortest time left on this clock and its parents. ok is false if none has a
// deadline.
func (c *clock) remaining() (least time.Duration, ok bool) {
	for ; c != nil; c = c.up {
		c.mu.Lock()
		left := c.left
		if c.paused == 0 {
			left = max(left-time.Since(c.since), 0)
		}
		c.mu.Unlock()
		if !ok || left < least {
			least, ok = left, true
		}
	}
	return least, ok
}
