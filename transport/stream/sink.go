package stream

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress"
)

// sink writes to the stream, with a bound for a peer that does not read.
type sink struct {
	w       io.Writer
	raw     *rawConn // writes without waiting; nil where that is not possible
	timeout time.Duration
	watch   stopwatch
	taken   atomic.Uint64 // bytes of writes that had to wait, about
	last    atomic.Bool   // the peer sends nothing more: it may read slowly, but not stop
}

func (s *sink) init(w io.Writer, timeout time.Duration, abort func()) {
	s.w, s.timeout = w, timeout
	s.watch.abort = abort
	if d, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok && d.SetWriteDeadline(time.Time{}) == nil {
		s.watch.set = d.SetWriteDeadline
		s.raw = newRawConn(w)
	}
}

// send writes all of p. Nearly always it fits into the kernel's buffer at once: no deadline is set
// for that.
func (s *sink) send(p []byte) error {
	if s.raw != nil {
		n, err := s.raw.write(p)
		if err != nil || n == len(p) {
			return err
		}
		p = p[n:]
	}
	if s.raw != nil {
		defer s.watch.disarm()
		return progress.Steps(s.w, p, s.timeout, s.watch.set, s.took)
	}
	if s.timeout > 0 {
		defer s.watch.disarm()
	}
	if s.last.Load() {
		return progress.Pieces(s.w, p, lastPiece, s.renew)
	}
	return progress.Burst(s.w, p, s.renew)
}

// lastPiece is the size of the pieces for a peer that sends nothing more, where only a whole piece
// shows that the peer reads. See cutIfStuck in jsonrpc/conn.go.
const lastPiece = 4 << 10

// took counts n bytes that the peer has taken.
func (s *sink) took(n int) { s.taken.Add(uint64(n)) }

// renew gives the next piece its time.
func (s *sink) renew() error {
	if s.timeout > 0 {
		s.watch.stop()
		s.watch.arm(s.timeout)
	}
	s.taken.Add(lastPiece)
	return nil
}

// late reports whether err is the end of a write's time.
func (s *sink) late(err error) bool { return s.watch.late(err) }
