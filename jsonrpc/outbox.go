package jsonrpc

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// An outbox is what goes out on a Transport: payloads in the order they were put, written in bursts by a goroutine that lives only
// while there is something to write. Whoever puts waits for room, never for a write.
type outbox struct {
	t           Transport
	maxMessages int
	maxBytes    int
	wait        time.Duration
	failed      func(error) // called once, by the writer, when a write fails

	mu      sync.Mutex // guards what follows
	next    Burst      // filled
	spare   Burst      // swapped with next for each write
	busy    int        // bytes and
	flying  int        // messages that are being written
	writing bool
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

// put queues an answer of the reader, which must not wait. It reports false when that would pass the bound.
func (o *outbox) put(payload []byte) bool { return o.tryPut(payload, true) }

// tryPut queues payload if there is room and nothing has failed.
func (o *outbox) tryPut(payload []byte, reader bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return false
	}
	if waiting := len(o.next.Bytes) + o.busy; waiting > 0 && waiting+len(payload) > o.maxBytes {
		return false
	}
	if !reader && len(o.next.Ends)+o.flying >= o.maxMessages {
		return false
	}
	o.next.Add(payload)
	if !o.writing {
		o.writing = true
		go o.write()
	}
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
		o.busy, o.flying = 0, 0
		if o.room != nil {
			close(o.room)
			o.room = nil
		}
		if len(o.next.Ends) == 0 || o.err != nil {
			o.rest()
			o.mu.Unlock()
			return
		}
		burst := o.next
		o.next, o.spare = o.spare, Burst{}
		o.busy, o.flying = len(burst.Bytes), len(burst.Ends)
		o.mu.Unlock()

		err := o.t.Write(burst)

		o.mu.Lock()
		poison(burst.Bytes)
		o.spare = Burst{burst.Bytes[:0], burst.Ends[:0]}
		o.mu.Unlock()
		if err != nil {
			o.failed(err)
		}
	}
}

// rest ends the writer. An idle connection keeps only small buffers. The lock is held.
func (o *outbox) rest() {
	o.writing = false
	if len(o.next.Ends) == 0 && cap(o.next.Bytes) < cap(o.spare.Bytes) {
		o.next = o.spare
	}
	if cap(o.next.Bytes) > keptWhenIdle {
		o.next = Burst{}
	}
	o.spare = Burst{}
	if o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
}

// keptWhenIdle is the size of a write buffer that stays with an idle connection.
const keptWhenIdle = 512

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
