package jsonrpc

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// A waiter is a waiting call. It is reused. The goroutine that removes it from the table owns it
// until it is done.
type waiter struct {
	id      ID
	ready   chan struct{} // with capacity 1; a stale signal is possible, so done decides
	done    atomic.Bool
	fail    error // the failure of this side
	peer    *Error
	result  []byte
	timed   bool // has a deadline
	streams bool // the caller reads notifications about the call
	alone   bool // no other call waited when it began

	// Guarded by the Asker's mu.
	waiting bool      // in the table
	order   uint64    // the number of the call
	before  uint64    // the number of other messages sent before it began
	batch   *askBatch // the array of the call; nil for a single call
	touched int64
	events  []*Request    // notifications that on has not got
	weighs  int           // what they cost in bytes
	stalls  time.Duration // how long the reader waited for room since nothing waited
}

func (w *waiter) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// finish wakes the caller for the last time. The caller then owns the waiter.
func (w *waiter) finish() {
	w.done.Store(true)
	w.signal()
}

// spareWaiter returns an unused waiter. The lock is held.
func (k *Asker) spareWaiter() *waiter {
	if n := len(k.spare); n > 0 {
		w := k.spare[n-1]
		k.spare = k.spare[:n-1]
		return w
	}
	return &waiter{ready: make(chan struct{}, 1)}
}

// free recycles a waiter that is no longer used anywhere else.
func (k *Asker) free(w *waiter) {
	if cap(w.result) > keptWhenIdle {
		w.result = nil
	}
	poison(w.result)
	w.id, w.fail, w.peer = ID{}, nil, nil
	w.done.Store(false)
	select {
	case <-w.ready:
	default:
	}
	k.mu.Lock()
	k.forget(w)
	if len(k.spare) < sparesAtMost {
		k.spare = append(k.spare, w)
	}
	k.mu.Unlock()
}

// place adds w to the ring, under the next number whose slot is free. The lock is held.
func (k *Asker) place(w *waiter) {
	for {
		if k.count*2 >= len(k.ring) {
			k.grow()
		}
		k.last++
		slot := &k.ring[k.last&uint64(len(k.ring)-1)]
		id := ID{n: k.last + 1}
		if *slot != nil || k.others[id] != nil {
			continue
		}
		w.id, *slot = id, w
		return
	}
}

func (k *Asker) grow() {
	old := k.ring
	k.ring = make([]*waiter, max(16, 2*len(old)))
	for _, w := range old {
		if w != nil {
			k.ring[(w.id.n-1)&uint64(len(k.ring)-1)] = w
		}
	}
}

// find returns the call that waits for id, or nil. The lock is held.
func (k *Asker) find(id ID) *waiter {
	if id.n != 0 && len(k.ring) > 0 {
		if w := k.ring[(id.n-1)&uint64(len(k.ring)-1)]; w != nil && w.id == id {
			return w
		}
	}
	if w := k.others[id]; w != nil || len(id.s) < 2 || !isEscaped([]byte(id.s)) {
		return w
	}
	// the same string with other escapes: some peers escape text that is not ASCII
	return k.others[StringID(textOf([]byte(id.s)))]
}

// remove removes w from the table. The lock is held.
func (k *Asker) remove(w *waiter) {
	if _, other := k.others[w.id]; other {
		delete(k.others, w.id)
	} else {
		k.ring[(w.id.n-1)&uint64(len(k.ring)-1)] = nil
	}
	if b := w.batch; b != nil {
		w.batch = nil
		if b.left--; b.left == 0 {
			k.batches = slices.DeleteFunc(k.batches, func(other *askBatch) bool { return other == b })
		}
	}
	w.waiting = false
	k.count--
	if k.stalled == w {
		signal(k.room)
	}
}

// take removes w and reports whether it was still in the table; if not, another goroutine is about
// to finish it.
func (k *Asker) take(w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !w.waiting {
		return false
	}
	k.remove(w)
	return true
}

// giveUp is take for a call that was sent and whose response may still arrive.
func (k *Asker) giveUp(w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !w.waiting {
		return false
	}
	k.doubts.add(w.id)
	k.remove(w)
	return true
}

// waiting returns the waiting calls, oldest first. The lock is held.
func (k *Asker) waiting() []*waiter {
	var all []*waiter
	for _, w := range k.ring {
		if w != nil {
			all = append(all, w)
		}
	}
	for _, w := range k.others {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.order, b.order) })
	return all
}

// Pending returns the ids of the waiting calls, oldest first.
func (k *Asker) Pending() []ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []ID
	for _, w := range k.waiting() {
		ids = append(ids, w.id)
	}
	return ids
}
