package transporttest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// ErrSilence is what a read on a [Tape] returns where a real connection would wait for the peer.
var ErrSilence = errors.New("transporttest: nothing more was sent")

// A Tape is a net.Conn without a peer: Read plays what was put on it and Write records. It never waits, so that
// what a transport does with each byte is seen without timers. It is safe for concurrent use.
type Tape struct {
	mu     sync.Mutex // guards what follows
	chunks [][]byte   // one Read takes at most one
	end    error
	writes [][]byte
	closed bool
}

// Play makes a Tape whose reads return the chunks, at most one in each, and then end.
func Play(end error, chunks ...[]byte) *Tape {
	return &Tape{end: end, chunks: chunks}
}

// Split cuts data into chunks of n bytes, and a rest.
func Split(data []byte, n int) [][]byte {
	var chunks [][]byte
	for n < len(data) {
		chunks = append(chunks, data[:n])
		data = data[n:]
	}
	return append(chunks, data)
}

// Read returns what is left of the next chunk, as far as it fits.
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

// Writes returns what was written, a slice for each call of Write.
func (t *Tape) Writes() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

// Written returns all that was written.
func (t *Tape) Written() []byte { return bytes.Join(t.Writes(), nil) }

// Close makes every later Read and Write fail.
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

// The rest of net.Conn: a Tape has no address, and it never waits.

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
