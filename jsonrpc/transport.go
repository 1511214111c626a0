package jsonrpc

import (
	"iter"
	"slices"
)

// A Transport transfers payloads between two peers: each is one JSON text, a message or a batch.
// [Simple] makes one of three functions.
//
// One goroutine reads while another writes. Close may be called from any goroutine, more than once,
// and unblocks both.
type Transport interface {
	// Read returns the next payload, which is valid until the next Read. more reports whether
	// another complete payload can be read without waiting. Read returns io.EOF after the peer has
	// closed the connection. A *FrameError means that one payload was unusable; unless it is Final,
	// the next Read continues after it.
	Read() (payload []byte, more bool, err error)

	// Write sends all payloads of b in order, if possible in one system call. On an error the
	// transport is unusable. Write may change white space in b and does not retain b. If the peer
	// does not read, the transport's own timeout ends the Write.
	Write(b Burst) error

	// TryWrite is Write without waiting, for the reader goroutine and others that must not wait. It
	// reports whether all of b was sent. If false, a part of b may have been sent; the next Write
	// gets the same burst, sends the rest, and returns the error if there was one. It is always
	// correct to send nothing and return false. A type that wraps a Transport to inspect what is
	// written must implement TryWrite too.
	TryWrite(b Burst) bool

	// Close closes the transport and interrupts Read and Write. A closed transport cannot be used
	// again.
	Close() error
}

// A WriteCounter is a [Transport] that reports the progress of a Write. A Conn closes a peer that
// reads nothing for [Limits].OutWait while messages wait for room. Without a WriteCounter, only a
// complete Write counts as progress. A type that wraps a Transport must pass the number on: return
// WrittenBytes(inner).
type WriteCounter interface {
	// WrittenBytes returns the number of bytes written so far. The number never decreases.
	// WrittenBytes may be called at any time from any goroutine, and never waits.
	WrittenBytes() uint64
}

// WrittenBytes returns the number of bytes that t has written if it is a [WriteCounter], otherwise
// 0.
func WrittenBytes(t Transport) uint64 {
	if c, ok := t.(WriteCounter); ok {
		return c.WrittenBytes()
	}
	return 0
}

// A Burst is one or more payloads in one buffer, each followed by a newline. The newline is white
// space in JSON, so that a transport may send the bytes unchanged.
type Burst struct {
	Bytes []byte
	Ends  []int // the index after each payload and its newline
}

// All yields the payloads without their newlines.
func (b Burst) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		start := 0
		for _, end := range b.Ends {
			if !yield(b.Bytes[start : end-1 : end-1]) {
				return
			}
			start = end
		}
	}
}

// Add appends one payload to the burst. The payload is copied.
func (b *Burst) Add(payload []byte) {
	b.Bytes = append(append(slices.Grow(b.Bytes, len(payload)+1), payload...), '\n')
	b.Ends = append(b.Ends, len(b.Bytes))
}

// A FrameError is a payload that a [Transport] could not return: too long, truncated, or wrongly
// framed.
type FrameError struct {
	Answer *Error // the error response for the peer, with id null; nil sends nothing
	Final  bool   // the transport cannot continue after it
	Err    error  // the cause, for the log
}

func (e *FrameError) Error() string { return e.Err.Error() }
func (e *FrameError) Unwrap() error { return e.Err }
