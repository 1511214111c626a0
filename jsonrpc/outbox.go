package jsonrpc

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// An outbox queues the outgoing payloads of a Transport in order. A goroutine writes them in bursts
// and runs only while there is something to write. Senders wait for room, never for a write. A
// single payload is written at once, as far as that is possible without waiting.
type outbox struct {
	t           Transport
	maxMessages int
	maxBytes    int
	wait        time.Duration
	failed      func(error) // called once by the writer when a write fails
	report      func(what string, err error)

	// the number of queued messages that are neither our calls nor arrays with one; counted before
	// a response can arrive
	besides atomic.Uint64

	mu      sync.Mutex // guards the fields below
	next    *Burst     // being filled; nil while there is nothing to write
	busy    int        // bytes and
	flying  int        // messages that are being written
	writing bool
	bursts  uint64 // that were written
	writer  func()
	err     error         // why nothing is sent any more
	unread  unread        // the queued responses, and those whose handlers wait for room
	line    []*parked     // messages that wait for room, in first-come order
	moved   time.Time     // when the peer last read something, while the line is not empty
	count   uint64        // the bytes that the transport had written then
	empty   chan struct{} // closed when everything is written; nil if nothing waits for that
}

// A parked message waits for room. The outbox's lock guards it.
type parked struct {
	payload []byte
	s       sender
	done    chan struct{} // closed when it is queued or has failed
	err     error         // why it failed
}

// A sender is the kind of a message and of its sender.
type sender uint8

const (
	ours       sender = iota // a notification
	call                     // a call, or an array with one
	fromReader               // a message of the reader goroutine, which does not wait
	response                 // a response of a handler
)

// Send queues a copy of payload, as the [Sink] of a Conn.
func (o *outbox) Send(ctx context.Context, payload []byte) error { return o.send(ctx, payload, ours) }

func (o *outbox) send(ctx context.Context, payload []byte, s sender) error {
	if o.tryPut(payload, s) {
		return nil
	}
	return o.waitPut(ctx, payload, s)
}

// sendAlone is Send for a message without an expected successor: starting a goroutine to write it
// would cost as much as the message.
func (o *outbox) sendAlone(ctx context.Context, payload []byte, s sender) error {
	if isHandedOver(payload, s) {
		if b := adopt(payload); !o.now(b, s) {
			return o.send(ctx, payload, s)
		}
		return nil
	}
	b := bursts.Get().(*Burst)
	b.Add(payload)
	if o.now(b, s) {
		return nil
	}
	b.free()
	return o.send(ctx, payload, s)
}

// handedOver is the size from which the memory of a response belongs to the outbox after it was
// sent, so that it need not be copied.
const handedOver = 256 << 10

func isHandedOver(payload []byte, s sender) bool { return s == response && len(payload) >= handedOver }

// adopt returns a Burst in the memory of payload.
func adopt(payload []byte) *Burst {
	b := &Burst{Bytes: append(payload, '\n')}
	b.Ends = append(b.Ends, len(b.Bytes))
	return b
}

// bursts is shared by all connections: a connection with nothing to write holds no Burst.
var bursts = sync.Pool{New: func() any { return new(Burst) }}

func (b *Burst) free() {
	poison(b.Bytes)
	if cap(b.Bytes) <= tooBigToKeep {
		b.Bytes, b.Ends = b.Bytes[:0], b.Ends[:0]
		bursts.Put(b)
	}
}

// put queues a message of the reader, which must not wait. It returns false if that would exceed
// the bound.
func (o *outbox) put(payload []byte) bool { return o.tryPut(payload, fromReader) }

// give queues responses of the reader and takes ownership of b. rejected is what the rejections
// among them cost. It returns false if that would exceed the bound.
func (o *outbox) give(b *Burst, rejected int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.full(len(b.Bytes), o.maxBytes) {
		return false
	}
	o.besides.Add(uint64(len(b.Ends)))
	o.unread.queueOwn(len(b.Ends), len(b.Bytes), rejected)
	if o.next == nil {
		o.next = b
	} else {
		start := len(o.next.Bytes)
		o.next.Bytes = append(o.next.Bytes, b.Bytes...)
		for _, end := range b.Ends {
			o.next.Ends = append(o.next.Ends, start+end)
		}
		b.free()
	}
	o.wake()
	return true
}

// now sends b and takes ownership of it. If a write is in progress or the outbox has failed, it
// does nothing and returns false. It never waits: bytes that cannot be written at once are left to
// the writer.
func (o *outbox) now(b *Burst, s sender) bool {
	o.mu.Lock()
	if o.err != nil || o.writing {
		o.mu.Unlock()
		return false
	}
	o.writing = true
	o.busy, o.flying = len(b.Bytes), len(b.Ends)
	if s != call {
		o.besides.Add(uint64(len(b.Ends)))
	}
	o.mu.Unlock()
	if !o.tryWrite(b) {
		if s == response {
			o.mu.Lock()
			o.unread.write(len(b.Ends), len(b.Bytes)) // others may be queued already
			o.mu.Unlock()
		}
		go o.writeFrom(b)
		return true
	}
	b.free()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written() {
		o.spawn()
	}
	return true
}

// full reports whether n more bytes exceed a bound of most. The lock is held.
func (o *outbox) full(n, most int) bool {
	waiting := o.busy
	if o.next != nil {
		waiting += len(o.next.Bytes)
	}
	return waiting > 0 && waiting+n > most
}

// wake starts the writer. The lock is held.
func (o *outbox) wake() {
	if !o.writing {
		o.writing = true
		o.spawn()
	}
}

func (o *outbox) spawn() {
	if o.writer == nil {
		o.writer = o.write // created once: each go statement with a method allocates
	}
	go o.writer()
}

// tryPut queues payload if there is room and the outbox has not failed.
func (o *outbox) tryPut(payload []byte, s sender) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || len(o.line) > 0 && s != fromReader {
		return false // waiting messages come first
	}
	return o.enqueue(payload, s)
}

// ofReader is the part of the bound that only messages of the reader use: they cannot wait, and the
// connection would end because many of our own calls do.
const ofReader = 8

// enqueue queues payload if there is room. The lock is held.
func (o *outbox) enqueue(payload []byte, s sender) bool {
	most := o.maxBytes
	if s != fromReader {
		most -= most / ofReader
	}
	if o.full(len(payload), most) {
		return false
	}
	if o.next == nil {
		o.next = bursts.Get().(*Burst)
	}
	if s != fromReader && len(o.next.Ends)+o.flying >= o.maxMessages {
		return false
	}
	if s != call {
		o.besides.Add(1)
	}
	if isHandedOver(payload, s) && len(o.next.Ends) == 0 {
		o.next.free()
		o.next = adopt(payload)
	} else {
		o.next.Add(payload)
	}
	if s == response {
		o.unread.queue(1, len(payload))
	}
	o.wake()
	return true
}

// waitPut queues payload when there is room. It fails if ctx ends first, or if the peer has read
// nothing for o.wait.
func (o *outbox) waitPut(ctx context.Context, payload []byte, s sender) error {
	w := o.park(payload, s)
	tick := time.NewTicker(tickOf(o.wait))
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return w.err
		case <-ctx.Done():
			if o.withdraw(w) {
				return AsNotSent(context.Cause(ctx))
			}
			return w.err
		case <-tick.C:
			if !o.stalled() {
				continue
			}
			o.failed(ErrSlowPeer)
			if o.withdraw(w) {
				return AsNotSent(ErrSlowPeer)
			}
			return w.err
		}
	}
}

// park appends a message to the line.
func (o *outbox) park(payload []byte, s sender) *parked {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := &parked{payload: payload, s: s, done: make(chan struct{})}
	if len(o.line) == 0 {
		o.moved, o.count = time.Now(), o.readByPeer()
	}
	o.line = append(o.line, w)
	if s == response { // it takes memory too
		o.unread.hold(1, len(payload))
	}
	o.admit() // there may be room now
	return w
}

// admit queues messages from the front of the line while there is room. The lock is held.
func (o *outbox) admit() {
	for len(o.line) > 0 {
		w := o.line[0]
		if o.err != nil {
			w.err = AsNotSent(o.err)
		} else if !o.enqueue(w.payload, w.s) {
			return
		}
		o.unpark(0)
		close(w.done)
	}
}

// unpark removes a message from the line. The lock is held.
func (o *outbox) unpark(i int) {
	if w := o.line[i]; w.s == response {
		o.unread.hold(-1, -len(w.payload))
	}
	if o.line = slices.Delete(o.line, i, i+1); len(o.line) == 0 {
		o.line = nil
	}
}

// withdraw removes w from the line. It returns false if w is not in the line any more.
func (o *outbox) withdraw(w *parked) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.line, w)
	if i < 0 {
		return false
	}
	o.unpark(i)
	o.admit() // a shorter message may have waited after it
	return true
}

// stalled reports whether messages wait and the peer has read nothing for o.wait.
func (o *outbox) stalled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.readByPeer(); n != o.count {
		o.moved, o.count = time.Now(), n
	}
	return len(o.line) > 0 && time.Since(o.moved) >= o.wait
}

// readByPeer returns the number of bytes that the peer has read so far, as far as that is known.
// The lock is held. If the transport panics, the outbox fails.
func (o *outbox) readByPeer() (n uint64) {
	defer func() {
		if value := recover(); value != nil {
			err := rescue.Caught(o.report, value)
			go o.failed(err) // which takes the lock
		}
	}()
	return WrittenBytes(o.t)
}

// progress reports whether something is being written, and a number that changes when the peer
// takes something.
func (o *outbox) progress() (writing bool, mark uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writing, o.bursts + o.readByPeer()
}

// write is the writer: after yielding once to let others add messages, it writes everything that is
// queued, until the queue is empty.
func (o *outbox) write() {
	for {
		runtime.Gosched()
		o.mu.Lock()
		if !o.written() {
			o.mu.Unlock()
			return
		}
		burst := o.next
		o.next = nil
		o.busy, o.flying = len(burst.Bytes), len(burst.Ends)
		o.unread.startWrite()
		o.mu.Unlock()
		o.transmit(burst)
	}
}

// writeFrom is the writer for a burst that now could not write.
func (o *outbox) writeFrom(b *Burst) {
	o.transmit(b)
	o.write()
}

// tryWrite is TryWrite of the transport. If that panics, the outbox fails, and there is nothing
// more to write of b.
func (o *outbox) tryWrite(b *Burst) (written bool) {
	defer func() {
		if value := recover(); value != nil {
			written = true
			o.failed(rescue.Caught(o.report, value))
		}
	}()
	return o.t.TryWrite(*b)
}

// writeBurst is Write of the transport, and returns its panic as an error.
func (o *outbox) writeBurst(b *Burst) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = rescue.Caught(o.report, value)
		}
	}()
	return o.t.Write(*b)
}

func (o *outbox) transmit(b *Burst) {
	err := o.writeBurst(b)
	b.free()
	if err != nil {
		o.failed(err)
	}
}

// written records the end of a write and reports whether there is more to write; if not, the writer
// ends. The lock is held.
func (o *outbox) written() bool {
	o.unread.taken.Add(int64(o.busy))
	o.busy, o.flying = 0, 0
	o.bursts++
	o.unread.endWrite()
	if len(o.line) > 0 {
		o.moved = time.Now()
		o.admit()
	}
	if o.next != nil && len(o.next.Ends) > 0 && o.err == nil {
		return true
	}
	o.writing = false
	if o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
	return false
}

// flush waits until all queued messages are written.
func (o *outbox) flush(ctx context.Context) error {
	o.mu.Lock()
	if !o.writing {
		defer o.mu.Unlock()
		return o.err
	}
	if o.empty == nil {
		o.empty = make(chan struct{})
	}
	empty := o.empty
	o.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close makes all later messages fail with err.
func (o *outbox) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.unread.forget()
	o.admit() // fails the messages that wait
}
