package gateway

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A breakerState is what a breaker permits.
type breakerState uint8

const (
	breakerClosed   breakerState = iota // calls pass
	breakerHalfOpen                     // one trial at a time passes
	breakerOpen                         // no call passes until its time has passed
	breakerCordoned                     // no call passes until an operator removes the cordon
)

// String returns the name of the state in the status and in metrics.
func (s breakerState) String() string {
	switch s {
	case breakerHalfOpen:
		return "half-open"
	case breakerOpen:
		return "open"
	case breakerCordoned:
		return "cordoned"
	default:
		return "closed"
	}
}

// A verdict is what one call shows about the health of its upstream.
type verdict uint8

const (
	verdictNone    verdict = iota // nothing: its caller cancelled it, or the upstream is only busy
	verdictSuccess                // a response, which may be a JSON-RPC error
	verdictFailure                // no usable response
)

// breakerOptions are the numbers of a breaker. Zero values are the defaults.
type breakerOptions struct {
	// Off lets every call pass that neither a pause nor the cordon stops.
	Off bool

	// Failures in a row open the breaker. As many failures in the Window open it too if they are at
	// least Ratio of its calls. The default is 5.
	Failures int

	// Ratio is a part of the calls in the Window, from 0 to 1. The default is 0.5.
	Ratio float64

	// Window is the time that Ratio is about. The default is 30 s. It moves in tenths.
	Window time.Duration

	// Open is how long the breaker stays open the first time; it doubles up to Max while trials
	// fail. Each time differs by up to 20 % at random. The defaults are 5 s and 60 s.
	Open, Max time.Duration

	// Check starts an active check of the upstream, whose result is passed to checked. It is called
	// without a lock when the breaker becomes half-open, and trials wait until a check has
	// succeeded. It must not wait. If nil, calls are the only trials.
	Check func()

	// Proves means that the active check speaks the protocol of the upstream: a successful check
	// counts as one of the two successes that close the breaker.
	Proves bool

	// Changed is called after each change of the state, without a lock. It may be nil.
	Changed func(from, to breakerState)

	// Report gets panics of Check and Changed on the timer's goroutine.
	Report func(what string, err error)
}

const (
	breakerSlots   = 10              // parts of the window
	breakerCloses  = 2               // successes in a row that close a half-open breaker
	halfOpenRetry  = time.Second / 4 // when to try again while a trial is under way
	busyPause      = time.Second     // the pause if the upstream does not name one
	maxPause       = 5 * time.Minute // the longest pause that an upstream can cause
	breakerJitters = 0.2             // of the time that it stays open
)

// A breaker stops calls to an upstream that fails, so that they fail at once or go to another
// upstream, and lets single trials pass later to detect that it works again.
//
// For each call: allow, then the call, then done with the permit. Between, [breaker.valid] reports
// whether the permit still holds after a wait. pause is for HTTP 429 and Retry-After. The active
// checks of the upstream call checked and, when the upstream is up again, recovered. close stops
// its timer. All methods are safe for concurrent use.
type breaker struct {
	o    breakerOptions
	born time.Time // the times below are nanoseconds since then

	// stopped is called without a lock when the breaker opens and when it is cordoned. It may be
	// nil, and is set before the first call.
	stopped func()

	// For readers without the lock: no call passes before this time, and whether the state is
	// anything but closed.
	notBefore atomic.Int64
	degraded  atomic.Bool

	mu       sync.Mutex   // guards the fields below
	state    breakerState // without the cordon
	cordoned bool
	ended    bool
	period   uint32 // changes with the state; results of calls of an earlier period do not count
	row      int    // failures in a row
	slots    [breakerSlots]breakerSlot
	slot     int64 // the number of the newest slot
	length   time.Duration
	until    int64 // the end of the open time
	paused   int64 // the end of the pause
	trial    bool  // a trial is under way
	passed   bool  // half-open: a check has succeeded, or there are no checks
	good     int   // half-open: successes in a row
	opened   uint64
	since    int64
	timer    *time.Timer
}

type breakerSlot struct{ good, bad int }

// A permit is the right to send one call. The zero value belongs to no period.
type permit struct {
	period uint32
	trial  bool
}

// A breakerStatus is a snapshot for the status and for metrics.
type breakerStatus struct {
	State         breakerState
	Since         time.Time     // of the state
	RetryAfter    time.Duration // when a call may pass; 0 if one may pass now, negative if unknown
	Paused        time.Duration // what is left of a pause, with any state
	FailuresInRow int
	Failures      int    // in the window
	Calls         int    // in the window
	Opened        uint64 // how often it opened
}

func newBreaker(o breakerOptions) *breaker {
	if o.Failures <= 0 {
		o.Failures = 5
	}
	if o.Ratio <= 0 || o.Ratio > 1 {
		o.Ratio = 0.5
	}
	if o.Window <= 0 {
		o.Window = 30 * time.Second
	}
	if o.Open <= 0 {
		o.Open = 5 * time.Second
	}
	if o.Max <= 0 {
		o.Max = time.Minute
	}
	o.Max = max(o.Max, o.Open)
	return &breaker{o: o, born: time.Now(), period: 1}
}

func (b *breaker) at(now time.Time) int64 { return int64(now.Sub(b.born)) }

// usable reports without a lock whether a call may pass. allow may still refuse it.
func (b *breaker) usable(now time.Time) bool {
	first := b.notBefore.Load()
	return first == 0 || b.at(now) >= first
}

// due reports whether the next call would be a trial.
func (b *breaker) due(now time.Time) bool { return b.degraded.Load() && b.usable(now) }

// allow returns a permit for one call, which must be passed to done. If it reports false, the call
// must not be sent; see status for the reason.
func (b *breaker) allow(now time.Time) (permit, bool) {
	b.mu.Lock()
	at, from := b.at(now), b.shownLocked()
	b.settleLocked(at)
	ok := !b.cordoned && at >= b.paused
	p := permit{period: b.period}
	if ok && b.state != breakerClosed {
		if ok = b.state == breakerHalfOpen && b.passed && !b.trial; ok {
			b.trial, p.trial = true, true
			b.publishLocked()
		}
	}
	turned := b.changeLocked(from)
	b.mu.Unlock()
	b.announce(turned)
	return p, ok
}

// valid reports whether p is of the present period, and no cordon or pause came in between: a call
// that waited after allow must not be sent otherwise.
func (b *breaker) valid(p permit, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.period == b.period && !b.cordoned && b.at(now) >= b.paused
}

// done ends the call of a permit.
func (b *breaker) done(p permit, v verdict, now time.Time) {
	b.mu.Lock()
	from := b.shownLocked()
	if p.period == b.period {
		b.countLocked(p, v, b.at(now))
	}
	turned := b.changeLocked(from)
	b.mu.Unlock()
	b.announce(turned)
}

func (b *breaker) countLocked(p permit, v verdict, at int64) {
	if p.trial {
		b.trial = false
	}
	switch {
	case v == verdictNone || b.o.Off:
	case b.state == breakerClosed && v == verdictSuccess:
		b.slotLocked(at).good++
		b.row = 0
		return
	case b.state == breakerClosed:
		b.slotLocked(at).bad++
		b.row++
		good, bad := b.windowLocked(at)
		if b.row >= b.o.Failures || bad >= b.o.Failures && float64(bad) >= b.o.Ratio*float64(good+bad) {
			b.openLocked(at)
		}
	case b.state == breakerHalfOpen && v == verdictSuccess:
		b.provedLocked(at)
	case b.state == breakerHalfOpen:
		b.openLocked(at)
	}
	b.publishLocked()
}

// pause stops calls for d without a failure, after HTTP 429 or Retry-After: 1 s if d is not
// positive, and 5 min at most. A pause does not shorten an earlier one.
func (b *breaker) pause(d time.Duration, now time.Time) {
	if d <= 0 {
		d = busyPause
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = max(b.paused, b.at(now)+int64(min(d, maxPause)))
	b.publishLocked()
}

// cordon stops all calls until an operator removes the cordon. Then the breaker is closed,
// whatever it was before.
func (b *breaker) cordon(on bool) {
	b.mu.Lock()
	from := b.shownLocked()
	if on != b.cordoned {
		b.cordoned = on
		b.turnLocked(breakerClosed, b.at(time.Now()))
		b.paused = 0
		b.publishLocked()
	}
	turned := b.changeLocked(from)
	b.mu.Unlock()
	b.announce(turned)
}

// checked takes the result of an active check. It has no effect unless the breaker is half-open: a
// success lets trials pass, a failure opens the breaker again.
func (b *breaker) checked(ok bool, now time.Time) {
	b.mu.Lock()
	at, from := b.at(now), b.shownLocked()
	b.settleLocked(at)
	if !b.cordoned && b.state == breakerHalfOpen {
		b.passed = ok
		switch {
		case !ok:
			b.openLocked(at)
		case b.o.Proves:
			b.provedLocked(at)
		}
		b.publishLocked()
	}
	turned := b.changeLocked(from)
	b.mu.Unlock()
	b.announce(turned)
}

// recovered makes an open breaker half-open at once, because the active checks, which had failed,
// succeed again: its upstream has come back.
func (b *breaker) recovered(now time.Time) {
	b.mu.Lock()
	from := b.shownLocked()
	if !b.cordoned && b.state == breakerOpen {
		b.turnLocked(breakerHalfOpen, b.at(now))
		b.passed = true
		if b.o.Proves {
			b.good = 1
		}
		b.publishLocked()
	}
	turned := b.changeLocked(from)
	b.mu.Unlock()
	b.announce(turned)
}

// close stops the timer. The breaker may still be used.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

// status returns a snapshot.
func (b *breaker) status(now time.Time) breakerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.at(now)
	// The state that the next call finds; the change itself belongs to that call or to the timer.
	state := b.shownLocked()
	if state == breakerOpen && at >= b.until {
		state = breakerHalfOpen
	}
	s := breakerStatus{
		State: state, Since: b.born.Add(time.Duration(b.since)), FailuresInRow: b.row, Opened: b.opened,
		Paused: time.Duration(max(b.paused-at, 0)),
	}
	good, bad := b.windowLocked(at)
	s.Failures, s.Calls = bad, good+bad
	s.RetryAfter = s.Paused
	switch {
	case state == breakerCordoned:
		s.RetryAfter = -1
	case state == breakerOpen:
		s.RetryAfter = max(s.RetryAfter, time.Duration(b.until-at))
	case state == breakerHalfOpen && (b.trial || b.state == breakerHalfOpen && !b.passed):
		s.RetryAfter = max(s.RetryAfter, halfOpenRetry)
	}
	return s
}

// A change of the state, to be reported after the lock is released.
type change struct {
	from, to breakerState
	check    bool // an active check is needed
}

func (b *breaker) changeLocked(from breakerState) change {
	to := b.shownLocked()
	return change{from, to, from != to && to == breakerHalfOpen && !b.passed}
}

func (b *breaker) announce(c change) {
	if c.from == c.to {
		return
	}
	if c.check {
		b.o.Check()
	}
	if b.stopped != nil && (c.to == breakerOpen || c.to == breakerCordoned) {
		b.stopped()
	}
	if b.o.Changed != nil {
		b.o.Changed(c.from, c.to)
	}
}

// shownLocked returns the state with the cordon.
func (b *breaker) shownLocked() breakerState {
	if b.cordoned {
		return breakerCordoned
	}
	return b.state
}

// settleLocked makes the breaker half-open if its open time has passed.
func (b *breaker) settleLocked(at int64) {
	if !b.cordoned && b.state == breakerOpen && at >= b.until {
		b.turnLocked(breakerHalfOpen, at)
		b.publishLocked()
	}
}

// provedLocked counts a success of a half-open breaker.
func (b *breaker) provedLocked(at int64) {
	if b.good++; b.good >= breakerCloses {
		b.turnLocked(breakerClosed, at)
	}
}

// openLocked opens the breaker. The first time after it was closed takes Open, the next ones
// double.
func (b *breaker) openLocked(at int64) {
	if b.state == breakerClosed {
		b.length = b.o.Open
	} else {
		b.length = min(2*b.length, b.o.Max)
	}
	b.turnLocked(breakerOpen, at)
	wait := time.Duration(float64(b.length) * spread())
	b.until = at + int64(wait)
	b.opened++
	if b.o.Check != nil && !b.ended {
		if b.timer == nil {
			b.timer = time.AfterFunc(wait, b.wake)
		} else {
			b.timer.Reset(wait)
		}
	}
}

// spread returns a random factor from 0.8 to 1.2.
func spread() float64 { return 1 - breakerJitters + 2*breakerJitters*rand.Float64() }

// wake makes the breaker half-open when its open time has passed, so that the active check does
// not wait for a call.
func (b *breaker) wake() {
	defer rescue.Catch(b.o.Report, nil)
	b.mu.Lock()
	from := b.shownLocked()
	if !b.ended {
		b.settleLocked(b.at(time.Now()))
	}
	turned := b.changeLocked(from)
	b.mu.Unlock()
	b.announce(turned)
}

// turnLocked begins a period with another state.
func (b *breaker) turnLocked(to breakerState, at int64) {
	b.state, b.since = to, at
	b.period++
	b.trial, b.passed, b.good, b.row = false, b.o.Check == nil, 0, 0
	if to == breakerClosed {
		b.slots = [breakerSlots]breakerSlot{}
	}
}

// publishLocked updates the fields that are read without the lock.
func (b *breaker) publishLocked() {
	first := b.paused
	switch {
	case b.cordoned, b.state == breakerHalfOpen && (b.trial || !b.passed):
		first = math.MaxInt64
	case b.state == breakerOpen:
		first = max(first, b.until)
	}
	b.notBefore.Store(first)
	b.degraded.Store(b.cordoned || b.state != breakerClosed)
}

// slotLocked returns the slot of the window for the present time. Older slots are emptied.
func (b *breaker) slotLocked(at int64) *breakerSlot {
	number := at / max(int64(b.o.Window)/breakerSlots, 1)
	if number-b.slot >= breakerSlots {
		b.slots = [breakerSlots]breakerSlot{}
		b.slot = number
	}
	for b.slot < number {
		b.slot++
		b.slots[b.slot%breakerSlots] = breakerSlot{}
	}
	return &b.slots[number%breakerSlots]
}

func (b *breaker) windowLocked(at int64) (good, bad int) {
	b.slotLocked(at)
	for _, s := range b.slots {
		good, bad = good+s.good, bad+s.bad
	}
	return good, bad
}
