package jsonrpc

import "time"

// What waits for the callbacks of Streams is bounded by Limits.Events and Limits.EventBytes.
const (
	// how many times Limits.EventBytes all Streams of an Asker may hold together
	maxStreams = 8

	// how long the reader waits for room for one notification, so that a callback that is fast
	// does not lose to a reader that is faster. A callback that makes a call needs the reader
	maxStall = 100 * time.Millisecond
	// how long it waits for one Stream until nothing waits for that
	maxStalls = 10 * time.Second
)

// eventCost is what a notification that waits costs in bytes, about.
func eventCost(req *Request) int { return max(len(req.Params)+len(req.Method), messageCost) }

// push stores a notification for w. The lock is held.
func (k *Asker) push(w *waiter, req *Request, cost int) {
	if len(w.events) == 0 {
		w.stalls = 0
	}
	w.events = append(w.events, req.Clone())
	w.weighs += cost
	k.weighs += cost
}

// next takes the notification that has waited for longest; nil if none waits.
func (k *Asker) next(w *waiter) *Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(w.events) == 0 {
		return nil
	}
	req := w.events[0]
	w.events[0] = nil
	if w.events = w.events[1:]; len(w.events) == 0 {
		w.events = nil
	}
	w.weighs -= eventCost(req)
	k.weighs -= eventCost(req)
	if k.stalled == w {
		signal(k.room)
	}
	return req
}

// forget drops what waits for w. The lock is held.
func (k *Asker) forget(w *waiter) {
	k.weighs -= w.weighs
	w.events, w.weighs, w.stalls = nil, 0, 0
}

// heaviest returns the call for which most waits. The lock is held.
func (k *Asker) heaviest() (most *waiter) {
	for _, w := range k.waiting() {
		if most == nil || w.weighs > most.weighs {
			most = w
		}
	}
	return most
}

// full reports whether there is no room for a notification to w. The lock is held.
func (k *Asker) full(w *waiter, cost int) bool {
	return len(w.events) >= k.Limits.Events || w.weighs > 0 && w.weighs+cost > k.Limits.EventBytes
}

// awaitRoom waits until there is room for a notification to w, for maxStall at most, and reports
// whether w still waits for its response. The lock is held, and not while it waits.
func (k *Asker) awaitRoom(w *waiter, cost int) bool {
	order := w.order
	if k.room == nil {
		k.room = make(chan struct{}, 1)
	}
	begin := time.Now()
	timer := time.NewTimer(min(maxStall, maxStalls-w.stalls))
	defer timer.Stop()
	k.stalled = w
	late := false
	for w.waiting && w.order == order && k.full(w, cost) && !late {
		k.mu.Unlock()
		select {
		case <-k.room:
		case <-timer.C:
			late = true
		}
		k.mu.Lock()
	}
	k.stalled = nil
	if !w.waiting || w.order != order {
		return false
	}
	w.stalls += time.Since(begin)
	return true
}
