package jsonrpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A lane schedules the handlers of a Conn: requests run concurrently, up to a bound; notifications
// run one at a time in wire order, and nothing received after a notification starts before it is
// done.
//
// Its goroutines run one task after the other. Only one goroutine is woken at a time, and it wakes
// the next one before it begins, if there is more to do: short handlers then share a few
// goroutines, while a slow one delays no others.
type lane struct {
	run func(*task)
	// reports whether calls of our own are open: handlers of the peer may then wait for a response,
	// so that none is expected; nil in tests
	calls   func() bool
	most    int          // concurrent requests
	pending int          // queued requests
	weight  int          // weight of queued and running requests
	bytes   int          // of queued notifications
	unsent  atomic.Int64 // bytes of long responses that are made and not queued
	partial atomic.Int64 // the same of batches that still run
	unread  *unread      // responses that the peer has not read; nil in tests

	expected atomic.Int64 // this connection's part of budget.Expected

	mu        sync.Mutex // guards the fields below
	queue     []*task
	head      int
	requests  int  // queued
	weighs    int  // weight of queued and running requests
	queued    int  // weight of queued notifications
	unstarted int  // cost of all queued tasks
	resting   int  // handlers that wait for their peer
	ahead     bool // the reader waits in catchUp
	running   int  // requests, without those that wait for their peer
	notifying bool // an ordered notification runs
	waking    bool // a goroutine was woken and has not checked the queue yet
	parked    []chan struct{}
	retire    *time.Timer
	used      bool // since the timer was set
	closed    bool
	started   time.Time // when a request last started while there were too many unread responses
	later     bool      // resume will be called
	held      int64     // cost of all queued and running tasks
	taken     int64     // from account; a little more than held
	account   budget.Account
	callbacks budget.Account
	resters   budget.Account
	gate      budget.Account // running requests, at the Gate

	caughtUp chan struct{} // with capacity 1; created when the reader first waits

	workers sync.WaitGroup
}

// A task is one payload for a handler.
type task struct {
	job      *job
	batch    *batchRun
	ordered  bool           // notifications: no later task may start before it is done
	waits    bool           // a request or a batch: counts as running
	size     int            // bytes of the payload
	callback bool           // its cost is charged to budget.Callbacks
	recent   *budget.Recent // of the method of a request; nil for other tasks
	// bytes of its response, probably; 0 for a short one; decided when it starts
	expects int64
	// members that cost memory: 1, or the requests and notifications of a batch
	members int
	first   bool // its method has not responded yet
}

// weight returns what a task counts toward the bounds of its Conn: its size, but at least 1 KiB
// (messageCost) for each member.
func (t *task) weight() int { return max(t.size, t.members*messageCost) }

// cost returns what t counts toward the memory bound of all connections: its payload, a response
// that may be as long, and for each member a job, a context and what the collector has not freed.
func (t *task) cost() int64 { return int64(2*t.size + (2*t.members+1)*messageCost) }

// atGate returns the Conn's account at a Gate.
func (l *lane) atGate(p *budget.Pool) *budget.Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate.Pool == nil {
		l.gate.Pool = p
	}
	return &l.gate
}

// parkedAtMost is the maximum number of goroutines that wait for tasks. They are retained because
// their stacks have grown.
const parkedAtMost = 64

// parkTime is how long a parked goroutine waits.
const parkTime = time.Second

// reserve reserves room for t, before its payload is copied. It never waits.
func (l *lane) reserve(t *task) room {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reserveLocked(t)
}

// reserveTaken is reserve for a task whose cost was taken from the account before.
func (l *lane) reserveTaken(t *task) room {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken += t.cost()
	r := l.reserveLocked(t)
	if r != reserved {
		l.trim()
	}
	return r
}

// unreserve releases the room of t, which was not pushed.
func (l *lane) unreserve(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncharge(t.cost(), t.callback)
	if t.waits {
		l.requests--
		l.weighs -= t.weight()
	} else {
		l.queued -= t.weight()
	}
}

func (l *lane) reserveLocked(t *task) room {
	if t.waits {
		if l.requests+l.running >= l.pending+l.most { // a request that may start counts as running
			return lineFull
		}
		if l.weighs > 0 && l.weighs+t.weight() > l.weight || !l.mayRest() {
			return lineFull
		}
		if !l.charge(t) {
			return processFull
		}
		l.requests++
		l.weighs += t.weight()
		return reserved
	}
	if l.queued > 0 && l.queued+t.weight() > l.bytes || !l.charge(t) {
		return lineFull
	}
	l.queued += t.weight()
	return reserved
}

// push queues t, which has its room reserved. ahead reports whether the reader must call catchUp.
func (l *lane) push(t *task) (ahead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, t)
	l.unstarted += int(t.cost())
	l.wake()
	return l.lags()
}

// runnable reports whether the first task in the queue may run. The lock is held.
func (l *lane) runnable() bool {
	if l.head == len(l.queue) || l.notifying {
		return false
	}
	t := l.queue[l.head]
	return !t.waits || l.running < l.most && l.mayAnswer(t)
}

// expect decides how many bytes the response to t probably has. Many requests of a method may be
// queued before its first response, so that it is decided again each time. The lock is held.
func (l *lane) expect(t *task) {
	if t.recent == nil {
		return
	}
	// messages behind a request that is InOrder would wait too
	t.expects, t.first = t.recent.Get(), t.recent.IsNew() && t.job.mode&InOrder == 0
	if (t.first || t.expects > 0) && l.calls != nil && l.calls() {
		t.expects, t.first = 0, false
	}
}

// mayAnswer reports whether there is memory for the response to t. A short request may have a long
// one, so the requests that were read do not run while the peer does not read the responses. While
// all connections hold too many, or a batch of this one that still runs, requests start at
// intervals: what runs may wait for one of them. So do requests of methods with long responses
// while many of these are being made, and for a moment many of a method that has not responded yet.
// The lock is held.
func (l *lane) mayAnswer(t *task) bool {
	switch {
	case l.unread == nil:
		return true
	case l.unread.heavy.Load(), l.unsent.Load() >= unreadBytes, l.unsent.Load() >= scarceBytes && unreadIsScarce():
		return false
	}
	l.expect(t)
	wait := l.interval(t.expects)
	if wait <= 0 && t.expects > 0 && l.overdraws(t.expects) {
		wait = min(budget.LongResponses.Wait(), startStep) // others may be read soon
	}
	if wait <= 0 && t.first {
		wait = t.recent.WaitNew()
	}
	return l.mayNow(wait)
}

// mayNow reports whether wait is zero. If it is not, resume is called when it is over. The lock is
// held.
func (l *lane) mayNow(wait time.Duration) bool {
	if wait > 0 && !l.later {
		l.later = true
		time.AfterFunc(wait, l.resume)
	}
	return wait <= 0
}

// draw counts t at the bounds that all connections share, and reports whether t may start. Others
// may have used what was free when mayAnswer was called. The lock is held.
func (l *lane) draw(t *task) bool {
	switch {
	case !t.waits:
	case t.first:
		return l.mayNow(t.recent.StartNew())
	case t.expects > 0:
		l.count(t.expects)
		if l.overdraws(0) && !l.mayNow(min(budget.LongResponses.Take(t.expects), startStep)) {
			l.count(-t.expects)
			return false
		}
	}
	return true
}

// interval returns how long another request waits because some run, and there are too many
// responses. The lock is held.
func (l *lane) interval(expects int64) time.Duration {
	if l.running <= 0 {
		return 0
	}
	step := time.Duration(0)
	if l.isFull() {
		step = startStep
	}
	if expects > 0 && l.expectsTooMuch(expects) {
		step = longStep
	}
	if step == 0 {
		return 0
	}
	return step - time.Since(l.started)
}

// overdraws reports whether responses that probably have n bytes more have to wait for
// budget.LongResponses: all connections hold more than mostHeld (what is only expected counts half,
// because few handlers respond at the same time), and the peer has not earned it by reading. The
// lock is held.
func (l *lane) overdraws(n int64) bool {
	unread, expected := budget.Unread.Load(), budget.Expected.Load()+n
	all := unread + expected
	return unread+expected/2 > mostHeld && (all > mostEarned || l.expected.Load()+n > l.unread.taken.Load()/earnedOf)
}

// end is called when the response of a request is made, or will not be: its real length counts from
// here on.
func (l *lane) end(t *task) {
	l.count(-t.expects)
	if t.first {
		t.recent.EndNew()
	}
}

// isFull reports whether requests start at intervals.
func (l *lane) isFull() bool {
	n := l.partial.Load()
	return unreadIsFull() || n >= unreadBytes || n >= scarceBytes && unreadIsScarce()
}

// longResponse is the size from which a response counts before it is queued, in bytes.
const longResponse = budget.LongResponse

// expectsTooMuch reports whether a request whose response probably has n bytes has to wait for its
// interval. A peer that reads may have more responses made at once the more it has read, so that
// only peers that have read little or nothing are delayed.
func (l *lane) expectsTooMuch(n int64) bool {
	all := budget.Unread.Load() + budget.Expected.Load() + n
	own := leastEarned + l.unread.taken.Load()/earnedOf
	return all > mostExpected && (all > mostEarned || l.expected.Load()+n > own)
}

// count counts n bytes of responses that running requests will probably make.
func (l *lane) count(n int64) {
	if n != 0 {
		l.expected.Add(n)
		budget.Expected.Add(n)
	}
}

// made counts n bytes of a response that will be queued. sent is its other half.
func (l *lane) made(n int64) {
	l.unsent.Add(n)
	budget.Unread.Add(n)
}

// sent reports whether the lane is laden no longer.
func (l *lane) sent(n int64) (light bool) {
	now := l.unsent.Add(-n)
	budget.Unread.Add(-n)
	l.nudge()
	return now < unreadBytes && now+n >= unreadBytes
}

// isLaden reports whether so many bytes of responses are made and not queued that no more requests
// are read.
func (l *lane) isLaden() bool { return l.unsent.Load() >= unreadBytes }

// madePart is made for a response of a batch that still runs: its peer cannot read it yet. sentPart
// is its other half.
func (l *lane) madePart(n int64) {
	l.partial.Add(n)
	budget.Unread.Add(n)
}

func (l *lane) sentPart(n int64) {
	l.madePart(-n)
	l.nudge()
}

// nudge wakes a goroutine after a response that prevented others counts no longer. The goroutine of
// its handler may have other things to do first.
func (l *lane) nudge() {
	l.mu.Lock()
	l.wake()
	l.mu.Unlock()
}

// resume wakes a goroutine after the peer has read its responses, or after the interval.
func (l *lane) resume() {
	l.mu.Lock()
	l.later = false
	l.wake()
	l.mu.Unlock()
}

// next removes and returns the first task in the queue, if it may run. The lock is held.
func (l *lane) next() *task {
	if !l.runnable() || !l.draw(l.queue[l.head]) {
		l.rouse()
		return nil
	}
	t := l.queue[l.head]
	l.queue[l.head] = nil
	if l.head++; l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
		if cap(l.queue) > 256 {
			l.queue = nil
		}
	}
	if t.waits {
		l.requests--
		l.running++
		if t.recent != nil {
			t.job.run.expects = t.expects
		}
		if t.expects > 0 || l.isFull() {
			l.started = time.Now()
		}
	} else {
		l.queued -= t.weight()
	}
	l.notifying = t.ordered
	l.unstarted -= int(t.cost())
	l.rouse()
	return t
}

// rouse lets the reader go on if it waits in catchUp without need. The lock is held.
func (l *lane) rouse() {
	if l.ahead && !l.lags() {
		l.ahead = false
		signal(l.caughtUp)
	}
}

// unstartedCost returns the cost of the tasks that have not started.
func (l *lane) unstartedCost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unstarted
}

// lagBytes is how far the reader may be ahead of the goroutines that could run the tasks.
const lagBytes = 128 << 10

// lags reports whether more than lagBytes of queued tasks only wait for a processor. The lock is
// held.
func (l *lane) lags() bool { return l.unstarted > lagBytes && l.runnable() }

// catchUp waits until the runnable tasks have started, or wait for something else: a reader that is
// faster than the handlers would only fill the memory. It never waits for a handler.
func (l *lane) catchUp() {
	l.mu.Lock()
	for l.lags() && !l.closed {
		if l.caughtUp == nil {
			l.caughtUp = make(chan struct{}, 1)
		}
		l.ahead = true
		l.mu.Unlock()
		<-l.caughtUp
		l.mu.Lock()
	}
	l.mu.Unlock()
}

// wake makes one goroutine check the queue, unless one was woken already or no task is runnable.
// The lock is held.
func (l *lane) wake() {
	if l.waking || !l.runnable() {
		return
	}
	l.waking, l.used = true, true
	if n := len(l.parked); n > 0 {
		l.parked[n-1] <- struct{}{} // does not block: the capacity is 1 and the channel is empty
		l.parked = l.parked[:n-1]
		return
	}
	l.workers.Go(l.work)
}

// work runs tasks until none is left, and then waits for more for a while.
func (l *lane) work() {
	var woken chan struct{}
	l.mu.Lock()
	l.waking = false
	for {
		t := l.next()
		if t == nil {
			if l.closed || len(l.parked) >= parkedAtMost {
				break
			}
			if woken == nil {
				woken = make(chan struct{}, 1)
			}
			if l.parked = append(l.parked, woken); len(l.parked) == 1 {
				l.arm()
			}
			l.mu.Unlock()
			_, more := <-woken
			l.mu.Lock()
			if !more {
				break
			}
			l.waking = false
			continue
		}
		l.wake()
		l.mu.Unlock()
		waits, weight, cost, callback := t.waits, t.weight(), t.cost(), t.callback
		l.run(t) // t may be reused afterwards
		l.mu.Lock()
		l.uncharge(cost, callback)
		if waits {
			l.running--
			l.weighs -= weight
		}
	}
	l.mu.Unlock()
}

// arm sets the timer that ends parked goroutines. The lock is held.
func (l *lane) arm() {
	l.used = false
	if l.retire == nil {
		l.retire = time.AfterFunc(parkTime, l.goHome)
	} else {
		l.retire.Reset(parkTime)
	}
}

func (l *lane) goHome() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.parked) == 0 {
		return
	}
	if l.used && !l.closed {
		l.arm()
		return
	}
	for _, c := range l.parked {
		close(c)
	}
	l.parked = nil
}

// pass lets the tasks after an ordered one start. The goroutine that ran the ordered one calls it
// once.
func (l *lane) pass() {
	l.mu.Lock()
	l.notifying = false
	l.wake()
	l.mu.Unlock()
}

// leave frees the place of a handler that waits for its peer, unless too many handlers wait. enter
// takes it back without waiting. expects is that of its task.
func (l *lane) leave(expects int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rest() {
		return false
	}
	l.resting++
	l.running--
	l.count(-expects)
	l.wake()
	return true
}

func (l *lane) enter(expects int64) {
	l.mu.Lock()
	l.count(expects)
	l.running++
	l.resting--
	l.resters.Give(1)
	l.rouse()
	l.mu.Unlock()
}

// drop removes all tasks that have not started, and calls f for each.
func (l *lane) drop(f func(*task)) {
	l.mu.Lock()
	left := l.queue[l.head:]
	l.queue, l.head, l.requests, l.queued, l.unstarted = nil, 0, 0, 0, 0
	for _, t := range left {
		l.uncharge(t.cost(), t.callback)
	}
	l.mu.Unlock()
	for _, t := range left {
		f(t)
	}
}

// wait waits for all tasks and goroutines, at most d. It reports whether all have finished.
func (l *lane) wait(d time.Duration) bool {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.parked {
		close(c)
	}
	l.parked = nil
	if l.retire != nil {
		l.retire.Stop()
	}
	l.mu.Unlock()
	if d < 0 {
		l.workers.Wait()
		return true
	}
	return grace.Wait(&l.workers, d)
}
