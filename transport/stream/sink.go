package stream

import (
	"io"
	"time"
)

// sink writes, and gives up on a peer that does not read.
type sink struct {
	w       io.Writer
	raw     *rawConn // writes what fits without waiting; nil where that cannot be done
	timeout time.Duration
	watch   stopwatch
}

func (s *sink) init(w io.Writer, timeout time.Duration, abort func()) {
	s.w, s.timeout = w, timeout
	s.watch.abort = abort
	if d, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok && d.SetWriteDeadline(time.Time{}) == nil {
		s.watch.set = d.SetWriteDeadline
		s.raw = newRawConn(w)
	}
}

// send writes all of p. Nearly always it fits into the kernel's buffer at once: no deadline is set for that.
func (s *sink) send(p []byte) error {
	if s.raw != nil {
		n, err := s.raw.write(p)
		if err != nil || n == len(p) {
			return err
		}
		p = p[n:]
	}
	if s.timeout > 0 {
		s.watch.arm(s.timeout)
		defer s.watch.disarm()
	}
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// late reports whether err is the end of a write's time.
func (s *sink) late(err error) bool { return s.watch.late(err) }
