package jsonrpc

import "iter"

// A Transport carries payloads between two peers: one JSON text each, a message or a batch.
//
// One goroutine reads while another writes; Close may come from anywhere, more than once, and unblocks both.
type Transport interface {
	// Read returns the next payload, which is valid until the next Read. more tells that another whole one can
	// be read without waiting. After the peer has hung up it returns io.EOF. A *FrameError says that one
	// payload was unusable; unless it is Final, the next Read goes on behind it.
	Read() (payload []byte, more bool, err error)

	// Write sends all payloads of b, in order and if possible in one system call, or breaks the transport for good. It may
	// change white space in b and keeps nothing of it. A peer that does not read ends it by the transport's own timeout.
	Write(b Burst) error

	// TryWrite is Write that never waits, for whoever must not: the goroutine that reads. It reports whether all of b is sent. If not, a part
	// of it may be; the next Write gets the same burst, sends what is left, and returns the error if there was one. It is
	// always right to send nothing and return false. A type that wraps a Transport to see what is written needs a TryWrite too.
	TryWrite(b Burst) bool

	// Close is the interrupt for both, and final.
	Close() error
}

// A Burst is one or more payloads that lie back to back, each with a newline behind it. The newline is
// white space in JSON, so that a transport may send the bytes as they are.
type Burst struct {
	Bytes []byte
	Ends  []int // where each payload ends, its newline included
}

// All yields the payloads without the newline behind each.
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
	b.Bytes = append(append(b.Bytes, payload...), '\n')
	b.Ends = append(b.Ends, len(b.Bytes))
}

// A FrameError is a payload that a [Transport] could not hand over: too long, cut off, or wrongly framed.
type FrameError struct {
	Answer *Error // what the peer is told, with id null; nil for nothing
	Final  bool   // the transport cannot go on behind it
	Err    error  // what happened, for the log
}

func (e *FrameError) Error() string { return e.Err.Error() }
func (e *FrameError) Unwrap() error { return e.Err }
