package stream

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// maxHint is the longest buffer that a source begins with because the last message was long.
const maxHint = 1 << 20

// source holds the bytes that were read and not yet used, and reads more.
type source struct {
	r   io.Reader
	raw *rawConn // waits for bytes without a buffer; nil where that cannot be done

	buf        *buffer // nil while nothing is held
	start, end int     // what is held lies in buf.b[start:end]
	hint       int     // how long the next buffer should be
	high       int     // the most that this buffer held

	timeout time.Duration // from the first byte of a message to the last; 0: none
	armed   bool
	watch   stopwatch
}

func (s *source) init(r io.Reader, timeout time.Duration, abort func()) {
	s.r, s.timeout = r, timeout
	s.watch.abort = abort
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Time{}) == nil {
		s.watch.set = d.SetReadDeadline
		s.raw = newRawConn(r)
	}
}

// bytes is what was read and not yet used.
func (s *source) bytes() []byte {
	if s.buf == nil {
		return nil
	}
	return s.buf.b[s.start:s.end]
}

// use marks n bytes as done with. They stay where they are until the next fill.
func (s *source) use(n int) { s.start += n }

// passed tells that a message has come to its end: the next one gets its own time.
func (s *source) passed() {
	if s.armed {
		s.armed = false
		s.watch.disarm()
	}
}

// fill waits for more bytes. within: some bytes of this message were used already.
func (s *source) fill(within bool) error {
	if s.timeout > 0 && !s.armed && (within || s.start < s.end) {
		s.armed = true
		s.watch.arm(s.timeout)
	}
	s.room()
	n, err := s.read()
	s.end += n
	s.high = max(s.high, s.end)
	if n > 0 {
		return nil // an error with bytes comes again
	}
	s.release()
	return err
}

// room makes place behind what is held: it moves to the front, or into a longer buffer.
func (s *source) room() {
	if s.start == s.end {
		s.start, s.end = 0, 0
		if s.buf != nil && s.high == len(s.buf.b) && s.high < largeBuffer {
			s.release() // there was more than this one takes
		}
		return
	}
	b := s.buf.b
	if s.start > 0 {
		s.end = copy(b, b[s.start:s.end])
		s.start = 0
	}
	if s.end < len(b) {
		return
	}
	longer := newBuffer(max(2*len(b), largeBuffer))
	copy(longer.b, b)
	s.buf.free()
	s.buf = longer
}

// borrow gets a buffer where none is held.
func (s *source) borrow(n int) {
	if s.buf == nil {
		s.buf, s.high = newBuffer(n), 0
	}
}

// release gives the buffer back if nothing is held, and remembers how long it should have been.
func (s *source) release() {
	if s.buf == nil || s.start < s.end {
		return
	}
	switch n := len(s.buf.b); {
	case s.high == n:
		s.hint = min(max(2*n, largeBuffer), maxHint)
	case s.high <= n/4:
		s.hint = n / 4
	default:
		s.hint = min(n, maxHint)
	}
	s.buf.free()
	s.buf, s.start, s.end = nil, 0, 0
}

// read puts what arrives behind what is held.
func (s *source) read() (int, error) {
	if s.raw != nil {
		return s.raw.read(s)
	}
	if s.start == s.end {
		s.release() // what waits here holds no more than a small buffer
		s.borrow(smallBuffer)
	}
	for range 100 {
		n, err := s.r.Read(s.buf.b[s.end:])
		if n != 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// late reports whether err is the end of a message's time.
func (s *source) late(err error) bool { return s.armed && s.watch.late(err) }

// stop ends a timer that runs, from Close.
func (s *source) stop() { s.watch.stop() }

// A stopwatch ends a read or a write by a deadline, or by closing what has none.
type stopwatch struct {
	set   func(time.Time) error // nil: there are no deadlines
	abort func()
	timer atomic.Pointer[time.Timer]
	fired atomic.Bool
}

func (w *stopwatch) arm(d time.Duration) {
	if w.set != nil && w.set(time.Now().Add(d)) == nil {
		return
	}
	w.timer.Store(time.AfterFunc(d, func() {
		w.fired.Store(true)
		w.abort()
	}))
}

func (w *stopwatch) disarm() {
	if w.set != nil {
		_ = w.set(time.Time{}) // a closed stream says so itself
	}
	w.stop()
}

func (w *stopwatch) stop() {
	if timer := w.timer.Load(); timer != nil {
		timer.Stop()
	}
}

func (w *stopwatch) late(err error) bool {
	return w.fired.Load() || errors.Is(err, os.ErrDeadlineExceeded)
}
