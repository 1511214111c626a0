package jsonrpc

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// A waiter is a call that waits. It is reused; whoever takes it out of the table owns it until it is done.
type waiter struct {
	id      ID
	ready   chan struct{} // holds one; a stale signal is possible, so done decides
	done    atomic.Bool
	fail    error // our own reason for the end
	peer    *Error
	result  []byte
	timed   bool // has a deadline
	streams bool // wants the notifications about it
	alone   bool // no other call waited when it began

	// Guarded by the Asker's mu.
	waiting bool   // is in the table
	order   uint64 // counts the calls
	touched int64
	events  []*Request
}

func (w *waiter) signal() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// finish wakes the caller for the last time. The waiter is the caller's then.
func (w *waiter) finish() {
	w.done.Store(true)
	w.signal()
}

// spareWaiter returns a waiter to use. The lock is held.
func (k *Asker) spareWaiter() *waiter {
	if n := len(k.spare); n > 0 {
		w := k.spare[n-1]
		k.spare = k.spare[:n-1]
		return w
	}
	return &waiter{ready: make(chan struct{}, 1)}
}

// free takes a waiter back that nobody else knows any more.
func (k *Asker) free(w *waiter) {
	if cap(w.result) > keptWhenIdle {
		w.result = nil
	}
	poison(w.result)
	w.id, w.fail, w.peer, w.events = ID{}, nil, nil, nil
	w.done.Store(false)
	select {
	case <-w.ready:
	default:
	}
	k.mu.Lock()
	if len(k.spare) < sparesAtMost {
		k.spare = append(k.spare, w)
	}
	k.mu.Unlock()
}

// place puts w into the ring, under the next number whose slot is free. The lock is held.
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
	return k.others[StringID(textOf([]byte(id.s)))] // the same string in other letters: some peers escape what is not ASCII
}

// remove takes w out of the table. The lock is held.
func (k *Asker) remove(w *waiter) {
	if _, other := k.others[w.id]; other {
		delete(k.others, w.id)
	} else {
		k.ring[(w.id.n-1)&uint64(len(k.ring)-1)] = nil
	}
	w.waiting = false
	k.count--
}

// take removes w and reports whether it was still there; if not, somebody else is about to finish it.
func (k *Asker) take(w *waiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !w.waiting {
		return false
	}
	k.remove(w)
	return true
}

// waiting lists the calls that wait, oldest first. The lock is held.
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

// Pending returns the ids of the calls that wait, oldest first.
func (k *Asker) Pending() []ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ids []ID
	for _, w := range k.waiting() {
		ids = append(ids, w.id)
	}
	return ids
}
