package orchestrator

import (
	"context"
	"sync"
	"time"
)

// A clock is the time that a step has. It stands still while the step, or one in it, waits for a person.
type clock struct {
	up     *clock
	cancel context.CancelCauseFunc
	after  time.Duration

	mu     sync.Mutex // guards what follows
	timer  *time.Timer
	left   time.Duration // when it began to run, or was stopped
	since  time.Time     // it runs since then
	paused int
	over   bool
}

// withClock returns a context that ends after d of the time that counts, and what to call at the end. d of 0 sets no time of its own.
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

// pause stops this clock and those around it. Each pause needs a resume.
func (c *clock) pause() {
	for ; c != nil; c = c.up {
		c.mu.Lock()
		if c.paused++; c.paused == 1 && !c.over {
			c.timer.Stop()
			c.left = max(c.left-time.Since(c.since), 0)
		}
		c.mu.Unlock()
	}
}

func (c *clock) resume() {
	for ; c != nil; c = c.up {
		c.mu.Lock()
		if c.paused--; c.paused == 0 && !c.over {
			c.runLocked()
		}
		c.mu.Unlock()
	}
}

// remaining returns the least that is left on this clock and those around it. ok is false if there is no end.
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
