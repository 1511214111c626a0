package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// An Asker is the calling half: a table of calls that wait for the response with their id. It is
// used where requests and responses are separate: on a [Conn], and in sessions whose responses
// arrive in another request. Set its fields before its first use, and do not copy it afterwards.
type Asker struct {
	// Limits bound the calls. After the first use they hold the effective limits, with the defaults
	// filled in.
	Limits Limits

	// Version is the version of JSON-RPC of the calls.
	Version Version

	// Open reports which calls have no deadline. If nil, every call has one.
	Open func(method string) bool

	// Abandoned is called on the caller's goroutine when the caller has stopped waiting for a
	// response that may still arrive. The protocol sends its cancel message here. If nil, the peer
	// is not notified.
	Abandoned func(id ID)

	setup sync.Once
	tick  time.Duration
	paced pacer // long calls on a Conn

	single atomic.Bool // the peer rejected a batch
	// the number of messages sent that are not calls, which an error without an id can also be
	// about; nil if they are not counted
	besides *atomic.Uint64

	mu     sync.Mutex // guards the fields below
	failed error      // why no response can arrive any more
	// calls with our own ids; the slot of an id is its number modulo the length, a power of two
	ring    []*waiter
	others  map[ID]*waiter
	batches []*askBatch // batches that wait for responses
	doubts  doubts
	// for reuse. Not a pool of the package: a channel belongs to the synctest bubble that created
	// it
	spare   []*waiter
	count   int
	weighs  int           // the cost of the notifications that wait for Streams, in bytes
	stalled *waiter       // the call that the reader waits for, or nil
	room    chan struct{} // gets a signal when the stalled call takes a notification or ends
	// gets a signal when a call is opened while there is no other; nil if not used
	opened  chan struct{}
	calls   uint64 // in total
	last    uint64 // the newest of our own ids
	sweeper *time.Timer
	armed   bool
	now     int64 // in ticks
}

// sparesAtMost is how many waiters an Asker retains for later calls.
const sparesAtMost = 128

// keptWhenIdle is the maximum size of a response buffer that a spare waiter retains.
const keptWhenIdle = 512

func (k *Asker) init() {
	k.setup.Do(func() {
		k.Limits = k.Limits.withDefaults()
		k.paced.base = connWindow
		k.tick = tickOf(k.Limits.CallTime)
		if k.Limits.CallTime < 0 {
			k.tick = time.Second
		}
	})
}

// Call sends a request over s and waits for its response, as [Peer] describes. on may be nil;
// otherwise it is called with the notifications about this call.
func (k *Asker) Call(ctx context.Context, s Sink, method string, params, result any, on func(*Request) error) error {
	return k.do(ctx, s, ID{}, method, params, result, on, nil)
}

// Do sends one item over s and, if it is a call, waits for the response. It returns the error that
// it stores in item.Err.
func (k *Asker) Do(ctx context.Context, s Sink, item *Item) error {
	if item.Notify {
		if item.Err = notify(ctx, s, k.Version, item.Method, item.Params); item.Err == nil && item.Sent != nil {
			item.Sent()
		}
	} else {
		item.Err = k.do(ctx, s, item.ID, item.Method, item.Params, item.Result, item.On, item.Sent)
	}
	return item.Err
}

func (k *Asker) do(ctx context.Context, s Sink, id ID, method string, params, result any, on func(*Request) error, sent func()) error {
	if ctx.Err() != nil {
		return AsNotSent(context.Cause(ctx))
	}
	b := buffers.Get().(*buffer)
	var err error
	if b.bytes, err = appendCall(b.bytes[:0], k.Version, method, params); err != nil {
		b.free()
		return AsNotSent(err)
	}
	size := len(b.bytes)
	paced, err := k.pace(ctx, s, size)
	if err != nil {
		b.free()
		return AsNotSent(err)
	}
	if paced {
		defer k.unpace(size)
	}
	w, err := k.reserve(ctx, id, method, on != nil)
	if err != nil {
		b.free()
		return AsNotSent(err)
	}
	b.bytes = append(w.id.Append(b.bytes), '}')
	if o, ok := s.(*outbox); ok && w.alone {
		err = o.sendAlone(ctx, b.bytes, call)
	} else {
		err = sendCall(ctx, s, b.bytes)
	}
	b.free()
	if err != nil && k.take(w) {
		k.free(w) // it was not sent, or nothing can be sent any more
		return err
	}
	if sent != nil {
		sent()
	}
	return k.await(ctx, w, method, result, on)
}

// sendCall sends a call, or an array with one. It is not counted among the other messages that an
// error without an id can be about.
func sendCall(ctx context.Context, s Sink, payload []byte) error {
	switch s := s.(type) {
	case *outbox:
		return s.send(ctx, payload, call)
	case *boundPeer:
		return s.send(ctx, payload, call, "", nil)
	}
	return s.Send(ctx, payload)
}

// reserve assigns an id and a table entry to a new call.
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
	if k.count++; k.count == 1 && k.opened != nil {
		signal(k.opened)
	}
	k.calls++
	w.order = k.calls
	if k.besides != nil {
		w.before = k.besides.Load()
	}
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

// await waits for the end of a call and decodes its response.
func (k *Asker) await(ctx context.Context, w *waiter, method string, result any, on func(*Request) error) error {
	stop := ctx.Done()
	var refused error // the error of on, which is not called again after it
	for {
		if stop == nil {
			<-w.ready
		} else {
			select {
			case <-w.ready:
			case <-stop:
				if k.giveUp(w) {
					return k.abandon(w, context.Cause(ctx))
				}
				stop = nil // the response is being delivered and counts
				continue
			}
		}
		done := w.done.Load() // loaded before the events: no event follows it
		if on != nil && refused == nil {
			if refused = k.pass(w, on); refused != nil && k.giveUp(w) {
				return k.abandon(w, refused)
			}
		}
		if done {
			break
		}
	}
	defer k.free(w)
	switch {
	case refused != nil: // the response had already arrived
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

// pass calls the function on with each queued notification.
func (k *Asker) pass(w *waiter, on func(*Request) error) error {
	for {
		e := k.next(w)
		if e == nil {
			return nil
		}
		if err := on(e); err != nil {
			return err
		}
	}
}

// abandon ends a call whose caller has stopped waiting. The waiter is no longer in the table.
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

// deliver ends the call that a response belongs to, and reports whether there was one. inArray
// means that the response arrived in an array: it answers a member of a batch and never rejects a
// whole batch.
func (k *Asker) deliver(m *message, payload []byte, inArray bool) bool {
	k.mu.Lock()
	w := k.find(m.id)
	if w == nil {
		k.doubts.answered(m.id)
		if inArray || !isRefusal(m, payload) {
			k.mu.Unlock()
			return false
		}
		return k.refused(m, payload) // it also unlocks
	}
	k.doubts.proved = max(k.doubts.proved, w.before)
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

// takeMalformed handles a message without method, result and error as a malformed response: it ends
// the call that waits for its id, and reports whether there was one.
func (k *Asker) takeMalformed(m *message, payload []byte) bool {
	return k != nil && m.method.absent() && k.deliver(m, payload, true)
}

// event queues a notification for the call that it is about, if that call streams. It may wait for
// room, as [Asker.awaitRoom] does. req is copied.
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
	cost := eventCost(req)
	if k.full(w, cost) && !k.awaitRoom(w, cost) {
		k.mu.Unlock()
		return true // the call ended meanwhile
	}
	var late *waiter // ends
	if k.full(w, cost) {
		late = w
	} else {
		k.push(w, req, cost)
		if k.weighs > max(maxStreams*k.Limits.EventBytes, cost) {
			late = k.heaviest()
		}
	}
	if late != nil {
		k.doubts.add(late.id)
		k.remove(late)
		k.forget(late) // its callback may take as long as it likes
		late.fail = ErrLagging
	}
	k.mu.Unlock()
	if late != nil {
		late.finish()
	}
	if late != w {
		w.signal()
	}
	return true
}

// Fail ends all waiting calls, and every later one, with err.
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

// sweep ends the calls that have waited too long. It runs once a tick while calls wait.
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
			k.doubts.add(w.id)
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

// PeerOf creates a Peer that calls and notifies over s, with responses from k. It belongs to a
// session, not to a request.
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
