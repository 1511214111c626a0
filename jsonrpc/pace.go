package jsonrpc

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	pacedCall     = 4 << 10  // bytes; smaller calls are not paced
	longCall      = 64 << 10 // bytes; smaller calls do not count in processPace
	connWindow    = 1 << 20  // initial bound of the bytes of open paced calls on a Conn
	midWindow     = 2        // times this is the bound for calls that are not long
	processWindow = 8 << 20  // the same for the long calls of all Conns together
	paceTick      = time.Second
	paceTime      = 10 * time.Second // the maximum wait of a call while no call ends
)

// A pacer bounds the bytes of our own calls that are open at once: a peer rejects calls that exceed
// what it can hold. The window doubles if no call has ended for paceTick, as with a peer whose
// handlers take long, and for each paceTime that calls wait although others end. A call waits at
// most paceTime while no other ends. Calls that a handler makes to its peer are not paced, because
// the peer's calls wait for that handler.
//
// A peer that is only busy gets its calls one window after the other, however long that takes: if
// all of them were sent after some time, it would reject most.
type pacer struct {
	base int64

	mu     sync.Mutex // guards the fields below
	window int64
	open   int64
	ended  time.Time // when a call ended, or the first one began to wait
	grown  time.Time // when the window grew, or the first one began to wait
	line   []*pacing
}

// A pacing is a call that waits for its start.
type pacing struct {
	n     int64
	since time.Time
	ready chan struct{} // closed when the call may begin
}

// processPace is shared by all Conns.
var processPace = pacer{base: processWindow}

// enter waits until a call of n bytes may begin, or ctx ends. The caller must call leave
// afterwards.
func (p *pacer) enter(ctx context.Context, n int64) error {
	p.mu.Lock()
	if len(p.line) == 0 && p.fits(n) {
		p.open += n
		p.mu.Unlock()
		return nil
	}
	now := time.Now()
	if len(p.line) == 0 {
		p.ended, p.grown = now, now
	}
	w := &pacing{n: n, since: now, ready: make(chan struct{})}
	p.line = append(p.line, w)
	p.mu.Unlock()
	tick := time.NewTicker(paceTick)
	defer tick.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case <-ctx.Done():
			if p.withdraw(w) {
				return context.Cause(ctx)
			}
			return nil
		case <-tick.C:
			p.grow()
			if p.force(w) {
				return nil
			}
		}
	}
}

// fits reports whether a call of n bytes may begin. The lock is held.
func (p *pacer) fits(n int64) bool {
	window := max(p.window, p.base)
	if n < longCall {
		window = max(window, midWindow*p.base)
	}
	return p.open == 0 || p.open+n <= window
}

// withdraw removes w from the line, and returns false if its call has begun.
func (p *pacer) withdraw(w *pacing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.remove(w) {
		return false
	}
	p.admit()
	return true
}

// force starts w if it has waited for paceTime and no call has ended in that time.
func (p *pacer) force(w *pacing) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(w.since) < paceTime || time.Since(p.ended) < paceTime || !p.remove(w) {
		return false
	}
	p.open += w.n
	return true
}

// remove removes w from the line, and returns false if its call has begun. The lock is held.
func (p *pacer) remove(w *pacing) bool {
	i := slices.Index(p.line, w)
	if i >= 0 {
		p.line = slices.Delete(p.line, i, i+1)
	}
	return i >= 0
}

// grow doubles the window if no call has ended for a tick, or if calls have waited for paceTime; in
// both cases only if it has not grown for as long.
func (p *pacer) grow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) == 0 {
		return
	}
	now := time.Now()
	idle := min(now.Sub(p.ended), now.Sub(p.grown))
	waited := min(now.Sub(p.line[0].since), now.Sub(p.grown))
	if idle < paceTick && waited < paceTime {
		return
	}
	p.grown = now
	p.window = 2 * max(p.window, p.base)
	p.admit()
}

// leave records the end of a call of n bytes.
func (p *pacer) leave(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open -= n
	if p.open == 0 {
		p.window = p.base
	}
	if len(p.line) > 0 {
		p.ended = time.Now()
		p.admit()
	}
}

// admit starts the calls that fit, in order. The lock is held.
func (p *pacer) admit() {
	for len(p.line) > 0 && p.fits(p.line[0].n) {
		p.open += p.line[0].n
		close(p.line[0].ready)
		p.line = p.line[1:]
	}
}

// isPaced reports whether calls over s are paced. Calls on a Conn are. A call that a handler makes
// to its peer is paced only if another call of the handler waits.
func isPaced(s Sink) bool {
	switch s := s.(type) {
	case *outbox:
		return true
	case *boundPeer:
		return s.x.lane != nil && s.run != nil && s.run.waits.Load() > 1
	}
	return false
}

// pace waits until a call of n bytes may begin. It reports whether the call is paced: then unpace
// must be called at its end.
func (k *Asker) pace(ctx context.Context, s Sink, n int) (paced bool, err error) {
	if n < pacedCall || !isPaced(s) {
		return false, nil
	}
	if err := k.paced.enter(ctx, int64(n)); err != nil {
		return false, err
	}
	if n < longCall {
		return true, nil
	}
	if err := processPace.enter(ctx, int64(n)); err != nil {
		k.paced.leave(int64(n))
		return false, err
	}
	return true, nil
}

// unpace records the end of a paced call of n bytes.
func (k *Asker) unpace(n int) {
	if n >= longCall {
		processPace.leave(int64(n))
	}
	k.paced.leave(int64(n))
}
