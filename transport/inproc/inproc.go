// Package inproc implements a transport between two peers of one process: a bounded pipe of
// payloads, without a goroutine.
//
// Both ends behave like a connection, including the limit on messages and the bound for a peer that
// does not read. For calls that need no connection, jsonrpc.Local is even cheaper.
package inproc

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options configure Pipe. The zero value is ready for use.
type Options struct {
	// MaxMessage bounds one message, in bytes. Zero means 4 MiB, negative means no bound. A longer
	// one arrives as a *jsonrpc.FrameError with response -32600.
	MaxMessage int64

	// Buffer bounds the unread data in each direction, in bytes. Zero means 1 MiB. A Write waits
	// for room; a message that is longer than Buffer is accepted when no other message waits.
	Buffer int

	// WriteTimeout bounds the wait for room for a message, while the peer reads nothing. Zero means
	// 10 s, negative means no bound. When it
	// expires, the Write closes its end and returns jsonrpc.ErrSlowPeer.
	WriteTimeout time.Duration
}

// A Transport is one end of a pipe. See [jsonrpc.Transport].
type Transport struct {
	in, out *lane
	read    batch // the payloads that Read returns, one by one
	next    int   // the index in read.ends of the next payload
	begun   int   // the number of payloads of a burst that TryWrite has sent; Write sends the rest
}

// Pipe returns two connected ends.
func Pipe(o *Options) (a, b *Transport) {
	if o == nil {
		o = &Options{}
	}
	there, back := newLane(o), newLane(o)
	return &Transport{in: back, out: there}, &Transport{in: there, out: back}
}

// Read returns the next payload. It returns io.EOF when the other end was closed and everything was
// read.
func (t *Transport) Read() (payload []byte, more bool, err error) {
	for t.next == len(t.read.ends) {
		if t.next, err = 0, t.in.takeBatch(&t.read); err != nil {
			return nil, false, err
		}
	}
	start := 0
	if t.next > 0 {
		start = t.read.ends[t.next-1].at
	}
	end := t.read.ends[t.next]
	t.next++
	if end.tooLarge > 0 {
		return nil, false, &jsonrpc.FrameError{
			Answer: jsonrpc.ErrInvalidRequest,
			Err:    fmt.Errorf("inproc: message of %d bytes: %w", end.tooLarge, jsonrpc.ErrTooLarge),
		}
	}
	if t.next < len(t.read.ends) {
		more = t.read.ends[t.next].tooLarge == 0
	} else {
		more = t.in.waiting()
	}
	return t.read.bytes[start : end.at-1 : end.at-1], more, nil
}

// Write copies all payloads of b to the other end and waits for room there.
func (t *Transport) Write(b jsonrpc.Burst) error {
	err := t.out.putBurst(b, t.begun)
	t.begun = 0
	if err != nil {
		_ = t.Close() // part of b may be sent: nothing can follow it
	}
	return err
}

// TryWrite copies as many payloads of b as there is room for.
func (t *Transport) TryWrite(b jsonrpc.Burst) bool {
	n, err := t.out.addPayloads(b, 0, 0)
	if n > 0 {
		signal(t.out.arrived)
	}
	if err != nil || n < len(b.Ends) {
		t.begun = n
		return false
	}
	return true
}

// WrittenBytes grows whenever payloads are copied to the other end. It implements
// [jsonrpc.WriteCounter].
func (t *Transport) WrittenBytes() uint64 { return t.out.written() }

// Close closes both directions. Payloads that were written before can still be read at the other
// end.
func (t *Transport) Close() error {
	t.out.endWith(func(l *lane) { l.finished = true })
	t.in.endWith(func(l *lane) { l.abandoned, l.batch = true, batch{} })
	return nil
}

// A batch is a sequence of payloads, each followed by a newline.
type batch struct {
	bytes []byte
	ends  []end
}

// An end is the position where one payload ends. Of a payload that is too large only the size is
// stored.
type end struct {
	at, tooLarge int
}

// restingBytes bounds the memory that a batch retains after it was read.
const restingBytes = 64 << 10

func (b *batch) reset() {
	b.bytes, b.ends = b.bytes[:0], b.ends[:0]
	if cap(b.bytes)+16*cap(b.ends) > restingBytes {
		*b = batch{}
	}
}

// A lane is one direction: one writer, one reader.
type lane struct {
	limit   int // of one message
	bound   int // of the unread payloads
	timeout time.Duration

	arrived, room chan struct{} // capacity 1 each: a signal to check again

	mu        sync.Mutex // guards the fields below
	batch     batch      // the unread payloads
	copied    uint64     // bytes of all payloads so far
	finished  bool       // the writer has closed
	abandoned bool       // the reader has closed
}

func newLane(o *Options) *lane {
	l := &lane{
		limit:   4 << 20,
		bound:   1 << 20,
		timeout: 10 * time.Second,
		arrived: make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
	}
	if o.MaxMessage > 0 {
		l.limit = int(min(o.MaxMessage, math.MaxInt))
	} else if o.MaxMessage < 0 {
		l.limit = math.MaxInt
	}
	if o.Buffer > 0 {
		l.bound = o.Buffer
	}
	if o.WriteTimeout != 0 {
		l.timeout = o.WriteTimeout
	}
	return l
}

// signal wakes the goroutine that waits on c, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // already signalled
	}
}

// takeBatch waits until there are payloads, and swaps the batch for the one that was read.
func (l *lane) takeBatch(read *batch) error {
	read.reset()
	for {
		l.mu.Lock()
		if l.abandoned {
			l.mu.Unlock()
			return fmt.Errorf("inproc: read: %w", jsonrpc.ErrClosed)
		}
		if len(l.batch.ends) > 0 {
			*read, l.batch = l.batch, *read
			l.mu.Unlock()
			signal(l.room)
			return nil
		}
		finished := l.finished
		l.mu.Unlock()
		if finished {
			return io.EOF
		}
		<-l.arrived
	}
}

// waiting reports whether a payload is available.
func (l *lane) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.batch.ends) > 0 && l.batch.ends[0].tooLarge == 0
}

// putBurst adds the payloads from index next on, as many at a time as there is room for. It fails
// if there is no room for another one within the timeout.
func (l *lane) putBurst(b jsonrpc.Burst, next int) error {
	var timer *time.Timer
	var timeout <-chan time.Time // nil means none
	start := 0
	if next > 0 {
		start = b.Ends[next-1]
	}
	for next < len(b.Ends) {
		n, err := l.addPayloads(b, start, next)
		if err != nil {
			return err
		}
		if n > 0 {
			signal(l.arrived)
			next += n
			start = b.Ends[next-1]
			if timer != nil {
				timer.Reset(l.timeout)
			}
			continue
		}
		if timer == nil && l.timeout > 0 {
			timer = time.NewTimer(l.timeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-l.room:
		case <-timeout:
			return fmt.Errorf("inproc: write: %w after %v", jsonrpc.ErrSlowPeer, l.timeout)
		}
	}
	return nil
}

// addPayloads copies the payloads of b that fit, from index next on, which begins at start. It
// returns their number.
func (l *lane) addPayloads(b jsonrpc.Burst, start, next int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.finished:
		return 0, fmt.Errorf("inproc: write: %w", jsonrpc.ErrClosed)
	case l.abandoned:
		return 0, fmt.Errorf("inproc: write: %w", io.ErrClosedPipe)
	}
	n := 0
	for _, at := range b.Ends[next:] {
		p := b.Bytes[start:at]
		e := end{at: len(l.batch.bytes) + len(p)}
		if size := len(p) - 1; size > l.limit { // without the newline
			e, p = end{at: len(l.batch.bytes), tooLarge: size}, nil
		}
		if held := len(l.batch.bytes) + 16*len(l.batch.ends); held > 0 && held+len(p) > l.bound {
			break
		}
		l.batch.bytes = append(l.batch.bytes, p...)
		l.batch.ends = append(l.batch.ends, e)
		start = at
		n++
		l.copied += uint64(len(p))
	}
	return n, nil
}

// written returns the bytes of all payloads that were added so far.
func (l *lane) written() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.copied
}

// endWith closes the lane at one end and wakes the other.
func (l *lane) endWith(set func(*lane)) {
	l.mu.Lock()
	set(l)
	l.mu.Unlock()
	signal(l.arrived)
	signal(l.room)
}
