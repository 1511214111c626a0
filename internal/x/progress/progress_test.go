package progress_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress"
	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
)

// A steady peer takes some bytes of each write until its deadline.
type steady struct {
	bytes.Buffer
	takes  int // of each write, at most; 0 after stops writes
	stops  int
	writes int
	sizes  []int
}

func (s *steady) Write(p []byte) (int, error) {
	s.writes++
	s.sizes = append(s.sizes, len(p))
	if s.stops > 0 && s.writes > s.stops {
		return 0, os.ErrDeadlineExceeded
	}
	n := min(len(p), s.takes)
	s.Buffer.Write(p[:n])
	if n < len(p) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

type secure struct{ *steady }

func (secure) ConnectionState() tls.ConnectionState { return tls.ConnectionState{} }

// TestProgressCounts: a write that passes its deadline is continued as long as something of it was
// taken, with a new deadline, and ends when nothing was.
func TestProgressCounts(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 16<<10) // 256 KiB
	renewed := 0
	renew := func() error { renewed++; return nil }
	s := &steady{takes: 3000}
	if err := progress.Burst(s, text, renew); err != nil || !bytes.Equal(s.Bytes(), text) {
		t.Errorf("slow and steady: %v after %d bytes", err, s.Len())
	}
	if renewed != s.writes {
		t.Errorf("%d writes, %d deadlines", s.writes, renewed)
	}
	s = &steady{takes: 3000, stops: 5}
	if err := progress.Burst(s, text, renew); err != os.ErrDeadlineExceeded || s.Len() != 5*3000 || s.writes != 6 {
		t.Errorf("a peer that stops: %v after %d bytes and %d writes", err, s.Len(), s.writes)
	}
	s = &steady{takes: 1 << 20}
	if err := progress.Burst(s, text, renew); err != nil || s.writes != 1 {
		t.Errorf("a fast peer: %v, %d writes", err, s.writes)
	}
	if n, err := progress.Write(&steady{takes: 10, stops: 2}, text, renew); n != 20 || err == nil {
		t.Errorf("Write = %d, %v", n, err)
	}
}

// TestTLSIsWrittenInRecords: a tls.Conn cannot continue a write that timed out, so each record has
// its own deadline.
func TestTLSIsWrittenInRecords(t *testing.T) {
	renewed := 0
	s := secure{&steady{takes: 1 << 20}}
	if err := progress.Burst(s, make([]byte, 100<<10), func() error { renewed++; return nil }); err != nil {
		t.Error(err)
	}
	if renewed != 7 || s.sizes[0] != 16<<10 || s.sizes[6] != 4<<10 {
		t.Errorf("%d deadlines, writes of %v", renewed, s.sizes)
	}
	var _ io.Writer = s
}

// TestStepsCountWhatIsTaken: what a slow and steady peer takes is counted at least twice a second,
// however little it is, and a peer that takes nothing has the whole time.
func TestStepsCountWhatIsTaken(t *testing.T) {
	for name, row := range map[string]struct {
		most int
		err  error
	}{"steady": {0, nil}, "stops": {30 << 10, os.ErrDeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := progresstest.New(10<<10, row.most)
				const size = 100 << 10 // ten seconds
				sum, last := 0, time.Now()
				err := progress.Steps(peer, make([]byte, size), 3*time.Second, peer.SetWriteDeadline, func(n int) {
					if since := time.Since(last); n <= 0 || since > time.Second/2 {
						t.Errorf("%d bytes are counted after %v", n, since)
					}
					sum, last = sum+n, time.Now()
				})
				want := size
				if row.most > 0 {
					want = row.most
				}
				if !errors.Is(err, row.err) || sum != want {
					t.Errorf("%d bytes were counted: %v", sum, err)
				}
				if silent := time.Since(last); row.most > 0 && (silent < 3*time.Second || silent > 3500*time.Millisecond) {
					t.Errorf("the end was %v after the last progress", silent)
				}
			})
		})
	}
}
