package stream

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// source holds the bytes that were read and not yet used, and reads more.
type source struct {
	r   io.Reader
	raw *rawConn // waits for bytes without a buffer; nil where that is not possible

	buf        *buffer // nil while no bytes are held
	start, end int     // the bytes are in buf.b[start:end]
	hint       int     // size of the next buffer, at most largeBuffer: room.Hold never has more
	high       int     // maximum number of bytes in this buffer so far

	room  budget.Arrival // counts buf
	began time.Time      // when the timeout of the message began; later by the time it waited for room

	timeout time.Duration // from the first byte of a message to the last; 0 means no timeout
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

// bytes returns the bytes that were read and not yet used.
func (s *source) bytes() []byte {
	if s.buf == nil {
		return nil
	}
	return s.buf.b[s.start:s.end]
}

// use marks n bytes as used. They remain in the buffer until the next fill.
func (s *source) use(n int) { s.start += n }

// passed marks the end of a message: the next one gets its own timeout.
func (s *source) passed() {
	s.room.Passed()
	if s.armed {
		s.armed = false
		s.watch.disarm()
	}
}

// fill waits for more bytes. within reports that some bytes of this message were used already.
func (s *source) fill(within bool) error {
	if s.timeout > 0 && !s.armed && (within || s.start < s.end) {
		s.armed, s.began = true, time.Now()
		s.watch.arm(s.timeout)
	}
	if err := s.makeSpace(); err != nil {
		return err
	}
	n, err := s.read()
	s.end += n
	s.high = max(s.high, s.end)
	if n > 0 {
		return nil // an error with bytes is returned again by the next read
	}
	s.release()
	return err
}

// makeSpace frees space after the held bytes: they move to the front, or into a longer buffer.
func (s *source) makeSpace() error {
	if s.start == s.end {
		s.start, s.end = 0, 0
		if s.buf != nil && s.high == len(s.buf.b) && s.high < largeBuffer {
			s.release() // there was more than this buffer can hold
		}
		return nil
	}
	b := s.buf.b
	if s.start > 0 {
		s.end = copy(b, b[s.start:s.end])
		s.start = 0
	}
	if s.end < len(b) {
		return nil
	}
	size := 2 * len(b)
	if len(b) < largeBuffer {
		size = 4 * len(b)
	}
	if err := s.waitForRoom(size); err != nil {
		return err
	}
	longer := newBuffer(size)
	copy(longer.b, b)
	s.buf.free()
	s.buf = longer
	return nil
}

// waitForRoom waits until a buffer of the given size may be used. The time of the message stands
// still meanwhile.
func (s *source) waitForRoom(size int) error {
	if s.room.Hold(size) {
		return nil
	}
	if s.armed && s.watch.set == nil {
		s.watch.stop()
	}
	waited, err := s.room.Grow(size)
	if err == nil && s.armed && (waited > 0 || s.watch.set == nil) {
		s.began = s.began.Add(waited)
		s.watch.arm(max(time.Until(s.began.Add(s.timeout)), time.Millisecond))
	}
	return err
}

// borrow gets a buffer unless one is held.
func (s *source) borrow(n int) {
	if s.buf == nil {
		if _, size := pool(n); !s.room.Hold(size) {
			n = smallBuffer // needs no room
		}
		s.buf, s.high = newBuffer(n), 0
	}
}

// release frees the buffer if no bytes are held, and stores the size for the next one.
func (s *source) release() {
	if s.buf == nil || s.start < s.end {
		return
	}
	switch n := len(s.buf.b); {
	case s.high == n:
		s.hint = largeBuffer
	case s.high <= n/4:
		s.hint = min(n/4, largeBuffer)
	default:
		s.hint = min(n, largeBuffer)
	}
	s.buf.free()
	s.buf, s.start, s.end = nil, 0, 0
	s.room.Hold(0)
}

// read appends new bytes to the held ones.
func (s *source) read() (int, error) {
	if s.raw != nil {
		return s.raw.read(s)
	}
	if s.start == s.end {
		s.release() // while waiting here, the source holds at most a small buffer
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

// late reports whether err is an expired message timeout.
func (s *source) late(err error) bool { return s.armed && s.watch.late(err) }

// stop ends a running timer, for Close.
func (s *source) stop() {
	s.watch.over.Store(true)
	s.room.Close()
	s.watch.stop()
}

// A stopwatch ends a read or a write by a deadline, or by closing a stream without deadlines.
type stopwatch struct {
	set   func(time.Time) error // nil without deadlines
	abort func()
	timer atomic.Pointer[time.Timer]
	fired atomic.Bool
	over  atomic.Bool // after Close: a timer that is set now is stopped at once
}

func (w *stopwatch) arm(d time.Duration) {
	if w.set != nil && w.set(time.Now().Add(d)) == nil {
		return
	}
	w.timer.Store(time.AfterFunc(d, func() {
		defer rescue.Catch(nil, nil) // of a user's io.Closer
		w.fired.Store(true)
		w.abort()
	}))
	if w.over.Load() {
		w.stop()
	}
}

func (w *stopwatch) disarm() {
	if w.set != nil {
		_ = w.set(time.Time{}) // a closed stream returns its own error
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
