package jsonrpc

import (
	"sync"
	"time"
)

// A lane decides which handler of a Conn runs when: requests at once, up to a bound; notifications one at a time in wire
// order, and nothing that came after one before it is done.
//
// Its goroutines take one task after the other. Only one is woken at a time, and it wakes the next before it begins, if there
// is more to do: short handlers then share a few goroutines, while a slow one delays nobody.
type lane struct {
	run     func(*task)
	most    int // requests at once
	pending int // requests in line
	weight  int // bytes of requests in line and running
	bytes   int // of notifications in line

	mu        sync.Mutex // guards what follows
	queue     []*task
	head      int
	requests  int  // in line
	weighs    int  // bytes of those, and of those that run
	queued    int  // bytes of notifications in line
	running   int  // requests; those that wait for their peer do not count
	notifying bool // an ordered notification runs
	waking    bool // a goroutine was woken and has not looked yet
	parked    []chan struct{}
	retire    *time.Timer
	used      bool // since the timer was set
	closed    bool

	workers sync.WaitGroup
}

// A task is one payload for a handler.
type task struct {
	job     *job
	batch   *batchRun
	ordered bool // notifications: nothing may overtake it
	waits   bool // a request, or a batch: counts as one that runs
	size    int
}

// parkedAtMost is how many goroutines wait for more to do. Their grown stacks make them worth keeping.
const parkedAtMost = 64

// parkTime is how long they wait.
const parkTime = time.Second

// push puts t in line. It reports false when the line is full. It never waits.
func (l *lane) push(t *task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waits {
		if l.requests+l.running >= l.pending+l.most { // what may run counts as if it ran already
			return false
		}
		if l.weighs > 0 && l.weighs+t.size > l.weight {
			return false
		}
		l.requests++
		l.weighs += t.size
	} else {
		if l.queued > 0 && l.queued+t.size > l.bytes {
			return false
		}
		l.queued += t.size
	}
	l.queue = append(l.queue, t)
	l.wake()
	return true
}

// runnable reports whether the task at the head of the line may run. The lock is held.
func (l *lane) runnable() bool {
	return l.head < len(l.queue) && !l.notifying && (!l.queue[l.head].waits || l.running < l.most)
}

// next takes the task at the head of the line, if it may run. The lock is held.
func (l *lane) next() *task {
	if !l.runnable() {
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
	} else {
		l.queued -= t.size
	}
	l.notifying = t.ordered
	return t
}

// wake sends a goroutine to look at the line, unless one is on its way or there is nothing to do. The lock is held.
func (l *lane) wake() {
	if l.waking || !l.runnable() {
		return
	}
	l.waking, l.used = true, true
	if n := len(l.parked); n > 0 {
		l.parked[n-1] <- struct{}{} // holds one, and is empty
		l.parked = l.parked[:n-1]
		return
	}
	l.workers.Go(l.work)
}

// work runs tasks for as long as there are any, and waits a while for more.
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
		waits, size := t.waits, t.size
		l.run(t) // t may be in use again afterwards
		l.mu.Lock()
		if waits {
			l.running--
			l.weighs -= size
		}
	}
	l.mu.Unlock()
}

// arm sets the timer that sends parked goroutines home. The lock is held.
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

// pass lets go on what waits behind an ordered task. Whoever runs one calls it, once.
func (l *lane) pass() {
	l.mu.Lock()
	l.notifying = false
	l.wake()
	l.mu.Unlock()
}

// leave frees the place of a handler that waits for its peer; enter takes it back without waiting.
func (l *lane) leave() {
	l.mu.Lock()
	l.running--
	l.wake()
	l.mu.Unlock()
}

func (l *lane) enter() {
	l.mu.Lock()
	l.running++
	l.mu.Unlock()
}

// drop takes everything out of line that has not started, and hands it to f.
func (l *lane) drop(f func(*task)) {
	l.mu.Lock()
	left := l.queue[l.head:]
	l.queue, l.head, l.requests, l.queued = nil, 0, 0, 0
	l.mu.Unlock()
	for _, t := range left {
		f(t)
	}
}

// wait returns when everything has run and all goroutines are gone.
func (l *lane) wait() {
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
	l.workers.Wait()
}
