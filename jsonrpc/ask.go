package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// An Asker is the asking half: a table of calls that wait for the response with their id. It is needed where question and answer part ways:
// on a [Conn], and in sessions whose answers come by another request. Set its fields before its first use, and do not copy it afterwards.
type Asker struct {
	Limits  Limits // holds the limits in force after the first use
	Version Version

	// Open tells which calls have no deadline of their own. Nil: none.
	Open func(method string) bool

	// Abandoned is called on the caller's goroutine when it stopped waiting for an answer that may still come: the
	// protocol sends its cancel message here. Nil: the peer is not told.
	Abandoned func(id ID)

	setup sync.Once
	tick  time.Duration

	single atomic.Bool // the peer refused a batch

	mu      sync.Mutex // guards what follows
	failed  error      // why no answer can come any more
	ring    []*waiter  // calls with our own ids; an id's slot is its number modulo the length, a power of two
	others  map[ID]*waiter
	batches [][]*waiter // batches that wait, oldest first
	spare   []*waiter   // to be used again. Not a package's pool: a channel belongs to the synctest bubble that made it
	count   int
	calls   uint64 // ever
	last    uint64 // the newest of our own ids
	sweeper *time.Timer
	armed   bool
	now     int64 // in ticks
}

// sparesAtMost is how many waiters an Asker keeps for later calls.
const sparesAtMost = 128

// keptWhenIdle is the size of an answer whose buffer stays with a spare waiter.
const keptWhenIdle = 512

func (k *Asker) init() {
	k.setup.Do(func() {
		k.Limits = k.Limits.withDefaults()
		k.tick = tickOf(k.Limits.CallTime)
		if k.Limits.CallTime < 0 {
			k.tick = time.Second
		}
	})
}

// Call sends a request over s and waits for its response, as [Peer] describes. on may be nil; otherwise it gets the
// notifications about this call.
func (k *Asker) Call(ctx context.Context, s Sink, method string, params, result any, on func(*Request) error) error {
	return k.do(ctx, s, ID{}, method, params, result, on)
}

// Do sends one item over s and waits, if it is a call. It returns what it leaves in item.Err.
func (k *Asker) Do(ctx context.Context, s Sink, item *Item) error {
	if item.Notify {
		item.Err = notify(ctx, s, k.Version, item.Method, item.Params)
	} else {
		item.Err = k.do(ctx, s, item.ID, item.Method, item.Params, item.Result, item.On)
	}
	return item.Err
}

func (k *Asker) do(ctx context.Context, s Sink, id ID, method string, params, result any, on func(*Request) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b := buffers.Get().(*buffer)
	var err error
	if b.bytes, err = appendCall(b.bytes[:0], k.Version, method, params); err != nil {
		b.free()
		return err
	}
	w, err := k.reserve(ctx, id, method, on != nil)
	if err != nil {
		b.free()
		return err
	}
	b.bytes = append(w.id.Append(b.bytes), '}')
	if o, ok := s.(*outbox); ok && w.alone {
		err = o.sendAlone(ctx, b.bytes)
	} else {
		err = s.Send(ctx, b.bytes)
	}
	b.free()
	if err != nil && k.take(w) {
		k.free(w)
		return err
	}
	return k.await(ctx, w, method, result, on)
}

// reserve gives a new call its id and its place in the table.
func (k *Asker) reserve(ctx context.Context, id ID, method string, streams bool) (*waiter, error) {
	k.init()
	_, bounded := ctx.Deadline()
	timed := !bounded && k.Limits.CallTime >= 0 && (k.Open == nil || !k.Open(method))

	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.failed
	if err == nil && k.count >= k.Limits.Calls {
		err = ErrBusy
	}
	if err == nil && !id.IsZero() && k.find(id) != nil {
		err = fmt.Errorf("jsonrpc: id %s is in use by another call", id)
	}
	if err != nil {
		return nil, err
	}
	w := k.spareWaiter()
	w.streams, w.timed = streams, timed
	w.alone = k.count == 0
	if id.IsZero() {
		k.place(w)
	} else {
		if k.others == nil {
			k.others = map[ID]*waiter{}
		}
		w.id = id
		k.others[id] = w
	}
	k.count++
	k.calls++
	w.order = k.calls
	w.waiting, w.touched = true, k.now
	if w.timed && !k.armed {
		k.armed = true
		if k.sweeper == nil {
			k.sweeper = time.AfterFunc(k.tick, k.sweep)
		} else {
			k.sweeper.Reset(k.tick)
		}
	}
	return w, nil
}

// await waits for the end of a call and reads its answer.
func (k *Asker) await(ctx context.Context, w *waiter, method string, result any, on func(*Request) error) error {
	stop := ctx.Done()
	var refused error // by on, which is not called again then
	for {
		if stop == nil {
			<-w.ready
		} else {
			select {
			case <-w.ready:
			case <-stop:
				if k.take(w) {
					return k.abandon(w, context.Cause(ctx))
				}
				stop = nil // the answer is on its way and counts
				continue
			}
		}
		done := w.done.Load() // before the events: none comes after it
		if on != nil && refused == nil {
			if refused = k.pass(w, on); refused != nil && k.take(w) {
				return k.abandon(w, refused)
			}
		}
		if done {
			break
		}
	}
	defer k.free(w)
	switch {
	case refused != nil: // when the answer was here already
		return refused
	case w.fail != nil:
		if errors.Is(w.fail, ErrTimeout) || errors.Is(w.fail, ErrLagging) {
			k.told(w.id)
		}
		return fmt.Errorf("call of %s, id %s: %w", method, w.id, w.fail)
	case w.peer != nil:
		return w.peer
	}
	if raw, ok := result.(*Raw); ok {
		*raw, w.result = w.result, nil
		return nil
	}
	return decodeResult(w.result, result)
}

// pass hands the notifications that have come to the caller.
func (k *Asker) pass(w *waiter, on func(*Request) error) error {
	for {
		k.mu.Lock()
		events := w.events
		w.events = nil
		k.mu.Unlock()
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			if err := on(e); err != nil {
				return err
			}
		}
	}
}

// abandon ends a call whose caller does not want the answer any more. The waiter is out of the table.
func (k *Asker) abandon(w *waiter, err error) error {
	id := w.id
	k.free(w)
	k.told(id)
	return err
}

func (k *Asker) told(id ID) {
	if k.Abandoned != nil {
		k.Abandoned(id)
	}
}

// deliver ends the call that a response answers, and reports whether there was one.
func (k *Asker) deliver(m *message, payload []byte) bool {
	k.mu.Lock()
	w := k.find(m.id)
	if w == nil {
		w = k.onlyOne(m)
	}
	if w == nil {
		refused := k.refusedBatch(m)
		k.mu.Unlock()
		if refused == nil {
			return false
		}
		e, err := decodeError(m.err.of(payload), m.version)
		if err == nil {
			err = fmt.Errorf("%w: %w", ErrBatchRefused, e)
		}
		for _, w := range refused {
			w.fail = err
			w.finish()
		}
		return true
	}
	k.remove(w)
	k.mu.Unlock()

	switch {
	case m.kind != kindResponse:
		w.fail = ErrBadResponse
	case m.err.absent():
		w.result = append(w.result[:0], m.result.of(payload)...)
	default:
		w.peer, w.fail = decodeError(m.err.of(payload), m.version)
	}
	w.finish()
	return true
}

// spoilt ends the call that waits for the id of a message which has neither method, result nor error, and reports whether
// there was one: then it was meant as the response.
func (k *Asker) spoilt(m *message, payload []byte) bool {
	return k != nil && m.method.absent() && k.deliver(m, payload)
}

// onlyOne returns the call that an error for nobody in particular must be about: the only one that waits. It is what a peer says
// of a request that it could not read, for instance because of its size. The lock is held.
func (k *Asker) onlyOne(m *message) *waiter {
	if k.count != 1 || len(k.batches) > 0 || m.kind != kindResponse || !m.id.IsNull() || m.err.absent() {
		return nil
	}
	return k.waiting()[0]
}

// refusedBatch takes the oldest batch out of the table if m is an error for nobody in particular: it is what a peer
// without batches answers to one. The lock is held.
func (k *Asker) refusedBatch(m *message) []*waiter {
	if m.kind != kindResponse || !m.id.IsNull() || m.err.absent() || len(k.batches) == 0 {
		return nil
	}
	batch := k.batches[0]
	k.batches = k.batches[1:]
	var left []*waiter
	for _, w := range batch {
		if w.waiting {
			k.remove(w)
			left = append(left, w)
		}
	}
	return left
}

// event hands a notification to the call it is about, if that wants it. req must be a copy.
func (k *Asker) event(id ID, req *Request) bool {
	k.mu.Lock()
	w := k.find(id)
	if w == nil {
		k.mu.Unlock()
		return false
	}
	w.touched = k.now
	if !w.streams {
		k.mu.Unlock()
		return false
	}
	lagging := len(w.events) >= k.Limits.Events
	if lagging {
		k.remove(w)
		w.fail = ErrLagging
	} else {
		w.events = append(w.events, req.Clone())
	}
	k.mu.Unlock()
	if lagging {
		w.finish()
	} else {
		w.signal()
	}
	return true
}

// Fail ends all calls that wait, and every later one, with err.
func (k *Asker) Fail(err error) {
	k.mu.Lock()
	if k.failed == nil {
		k.failed = err
	}
	all := k.waiting()
	for _, w := range all {
		k.remove(w)
	}
	k.mu.Unlock()
	for _, w := range all {
		w.fail = err
		w.finish()
	}
}

// sweep ends the calls that have waited too long, once a tick while any waits.
func (k *Asker) sweep() {
	most := ticks(k.Limits.CallTime, k.tick)
	var late []*waiter
	k.mu.Lock()
	k.now++
	timed := false
	for _, w := range k.waiting() {
		if !w.timed {
			continue
		}
		timed = true
		if k.now-w.touched > most {
			k.remove(w)
			late = append(late, w)
		}
	}
	if k.armed = timed; timed {
		k.sweeper.Reset(k.tick)
	}
	k.mu.Unlock()
	for _, w := range late {
		w.fail = ErrTimeout
		w.finish()
	}
}

// PeerOf makes a Peer of an Asker and a way out: a session's own voice, tied to no request.
func PeerOf(k *Asker, s Sink) Peer { return &askingPeer{k, s} }

type askingPeer struct {
	k *Asker
	s Sink
}

func (p *askingPeer) Call(ctx context.Context, method string, params, result any) error {
	return p.k.Call(ctx, p.s, method, params, result, nil)
}

func (p *askingPeer) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	return p.k.Call(ctx, p.s, method, params, result, on)
}

func (p *askingPeer) Notify(ctx context.Context, method string, params any) error {
	return notify(ctx, p.s, p.k.Version, method, params)
}
