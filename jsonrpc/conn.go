package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A Conn is one conversation over a [Transport]; both ends may ask. It joins the two halves: what comes in as a request goes to
// its [Answerer], what comes in as a response to the call that waits for it. A Conn is a [Peer]. Make it
// with [NewConn], set its fields, then Serve or Start it; calls wait until then.
type Conn struct {
	Answerer

	// Related tells which of our calls a notification is about, for the notifications that Stream hands to its caller. All
	// others go to the Handler. Nil: none is about a call.
	Related func(*Request) (ID, bool)

	// Open tells which of our own calls have no deadline. Nil: none.
	Open func(method string) bool

	// Quiet is for a peer that may print other things than JSON-RPC, such as a program's stdout: these are reported and not
	// answered. After 100 in a row, or 1 MiB of them, the conversation ends with ErrGarbage.
	Quiet bool

	// Grace is how long handlers may finish after the peer has sent its last byte. Zero means none: their
	// contexts end at once.
	Grace time.Duration

	// Ending is called once, before the transport is closed, with the reason: for a carrier that can tell the peer. It must not
	// wait, and not call the Conn. Nil: nothing.
	Ending func(cause error)

	t        Transport
	asker    Asker
	out      outbox
	lane     lane
	exchange Exchange

	start sync.Once

	mu     sync.Mutex              // guards what follows
	cause  error                   // why it ended, or nil
	stop   context.CancelCauseFunc // ends the handlers' contexts; nil until they are served
	served bool

	serving sync.WaitGroup // for Serve to return
	unwatch func() bool    // lets go of Serve's context

	job     *job   // the reader's, and what follows too; nil while nothing is to be read
	held    *Burst // answers of quick methods that wait for the end of what was read; nil for none
	garbage int    // in a row
	rubbish int    // its bytes
}

// NewConn makes a Conn on t, which it owns from now on. It starts nothing.
func NewConn(t Transport) *Conn {
	return &Conn{t: t}
}

// begin makes both halves ready, once the fields are set.
func (c *Conn) begin() {
	c.start.Do(func() {
		c.init()
		c.asker.Limits, c.asker.Version, c.asker.Open = c.Limits, c.Version, c.Open
		c.asker.Abandoned = c.sendCancel
		c.asker.init()
		l := &c.Limits
		c.out = outbox{t: c.t, maxMessages: l.OutMessages, maxBytes: l.OutBytes, wait: l.OutWait, failed: c.fail}
		c.lane.most, c.lane.pending, c.lane.bytes = l.Running, l.Pending, l.NotifyBytes
		c.lane.weight = l.PendingBytes
		c.lane.run = c.runTask
		c.exchange = Exchange{Sink: &c.out, Asker: &c.asker, lane: &c.lane, out: &c.out}
	})
}

// Start serves on a goroutine of its own, for which Close and Shutdown wait. ctx is as in Serve.
func (c *Conn) Start(ctx context.Context) {
	c.begin()
	c.claim()
	go func() { _ = c.serve(ctx) }() // the cause stays with the Conn
}

// Serve answers requests and delivers responses until the peer hangs up, ctx ends or Close is called. It reads on the
// calling goroutine and returns after the last handler. It returns nil after a clean end: the peer hung up, or
// this side closed. ctx is the parent of all handlers' contexts.
func (c *Conn) Serve(ctx context.Context) error {
	c.begin()
	c.claim()
	return c.serve(ctx)
}

// claim makes sure that a Conn is served once.
func (c *Conn) claim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.served {
		panic("jsonrpc: a Conn is served once")
	}
	c.served = true
	c.serving.Add(1)
}

// serve keeps next to nothing on its stack while it reads, nor does read: an idle connection is to fit into the smallest one.
func (c *Conn) serve(ctx context.Context) error {
	handlers := c.open(ctx)
	err := c.read(handlers)
	return c.over(handlers, err)
}

// open returns the context of the handlers.
func (c *Conn) open(ctx context.Context) context.Context {
	handlers, stop := context.WithCancelCause(ctx)
	if ctx.Done() != nil {
		c.unwatch = context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop = stop
	if c.cause != nil {
		stop(c.cause)
	}
	return handlers
}

// over ends what Serve has begun, after err has ended the reading, and returns what Serve does.
func (c *Conn) over(handlers context.Context, err error) error {
	defer c.serving.Done()
	if errors.Is(err, io.EOF) {
		c.asker.Fail(ErrClosed) // nothing can be answered any more, but what runs may finish
		c.linger(handlers)
		err = ErrClosed
	}
	c.fail(err)
	if c.unwatch != nil {
		c.unwatch()
	}
	if c.held != nil { // answers that nobody will get
		c.held.free()
		c.held = nil
		c.Answerer.done()
	}
	c.lane.drop(c.discard)
	c.lane.wait()
	_ = c.t.Close() // no more than an echo of fail

	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.cause, ErrClosed) {
		return nil
	}
	return c.cause
}

// farewell is how long a last answer may take to be written.
const farewell = time.Second

// linger lets what runs finish after the peer's last byte.
func (c *Conn) linger(ctx context.Context) {
	if c.Grace <= 0 {
		c.flushFor(farewell)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.Grace)
	defer cancel()
	if c.waitIdle(ctx) == nil {
		_ = c.out.flush(ctx) // or the time is up
	}
}

// fail ends the conversation. The first cause stays.
func (c *Conn) fail(err error) {
	c.begin()
	c.mu.Lock()
	first := c.cause == nil
	if first {
		c.cause = err
	}
	err = c.cause
	stop := c.stop
	c.mu.Unlock()
	if !first {
		return
	}
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	c.asker.Fail(err)
	c.out.close(err)
	if stop != nil {
		stop(err)
	}
	if c.Ending != nil {
		c.Ending(err)
	}
	_ = c.t.Close() // it unblocks reader and writer; there is nobody left to tell
}

// Hangup ends the conversation with a reason, like Close, but does not wait: for handlers.
func (c *Conn) Hangup(cause error) { c.fail(cause) }

// Close ends the conversation: what is queued already is written, for at most a second, running handlers' contexts end, and
// Close returns when all of them have. Not for handlers, who would wait for themselves: they have Hangup. It may be
// called more than once.
func (c *Conn) Close() error {
	c.begin()
	c.flushFor(farewell)
	c.fail(ErrClosed)
	c.mu.Lock()
	served := c.served
	c.mu.Unlock()
	if served {
		c.serving.Wait()
	}
	return nil
}

func (c *Conn) flushFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = c.out.flush(ctx) // or not: the end comes either way
}

// Shutdown answers new requests with -31004, waits until those that run are answered, and closes. When ctx ends
// first, the handlers' contexts end, a second later the conversation does, and Shutdown returns ctx's cause.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.begin()
	err := c.Drain(ctx)
	if err != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		_ = c.waitIdle(last) // they were told; this is for their answers
		cancel()
	}
	return errors.Join(err, c.Close())
}

// sendCancel tells the peer that nobody waits for the answer to id, without waiting for room.
func (c *Conn) sendCancel(id ID) {
	if c.Cancellation.Method == "" {
		return
	}
	params := append(appendString([]byte{'{'}, c.Cancellation.Member), ':')
	params = append(id.Append(params), '}')
	payload, err := AppendNotification(nil, c.Version, c.Cancellation.Method, Raw(params))
	if err == nil && !c.out.put(payload) {
		c.report("dropped", fmt.Errorf("jsonrpc: no room to cancel call %s", id))
	}
}

// Call implements [Peer].
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	c.begin()
	return c.asker.Call(ctx, &c.out, method, params, result, nil)
}

// Stream implements [Peer]. Related decides which notifications on gets.
func (c *Conn) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	c.begin()
	return c.asker.Call(ctx, &c.out, method, params, result, on)
}

// Notify implements [Peer]. The message is queued, not yet written, when it returns; a failed write ends the Conn and
// shows in every later call.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	c.begin()
	return notify(ctx, &c.out, c.Version, method, params)
}

// Do sends one item and waits, if it is a call. It returns what it leaves in item.Err.
func (c *Conn) Do(ctx context.Context, item *Item) error {
	c.begin()
	return c.asker.Do(ctx, &c.out, item)
}

// Batch sends all items in one array, as [Asker.Batch] describes.
func (c *Conn) Batch(ctx context.Context, items []Item) error {
	c.begin()
	return c.asker.Batch(ctx, &c.out, items)
}

// Pending returns the ids of our calls that wait for an answer.
func (c *Conn) Pending() []ID { return c.asker.Pending() }

// Err returns why the conversation ended, or nil while it goes on.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}
