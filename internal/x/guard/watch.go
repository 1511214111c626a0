package guard

import (
	"net/http"
	"sync"
	"time"
)

// A Watch ends reads and writes that take too long, exact to a second. Setting a deadline costs about 0.3 us, and one request
// needs three: that is more than the rest of an answer costs us. Nearly all requests are done at once, so here
// a tick each second looks for those that are not. It ticks only while there are any. The zero Watch is ready for use.
type Watch struct {
	mu    sync.Mutex // guards what is below; held for no I/O but setting a deadline in the past, which interrupts
	first *watched
	now   int64 // ticks
	timer *time.Timer
	armed bool
}

// A watched is one read or write under way.
type watched struct {
	next, prev *watched
	control    http.ResponseController
	until      int64
	write      bool
	late       bool
}

var spare = sync.Pool{New: func() any { return new(watched) }}

const tick = time.Second

// Write runs write, which must not take longer than d.
func (w *Watch) Write(to http.ResponseWriter, d time.Duration, write func(*http.ResponseController)) {
	e := w.begin(to, d, true)
	write(&e.control)
	w.end(e)
}

func (w *Watch) begin(to http.ResponseWriter, d time.Duration, write bool) *watched {
	e := spare.Get().(*watched)
	e.control = *http.NewResponseController(to)
	e.write = write
	w.mu.Lock()
	defer w.mu.Unlock()
	e.until = w.now + int64((d+tick-1)/tick) + 1 // this tick has begun already
	if e.next = w.first; e.next != nil {
		e.next.prev = e
	}
	w.first = e
	if !w.armed {
		w.armed = true
		if w.timer == nil {
			w.timer = time.AfterFunc(tick, w.sweep)
		} else {
			w.timer.Reset(tick)
		}
	}
	return e
}

// end is the other half of begin.
func (w *Watch) end(e *watched) {
	w.mu.Lock()
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		w.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	w.mu.Unlock()
	if e.late {
		e.set(time.Time{}) // it may have come in time nevertheless
	}
	*e = watched{}
	spare.Put(e)
}

// set sets the deadline of the read or the write. Where there are none, the server's own limits hold.
func (e *watched) set(at time.Time) {
	if e.write {
		_ = e.control.SetWriteDeadline(at)
		return
	}
	_ = e.control.SetReadDeadline(at)
}

func (w *Watch) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now++
	if w.first == nil {
		w.armed = false
		return
	}
	for e := w.first; e != nil; e = e.next {
		if e.until <= w.now && !e.late {
			e.late = true
			e.set(time.Unix(1, 0))
		}
	}
	w.timer.Reset(tick)
}
