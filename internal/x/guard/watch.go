package guard

import (
	"net/http"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress"
)

// A Watch ends reads and writes that take too long, accurate to one second. Setting a deadline
// costs about 0.3 us, and one request needs three, which is more than the rest of a response costs.
// Nearly all requests complete at once, so a Watch instead checks once per second for those that do
// not. It ticks only while there are any. The zero Watch is ready for use.
type Watch struct {
	// guards what is below; held for no I/O but setting a deadline in the past, which interrupts
	mu    sync.Mutex
	first *Watched
	now   int64 // ticks
	timer *time.Timer
	armed bool
}

// A Watched is one read or write under way.
type Watched struct {
	next, prev *Watched
	watch      *Watch
	to         http.ResponseWriter
	control    http.ResponseController
	d          time.Duration
	until      int64
	write      bool
	late       bool
}

var spare = sync.Pool{New: func() any { return new(Watched) }}

const tick = time.Second

// Write runs write, which must not take longer than d but for what it writes with Body.
func (w *Watch) Write(to http.ResponseWriter, d time.Duration, write func(*Watched)) {
	e := w.begin(to, d, true)
	write(e)
	w.end(e)
}

// Body writes p and flushes it; the deadline of the Write applies to each piece. Errors are
// dropped, because they mean that the client is gone.
func (e *Watched) Body(p []byte) {
	if len(p) <= progress.Piece {
		_, _ = e.to.Write(p)
	} else if _, err := progress.Write(e.to, p, e.renew); err != nil {
		return
	}
	_ = e.control.Flush() // now, while it is watched
}

// renew gives the write its whole time again.
func (e *Watched) renew() error {
	w := e.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.late {
		e.until = w.untilIn(e.d)
	}
	return nil
}

// untilIn is the tick that ends d. The lock is held.
func (w *Watch) untilIn(d time.Duration) int64 {
	return w.now + int64((d+tick-1)/tick) + 1 // this tick has begun already
}

func (w *Watch) begin(to http.ResponseWriter, d time.Duration, write bool) *Watched {
	e := spare.Get().(*Watched)
	e.control = *http.NewResponseController(to)
	e.watch, e.to, e.d, e.write = w, to, d, write
	w.mu.Lock()
	defer w.mu.Unlock()
	e.until = w.untilIn(d)
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
func (w *Watch) end(e *Watched) {
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
		e.set(time.Time{}) // the operation may have completed in time nevertheless
	}
	*e = Watched{}
	spare.Put(e)
}

// set sets the deadline of the read or the write. If the connection does not support deadlines, the
// server's own limits apply.
func (e *Watched) set(at time.Time) {
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
