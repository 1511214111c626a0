package jsonrpc

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// An outbox is what goes out on a Transport: payloads in the order they were put, written in bursts by a goroutine that lives only
// while there is something to write. Whoever puts waits for room, never for a write. What comes alone is written at once, as far as
// that goes without waiting.
type outbox struct {
	t           Transport
	maxMessages int
	maxBytes    int
	wait        time.Duration
	failed      func(error) // called once, by the writer, when a write fails

	mu      sync.Mutex // guards what follows
	next    *Burst     // filled; nil while there is nothing to write
	busy    int        // bytes and
	flying  int        // messages that are being written
	writing bool
	writer  func()
	err     error         // nothing goes out any more
	room    chan struct{} // closed when there may be room; nil if nobody waits
	empty   chan struct{} // closed when everything is written; nil if nobody waits
}

// Send queues a copy of payload, as the [Sink] of a Conn.
func (o *outbox) Send(ctx context.Context, payload []byte) error {
	if o.tryPut(payload, false) {
		return nil
	}
	return o.waitPut(ctx, payload)
}

// sendAlone is Send for a message that nothing else is expected to follow: a goroutine to write it would cost as much as the message.
func (o *outbox) sendAlone(ctx context.Context, payload []byte) error {
	b := bursts.Get().(*Burst)
	b.Add(payload)
	if o.now(b) {
		return nil
	}
	b.free()
	return o.Send(ctx, payload)
}

// bursts are shared by all connections: one with nothing to write holds none.
var bursts = sync.Pool{New: func() any { return new(Burst) }}

func (b *Burst) free() {
	poison(b.Bytes)
	if cap(b.Bytes) <= tooBigToKeep {
		b.Bytes, b.Ends = b.Bytes[:0], b.Ends[:0]
		bursts.Put(b)
	}
}

// put queues a message of the reader, which must not wait. It reports false when that would pass the bound.
func (o *outbox) put(payload []byte) bool { return o.tryPut(payload, true) }

// give queues answers of the reader and takes b. It reports false when that would pass the bound.
func (o *outbox) give(b *Burst) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.full(len(b.Bytes)) {
		return false
	}
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

// now sends b and takes it, or does nothing and reports false if something else is on its way. It never waits: what cannot be
// written without is left to the writer.
func (o *outbox) now(b *Burst) bool {
	o.mu.Lock()
	if o.err != nil || o.writing {
		o.mu.Unlock()
		return false
	}
	o.writing = true
	o.busy, o.flying = len(b.Bytes), len(b.Ends)
	o.mu.Unlock()
	if !o.t.TryWrite(*b) {
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

// full reports whether n bytes more pass the bound. The lock is held.
func (o *outbox) full(n int) bool {
	waiting := o.busy
	if o.next != nil {
		waiting += len(o.next.Bytes)
	}
	return waiting > 0 && waiting+n > o.maxBytes
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
		o.writer = o.write // made once: each go of a method is an allocation
	}
	go o.writer()
}

// tryPut queues payload if there is room and nothing has failed.
func (o *outbox) tryPut(payload []byte, reader bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.full(len(payload)) {
		return false
	}
	if o.next == nil {
		o.next = bursts.Get().(*Burst)
	}
	if !reader && len(o.next.Ends)+o.flying >= o.maxMessages {
		return false
	}
	o.next.Add(payload)
	o.wake()
	return true
}

// waitPut queues payload when there is room, or fails.
func (o *outbox) waitPut(ctx context.Context, payload []byte) error {
	timeout := time.NewTimer(o.wait)
	defer timeout.Stop()
	for {
		o.mu.Lock()
		if o.err != nil {
			defer o.mu.Unlock()
			return o.err
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		if o.tryPut(payload, false) {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			o.failed(ErrSlowPeer)
			return ErrSlowPeer
		}
	}
}

// write is the writer: it takes all there is, after it has let others add to it once, until there is nothing.
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
		o.mu.Unlock()
		o.send(burst)
	}
}

// writeFrom is the writer that begins with what now could not send.
func (o *outbox) writeFrom(b *Burst) {
	o.send(b)
	o.write()
}

func (o *outbox) send(b *Burst) {
	err := o.t.Write(*b)
	b.free()
	if err != nil {
		o.failed(err)
	}
}

// written notes that a write has ended and reports whether there is more; if not, the writer has ended too. The lock is held.
func (o *outbox) written() bool {
	o.busy, o.flying = 0, 0
	if o.room != nil {
		close(o.room)
		o.room = nil
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

// flush waits until everything that was put is written.
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

// close makes every later put fail with err.
func (o *outbox) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}
