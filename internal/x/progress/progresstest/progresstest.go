// Package progresstest has a slow peer for tests of writes, under testing/synctest.
package progresstest

import (
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// A Peer takes Rate bytes a second, in steps of a tenth of a second, and none after Most bytes if
// that is set. It is the other end of a net.Conn or of a response to an HTTP request. Make it with
// New.
type Peer struct {
	net.Conn // nil: what a Peer has not is not called

	Rate, Most int

	mu       sync.Mutex
	header   http.Header
	deadline time.Time
	taken    int
	last     time.Time // when it took something
	closed   chan struct{}
	once     sync.Once
}

// New makes a Peer.
func New(rate, most int) *Peer {
	return &Peer{Rate: rate, Most: most, header: http.Header{}, closed: make(chan struct{}), last: time.Now()}
}

// Write takes all of b, or fails when the deadline has passed.
func (p *Peer) Write(b []byte) (int, error) {
	left := len(b)
	for left > 0 {
		select {
		case <-p.closed:
			return len(b) - left, net.ErrClosed
		case <-time.After(time.Second / 10):
		}
		p.mu.Lock()
		late := !p.deadline.IsZero() && !time.Now().Before(p.deadline)
		n := min(left, p.Rate/10)
		if p.Most > 0 {
			n = min(n, p.Most-p.taken)
		}
		if !late && n > 0 {
			p.taken += n
			p.last = time.Now()
			left -= n
		}
		p.mu.Unlock()
		if late {
			return len(b) - left, os.ErrDeadlineExceeded
		}
	}
	return len(b), nil
}

// Taken returns how many bytes the Peer has taken, and how long ago it took the last ones.
func (p *Peer) Taken() (int, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken, time.Since(p.last)
}

// SetWriteDeadline also ends a Write under way.
func (p *Peer) SetWriteDeadline(at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = at
	return nil
}

// SetReadDeadline does nothing.
func (p *Peer) SetReadDeadline(time.Time) error { return nil }

// Read waits for Close.
func (p *Peer) Read([]byte) (int, error) {
	<-p.closed
	return 0, io.EOF
}

// Close ends Read and Write.
func (p *Peer) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Header implements http.ResponseWriter.
func (p *Peer) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *Peer) WriteHeader(int) {}

// Flush implements http.Flusher.
func (p *Peer) Flush() {}
