// Package progress writes to peers that may be slow: the time of a write is the time without
// progress, not that of all its bytes.
package progress

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Piece is how many bytes are written at once, at most. Each piece has its own time.
const Piece = 64 << 10

// record is the size of a piece over TLS: a tls.Conn makes a system call for each 16 KiB in any
// case, and fails for good when a write times out. A peer that is slow and steady takes one in
// time.
const record = 16 << 10

// Write writes p to w in pieces and calls renew before each: it sets the deadline anew. A write
// that passed its deadline is continued if some of it was taken. An error of renew ends the write.
func Write(w io.Writer, p []byte, renew func() error) (int, error) {
	return write(w, p, Piece, renew)
}

// Burst is Write for what has not been tried without waiting: up to 256 KiB are one write, as one
// system call is cheaper. Over TLS the pieces have 16 KiB.
func Burst(w io.Writer, p []byte, renew func() error) error {
	size := Piece
	if _, secure := w.(interface{ ConnectionState() tls.ConnectionState }); secure {
		size = record
	} else if len(p) <= 4*Piece {
		size = 4 * Piece
	}
	_, err := write(w, p, size, renew)
	return err
}

// Pieces is Write with pieces of at most size bytes.
func Pieces(w io.Writer, p []byte, size int, renew func() error) error {
	_, err := write(w, p, size, renew)
	return err
}

// step is the time after which Steps counts what was taken of a write.
const step = 250 * time.Millisecond

// Steps writes p to w, on which setDeadline sets the deadline of writes and which can continue
// after it. It calls taken with the number of bytes of each step, at least four times a second
// while the peer takes anything. If the peer takes nothing for the time d, it returns
// [os.ErrDeadlineExceeded]; zero or less means no bound.
func Steps(w io.Writer, p []byte, d time.Duration, setDeadline func(time.Time) error, taken func(n int)) error {
	moved := time.Now()
	for {
		wait := step
		if d > 0 {
			wait = min(wait, time.Until(moved.Add(d)))
		}
		if err := setDeadline(time.Now().Add(max(wait, time.Millisecond))); err != nil {
			return err
		}
		n, err := w.Write(p)
		if p = p[n:]; n > 0 {
			moved = time.Now()
			taken(n)
		}
		switch {
		case err == nil && len(p) > 0:
			return io.ErrShortWrite
		case err == nil, !errors.Is(err, os.ErrDeadlineExceeded), d > 0 && time.Since(moved) >= d:
			return err
		}
	}
}

func write(w io.Writer, p []byte, size int, renew func() error) (int, error) {
	done := 0
	for {
		if err := renew(); err != nil {
			return done, err
		}
		piece := p[done:min(done+size, len(p))]
		n, err := w.Write(piece)
		done += n
		switch {
		case err != nil && n > 0 && n < len(piece) && errors.Is(err, os.ErrDeadlineExceeded):
			// there was progress; where the error is final, the next write returns it
		case err != nil:
			return done, err
		case n < len(piece):
			return done, io.ErrShortWrite
		case done == len(p):
			return done, nil
		}
	}
}

// Respond writes p as the body of a response. Each piece has the time d. Where there are no
// deadlines the server's own limits hold.
func Respond(w http.ResponseWriter, d time.Duration, p []byte) error {
	control := http.NewResponseController(w)
	_, err := Write(w, p, func() error {
		_ = control.SetWriteDeadline(time.Now().Add(d))
		return nil
	})
	return err
}
