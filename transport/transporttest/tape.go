package transporttest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// ErrSilence is the error of a read on a [Tape] where a real connection would wait for the peer.
var ErrSilence = errors.New("transporttest: nothing more was sent")

// A Tape is a net.Conn without a peer: Read returns its chunks and Write records. It never waits,
// so that a test can check what a transport does with each byte without timers. It is safe for
// concurrent use.
type Tape struct {
	mu     sync.Mutex // guards the fields below
	chunks [][]byte   // one Read returns at most one
	end    error
	writes [][]byte
	closed bool
}

// Play returns a Tape whose reads return the chunks, at most one per Read, and then the error end.
func Play(end error, chunks ...[]byte) *Tape {
	return &Tape{end: end, chunks: chunks}
}

// Split cuts data into chunks of n bytes; the last one may be shorter.
func Split(data []byte, n int) [][]byte {
	var chunks [][]byte
	for n < len(data) {
		chunks = append(chunks, data[:n])
		data = data[n:]
	}
	return append(chunks, data)
}

// Read returns the rest of the next chunk, up to the length of p.
func (t *Tape) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, net.ErrClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	for len(t.chunks) > 0 {
		n := copy(p, t.chunks[0])
		if t.chunks[0] = t.chunks[0][n:]; len(t.chunks[0]) == 0 {
			t.chunks = t.chunks[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, t.end
}

// Write records p as one write.
func (t *Tape) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, net.ErrClosed
	}
	t.writes = append(t.writes, bytes.Clone(p))
	return len(p), nil
}

// Writes returns the written bytes, one slice for each call of Write.
func (t *Tape) Writes() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

// Written returns all written bytes.
func (t *Tape) Written() []byte { return bytes.Join(t.Writes(), nil) }

// Close closes the Tape: every later Read and Write fails.
func (t *Tape) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return nil
}

// Closed reports whether Close was called.
func (t *Tape) Closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// These methods complete net.Conn: a Tape has no address, and never waits.

func (t *Tape) LocalAddr() net.Addr              { return tapeAddr{} }
func (t *Tape) RemoteAddr() net.Addr             { return tapeAddr{} }
func (t *Tape) SetDeadline(time.Time) error      { return nil }
func (t *Tape) SetReadDeadline(time.Time) error  { return nil }
func (t *Tape) SetWriteDeadline(time.Time) error { return nil }

type tapeAddr struct{}

func (tapeAddr) Network() string { return "tape" }
func (tapeAddr) String() string  { return "tape" }

var _ interface {
	net.Conn
	io.ReadWriteCloser
} = (*Tape)(nil)
