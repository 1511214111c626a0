// Package budget bounds the memory that all peers together can make the process hold: a pool of
// bytes for the process, and an account for each connection or principal that takes from it.
//
// Three rules prevent one peer from starving the others. The last eighth of a pool is for accounts
// that hold nothing. An account gets at most a quarter while others are rejected or wait. Each
// [Intake], a message that has arrived in part, gets room only if the older ones that are arriving
// still can arrive completely, and the oldest always gets room: otherwise many partial messages
// could fill the pool and none of them could complete.
package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Pool is a number of bytes, or of slots, that many accounts share. It is safe for concurrent
// use. The zero Pool has no limit.
type Pool struct {
	Max int64 // total size; zero or less means no limit. It must not change

	used atomic.Int64
	// When an account below its quarter was last rejected, in milliseconds since began; 0 means
	// never.
	pressed atomic.Int64
	waiting atomic.Int32 // length of line, for reading without the lock

	mu   sync.Mutex // guards the fields below
	line []*turn
	half []*Intake // messages that have arrived in part, oldest first

	readmitted int64 // when a waiting message last called readmit, in milliseconds since began
}

// An Account is the share of a Pool that one connection or one principal holds. It is safe for
// concurrent use.
type Account struct {
	Pool *Pool
	used atomic.Int64
}

// A turn is a caller that waits for room.
type turn struct {
	a     *Account
	n     int64
	of    *Intake       // nil if it is not for an Intake
	ready chan struct{} // closed when it has its room
}

// pressedFor is how long a rejected account counts as waiting, in milliseconds.
const pressedFor = 1000

var began = time.Now()

func now() int64 { return time.Since(began).Milliseconds() + 1 }

// Used returns how much of the pool is in use.
func (p *Pool) Used() int64 { return p.used.Load() }

// Used returns how much the account holds.
func (a *Account) Used() int64 { return a.used.Load() }

// Take takes n without an account and reports whether there was room. Otherwise it takes nothing.
// Force takes n in any case, and Give releases it.
func (p *Pool) Take(n int64) bool {
	if all := p.used.Add(n); p.Max <= 0 || all <= p.Max || all == n {
		return true
	}
	p.Give(n)
	return false
}

// Force is like Take, but takes n even if there is no room.
func (p *Pool) Force(n int64) { p.used.Add(n) }

// Give releases n that Take or Force took.
func (p *Pool) Give(n int64) {
	p.used.Add(-n)
	p.admit()
}

// Take takes n and reports whether there was room. Otherwise it takes nothing. It never waits.
func (a *Account) Take(n int64) bool {
	p := a.Pool
	if p == nil || p.Max <= 0 {
		return true
	}
	own, all := a.used.Add(n), p.used.Add(n)
	if p.allows(own, all, n) {
		return true
	}
	a.used.Add(-n)
	p.used.Add(-n)
	if own-n <= p.Max/4 {
		p.pressed.Store(now())
	}
	p.admit() // the attempt may have kept another account out
	return false
}

// allows reports whether an account may hold own of a total of all, both including n.
func (p *Pool) allows(own, all, n int64) bool {
	switch {
	case all == n: // nothing else is held: one request always fits
		return true
	case own == n: // the account held nothing
		return all <= p.Max
	case all > p.Max-p.Max/8:
		return false
	case own > p.Max/4:
		at := p.pressed.Load()
		return p.waiting.Load() == 0 && (at == 0 || now()-at > pressedFor)
	}
	return true
}

// Room reports whether Take would take n now. It reserves nothing.
func (a *Account) Room(n int64) bool {
	p := a.Pool
	return p == nil || p.Max <= 0 || p.allows(a.used.Load()+n, p.used.Load()+n, n)
}

// Force takes n whether or not there is room: for what is held already.
func (a *Account) Force(n int64) {
	if a.Pool == nil || a.Pool.Max <= 0 {
		return
	}
	a.used.Add(n)
	a.Pool.used.Add(n)
}

// Give releases n.
func (a *Account) Give(n int64) {
	p := a.Pool
	if p == nil || p.Max <= 0 {
		return
	}
	a.used.Add(-n)
	p.used.Add(-n)
	p.admit()
}

// Wait takes n and waits for room until ctx ends. Waiting callers are served in order, unless only
// a later one fits.
func (a *Account) Wait(ctx context.Context, n int64) error { return a.wait(ctx, nil, n, nil) }

// ErrStopped is returned by WaitOr.
var ErrStopped = errors.New("budget: stopped waiting")

// WaitOr is like Wait, but also returns when stop is readable or closed, with ErrStopped.
func (a *Account) WaitOr(ctx context.Context, stop <-chan struct{}, n int64) error {
	return a.wait(ctx, stop, n, nil)
}

func (a *Account) wait(ctx context.Context, stop <-chan struct{}, n int64, of *Intake) error {
	p := a.Pool
	if p == nil || p.Max <= 0 {
		return nil
	}
	if of == nil && p.waiting.Load() == 0 && a.Take(n) {
		return nil
	}
	t := &turn{a: a, n: n, of: of, ready: make(chan struct{})}
	p.mu.Lock()
	p.line = append(p.line, t)
	if of != nil {
		of.turn = t
	}
	p.waiting.Store(int32(len(p.line)))
	p.admitLocked()
	p.mu.Unlock()
	var again <-chan time.Time
	if of != nil { // an older message may have stopped to arrive
		tick := time.NewTicker(stalledAfter * time.Millisecond / 2)
		defer tick.Stop()
		again = tick.C
	}
	for {
		select {
		case <-t.ready:
			return nil
		case <-again:
			p.readmit()
			continue
		case <-stop:
		case <-ctx.Done():
		}
		break
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.line, t)
	if i < 0 {
		return nil // its turn came at the same time
	}
	p.line = slices.Delete(p.line, i, i+1)
	p.waiting.Store(int32(len(p.line)))
	if of != nil {
		of.turn = nil
	}
	if ctx.Err() == nil {
		return ErrStopped
	}
	return context.Cause(ctx)
}

// admit serves the waiting callers, if there are any.
func (p *Pool) admit() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admitLocked()
}

// readmit is admit for a waiting Intake. It does nothing if another one called it a moment ago.
func (p *Pool) readmit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := now(); at-p.readmitted >= stalledAfter/4 || at < p.readmitted {
		p.readmitted = at
		p.admitLocked()
	}
}

// admitLocked gives room to all waiting callers that fit: first to messages that have arrived in
// part, by age, then to the others in order.
func (p *Pool) admitLocked() {
	if len(p.line) == 0 {
		return
	}
	p.admitIntakes()
	kept := p.line[:0]
	for _, t := range p.line {
		all, own := p.used.Load()+t.n, t.a.used.Load()+t.n
		fits := all == t.n || own == t.n && all <= p.Max || all <= p.Max-p.Max/8 && own <= max(p.Max/4, t.n)
		switch {
		case t.of != nil && t.of.turn == t, t.of == nil && !fits:
			kept = append(kept, t)
			continue
		case t.of == nil:
			t.a.used.Add(t.n)
			p.used.Add(t.n)
		}
		close(t.ready)
	}
	clear(p.line[len(kept):])
	p.line = kept
	p.waiting.Store(int32(len(p.line)))
}

// admitIntakes gives room to the intakes that wait and fit, by age, and ends their turns. The lock
// is held.
func (p *Pool) admitIntakes() {
	var reserved int64 // for older messages
	time := now()
	for at, i := range p.half {
		if t := i.turn; t != nil {
			switch {
			case at > 0 && p.othersWait(t) && i.a.used.Load()+t.n > max(p.Max/4, t.n):
				continue // the account holds enough already
			case at > 0 && p.used.Load()+reserved+t.n > p.Max-p.Max/8:
				return // the younger ones do not overtake it
			}
			i.take(t.n, time)
		}
		reserved += i.missing(time)
		if at > 0 && p.used.Load()+reserved >= p.Max-p.Max/8 {
			return
		}
	}
}

// othersWait reports whether there is another one than t in line. The lock is held.
func (p *Pool) othersWait(t *turn) bool {
	return len(p.line) > 1 || len(p.line) == 1 && p.line[0] != t
}

// Nothing is reserved for a message that has not grown by progress for stalledAfter.
const (
	stalledAfter = 1000 // milliseconds
	progress     = 32 << 10
)

// An Intake is an arriving message that takes room as its bytes arrive.
type Intake struct {
	a    *Account
	want int64 // what it takes in all, probably

	// guarded by the pool's mu
	held  int64
	moved int64 // when it last grew by progress, in milliseconds since began
	mark  int64 // held at that time
	turn  *turn // nil if it does not wait
	now   turn  // of TryGrow
}

// Begin creates an Intake for an account. want is what it takes in all, as far as is known: room
// for that is reserved while it arrives. The caller must call End.
func (a *Account) Begin(want int64) *Intake {
	i := &Intake{a: a, want: want}
	if p := a.Pool; p != nil && p.Max > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.half = append(p.half, i)
		if len(p.half) == 1 {
			p.admitLocked()
		}
	}
	return i
}

// missing returns what is reserved for the message. The lock of the pool is held.
func (i *Intake) missing(time int64) int64 {
	if since := time - i.moved; since < 0 || since > stalledAfter {
		return 0
	}
	return max(0, i.want-i.held)
}

// take takes n for the message, and ends its turn. The lock of the pool is held.
func (i *Intake) take(n, time int64) {
	i.a.used.Add(n)
	i.a.Pool.used.Add(n)
	i.held += n
	if i.held-i.mark >= progress {
		i.moved, i.mark = time, i.held
	}
	i.turn = nil
}

// TryGrow takes n more, and reports whether there was room. It never waits.
func (i *Intake) TryGrow(n int64) bool {
	p := i.a.Pool
	if p == nil || p.Max <= 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i.turn = &i.now
	i.now.n = n
	p.admitIntakes()
	took := i.turn == nil
	i.turn = nil
	p.admitLocked() // the bodies that got room with it
	return took
}

// Grow takes n more, and waits for room until ctx ends. The oldest message does not wait.
func (i *Intake) Grow(ctx context.Context, n int64) error {
	if i.TryGrow(n) {
		return nil
	}
	return i.a.wait(ctx, nil, n, i)
}

// End marks the message as complete or abandoned. Its memory remains taken until the account's
// Give.
func (i *Intake) End() {
	p := i.a.Pool
	if p == nil || p.Max <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.half, i); at >= 0 {
		p.half = slices.Delete(p.half, at, at+1)
		p.admitLocked() // nothing is reserved for it
	}
}
