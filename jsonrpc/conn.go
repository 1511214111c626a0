package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// The locks of a connection, and the order in which they are taken. "a > b" means that b is taken
// while a is held. No other two of these locks are held together.
//
//	batchRun.mu  > Answerer.mu, running.mu, nameTable.mu   newBatch, and a cancel in the batch
//	boundPeer.mu > Answerer.mu, running.mu, outbox.mu      send, which holds it for reading
//	running.mu   > lane.mu, Gate.mu, budget.Pool.mu        rest, resume, leaveGate
//	lane.mu      > budget.Pool.mu                          charge, uncharge, rest, enter
//	outbox.mu    > Asker.mu, lane.mu                       wakeup; note and forget, which call resume
//
// Conn.mu, Answerer.mu, Asker.mu, Gate.mu, nameTable.mu, pacer.mu and budget.Pool.mu are innermost:
// no lock above is taken while one of them is held. The two pacers are locked one after the other.
//
//   - Only boundPeer.mu is held during a wait: send waits for room in the outbox, so that the
//     response cannot overtake the message, and settle waits for send. settle is therefore called
//     without a lock, and the sweeper calls it on another goroutine.
//   - The sweepers collect what is due while they hold their lock, and end it afterwards.
//   - Functions of the user run without a lock. The exceptions are Mode (batchRun.mu),
//     Transport.WrittenBytes, and Report if that panics (outbox.mu), and Sink.Send of an Exchange
//     without a Conn (boundPeer.mu). Methods of the parent context may be called with Conn.mu or
//     running.mu held.
//
// The end of a connection. Every path calls fail, which stores the first cause:
//
//	Read returns io.EOF       over: our own calls fail with ErrClosed, and InputEnded is called. With
//	                          Grace, running handlers may finish and their responses are written;
//	                          without, only what is queued is written, for at most 1 s. Then fail
//	read ends otherwise       over, which calls fail: a transport error, ErrGarbage, ErrSlowPeer, or
//	                          notifications past their bound
//	Write fails               transmit, on the writing goroutine
//	the peer takes nothing    waitPut, after Limits.OutWait
//	Serve's context ends      a goroutine of context.AfterFunc, see open
//	Close                     what is queued is written, for at most 1 s; then fail, then await
//	Hangup                    fail, without waiting
//	Shutdown                  Drain: new requests get -31004, running ones finish; then Close. If its
//	                          context ends first, handlers' contexts end, and at most 1 s later fail
//
// fail does the following, in this order:
//
//  1. The Asker fails all calls that wait, and all later ones.
//  2. The outbox fails all messages that wait for room, and all later ones. It wakes the reader if
//     that waits in hold. What is queued and not yet with the transport is dropped.
//  3. The contexts of the handlers end. From here on no handler can send.
//  4. Ending is called.
//  5. The transport is closed, which makes Read and Write return.
//
// The goroutine of Serve then leaves read and completes over: it stops watching Serve's context,
// frees the responses that were held, discards without a response the tasks that have not started,
// waits at most Limits.Grace for the goroutines of the lane, and closes the transport again, which
// has no effect. Close and Shutdown wait for that goroutine. The writing goroutine is not waited
// for; it ends when Write returns. The sweepers' timers are not stopped; they are set again only
// while there is something to watch.

// A Conn is one connection over a [Transport]; both sides may send requests. It joins the two
// halves: an incoming request goes to its [Answerer], an incoming response to the call that waits
// for it. A Conn is a [Peer]. Create it with [NewConn], set its fields, then call Serve or Start;
// calls wait until then.
type Conn struct {
	Answerer

	// Related returns the id of our call that a notification is about; Stream passes such
	// notifications to its caller. All others go to the Handler. If nil, no notification belongs to
	// a call.
	Related func(*Request) (ID, bool)

	// Open reports which of our own calls have no deadline. If nil, every call has one.
	Open func(method string) bool

	// Quiet is for a peer that may print other things than JSON-RPC, such as a program's stdout:
	// such output is reported and gets no response. After 100 in a row, or 1 MiB of them, the
	// connection is closed with ErrGarbage.
	Quiet bool

	// Grace is how long handlers may run after the peer has closed its sending side, as long as it
	// reads: a peer that takes nothing of a response for a second is disconnected. If zero or
	// negative, the handlers' contexts are cancelled at once. Handlers that ignore that afterwards
	// are waited for as [Limits] Grace describes, and for at most a second if they had all of this
	// time.
	Grace time.Duration

	// InputEnded is called when the peer has closed its sending side, before running handlers get
	// Grace: handlers that wait for something to send, rather than work on a response, may end. It
	// must not wait. If nil, nothing is called.
	InputEnded func()

	// Ending is called once with the reason before the transport is closed, for a transport that
	// can send the reason to the peer. It must not wait, and must not call the Conn. If nil,
	// nothing is called.
	Ending func(cause error)

	t        Transport
	asker    Asker
	out      outbox
	lane     lane
	exchange Exchange

	start sync.Once

	mu     sync.Mutex              // guards the fields below
	cause  error                   // why the connection was closed; nil while it is open
	stop   context.CancelCauseFunc // cancels the handlers' contexts; nil until they are served
	served bool
	stuck  error // ErrStillRunning, if Serve did not wait for all handlers

	serving sync.WaitGroup // done when Serve returns; Close and Shutdown wait on it
	unwatch func() bool    // stops watching Serve's context

	job *job // owned by the reader, as are the fields below; nil while nothing is to be read
	// responses of quick methods that wait for the end of the input that was read; nil if there are
	// none
	held         *Burst
	rejected     int64 // cost of the rejections in held
	garbage      int   // payloads in a row
	garbageBytes int   // their bytes
}

// NewConn creates a Conn on t and takes ownership of it. It starts nothing.
func NewConn(t Transport) *Conn {
	return &Conn{t: t}
}

// begin initializes both halves, once the fields are set.
func (c *Conn) begin() {
	c.start.Do(func() {
		c.init()
		c.asker.Limits, c.asker.Version, c.asker.Open = c.Limits, c.Version, c.Open
		c.asker.Abandoned = c.sendCancel
		c.asker.besides = &c.out.besides
		c.asker.init()
		l := &c.Limits
		c.out.report = c.report
		c.out.t, c.out.maxMessages, c.out.maxBytes, c.out.wait, c.out.failed = c.t, l.OutMessages, l.OutBytes, l.OutWait, c.fail
		c.lane.most, c.lane.pending, c.lane.bytes = l.Running, l.Pending, l.NotifyBytes
		c.out.unread.rejections.Pool = &budget.Rejections
		c.lane.weight = l.PendingBytes
		c.lane.run, c.lane.unread, c.out.unread.light = c.runTask, &c.out.unread, c.lane.resume
		c.lane.calls = c.asker.isOpen
		c.exchange = Exchange{Sink: &c.out, Asker: &c.asker, lane: &c.lane, out: &c.out}
	})
}

// Start serves on a new goroutine; Close and Shutdown wait for it. ctx is as in Serve.
func (c *Conn) Start(ctx context.Context) {
	c.begin()
	c.claim()
	go func() { _ = c.serve(ctx) }() // the Conn stores the cause
}

// Serve runs requests and delivers responses until the peer closes the connection, ctx ends or
// Close is called. It reads on the calling goroutine and returns after the last handler. It returns
// nil after a clean close by the peer or by this side. ctx is the parent of all handlers' contexts.
func (c *Conn) Serve(ctx context.Context) error {
	c.begin()
	c.claim()
	return c.serve(ctx)
}

// claim ensures that a Conn is served once.
func (c *Conn) claim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.served {
		panic("jsonrpc: Serve was called twice on a Conn")
	}
	c.served = true
	c.serving.Add(1)
}

// serve and read use very little stack while they wait for input, so that an idle connection fits
// into the smallest stack.
func (c *Conn) serve(ctx context.Context) error {
	handlers := c.open(ctx)
	err := c.readSafely(handlers)
	return c.over(handlers, err)
}

// readSafely is read, and returns a panic of Related, Mode, a Transport or another function of the
// user as an error.
func (c *Conn) readSafely(ctx context.Context) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = rescue.Caught(c.report, value)
		}
	}()
	return c.read(ctx)
}

// closeTransport closes the transport, which may panic.
func (c *Conn) closeTransport() {
	defer rescue.Catch(c.report, nil)
	_ = c.t.Close() // its error repeats the cause, or has no receiver
}

// open creates the context of the handlers.
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

// over cleans up after err has ended the reading. It returns Serve's result.
func (c *Conn) over(handlers context.Context, err error) error {
	defer c.serving.Done()
	wait := c.Limits.Grace
	if errors.Is(err, io.EOF) {
		c.asker.Fail(ErrClosed) // no response can arrive any more, but running handlers may finish
		if c.InputEnded != nil {
			_ = rescue.Run(c.report, c.InputEnded) // the connection ends in any case
		}
		if !c.linger(handlers) && (wait < 0 || wait > drainTimeout) {
			wait = drainTimeout // the handlers had the time of Grace
		}
		err = ErrClosed
	}
	c.fail(err)
	if c.unwatch != nil {
		c.unwatch()
	}
	if c.held != nil { // responses that cannot be sent any more
		c.held.free()
		c.held = nil
		c.Answerer.done()
	}
	c.forgetRejections()
	c.lane.drop(c.discard)
	var stuck error
	if !c.lane.wait(wait) {
		stuck = c.stillRunning()
	}
	c.closeTransport()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = stuck
	if stuck != nil || errors.Is(c.cause, ErrClosed) {
		return stuck
	}
	return c.cause
}

// stillRunning reports the handlers that Serve stops waiting for.
func (c *Conn) stillRunning() error {
	err := fmt.Errorf("%w: %d of them", ErrStillRunning, max(c.active.Load(), 1))
	c.report(ReportStuck, err)
	return err
}

// drainTimeout is the drain timeout: the time for writing the last responses.
const drainTimeout = time.Second

// linger lets running handlers finish after the peer's last byte. It returns false if Grace passed
// and some still run.
func (c *Conn) linger(ctx context.Context) bool {
	if c.Grace <= 0 {
		c.flushFor(drainTimeout)
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.Grace)
	defer cancel()
	defer c.cutIfStuck()()
	if c.waitIdle(ctx) != nil {
		return ctx.Err() == nil || !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	}
	_ = c.out.flush(ctx) // an error means that the time is up
	return true
}

// cutIfStuck closes a connection that was closed by its peer for writing if the peer takes no
// response for a second: until then it holds its part of what all connections share. The returned
// function ends that.
func (c *Conn) cutIfStuck() (end func()) {
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(drainTimeout / 10)
		defer tick.Stop()
		moved, mark := time.Now(), uint64(0)
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			writing, now := c.out.progress()
			switch {
			case !writing || now != mark:
				moved, mark = time.Now(), now
			case time.Since(moved) > drainTimeout:
				c.fail(fmt.Errorf("jsonrpc: a response after the peer's last byte: %w", ErrSlowPeer))
				return
			}
		}
	})
	return func() { close(stop); watching.Wait() }
}

// fail closes the connection. The first cause is retained.
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
		_ = rescue.Run(c.report, func() { c.Ending(err) }) // the transport is closed in any case
	}
	c.closeTransport() // it unblocks reader and writer
}

// Hangup closes the connection with a reason, like Close, but does not wait for handlers.
func (c *Conn) Hangup(cause error) { c.fail(cause) }

// Close closes the connection and waits for running handlers. Queued messages are written first,
// for at most one second; then the handlers' contexts are cancelled. If handlers still run after
// Limits.Grace, Close returns ErrStillRunning: a handler that ignores its context continues, but
// cannot send anything. Do not call Close from a handler: it waits for that handler. Use Hangup.
// Close may be called more than once.
func (c *Conn) Close() error {
	c.begin()
	c.flushFor(drainTimeout)
	c.fail(ErrClosed)
	return c.await(c.Limits.Grace)
}

// await waits for the end of Serve, at most d.
func (c *Conn) await(d time.Duration) error {
	c.mu.Lock()
	served := c.served
	c.mu.Unlock()
	switch {
	case !served:
	case d < 0:
		c.serving.Wait()
	case !grace.Wait(&c.serving, d+d/10): // Serve itself waits for d and reports
		return c.stillRunning()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stuck
}

func (c *Conn) flushFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = c.out.flush(ctx) // on an error the connection is closed anyway
}

// Shutdown responds to new requests with -31004, waits until the running ones have their responses,
// and closes. If ctx ends first, the handlers' contexts are cancelled, the connection is closed one
// second later, and Shutdown returns ctx's cause, joined with ErrStillRunning if handlers ignore
// the cancellation.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.begin()
	err := c.Drain(ctx)
	if err == nil {
		return c.Close()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if c.waitIdle(last) == nil { // the contexts are cancelled; this waits for the responses
		return errors.Join(err, c.Close())
	}
	_ = c.out.flush(last) // writes what is queued; its time is up
	c.fail(ErrClosed)
	return errors.Join(err, c.await(10*time.Millisecond))
}

// sendCancel notifies the peer that the response to id is no longer needed. It does not wait for
// room.
func (c *Conn) sendCancel(id ID) {
	if c.Cancellation.Method == "" {
		return
	}
	params := append(AppendString([]byte{'{'}, c.Cancellation.Member), ':')
	params = append(id.Append(params), '}')
	payload, err := AppendNotification(nil, c.Version, c.Cancellation.Method, Raw(params))
	if err == nil && !c.out.put(payload) {
		c.report(ReportDropped, fmt.Errorf("jsonrpc: no room to cancel call %s", id))
	}
}

// Call implements [Peer].
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	c.begin()
	return c.asker.Call(ctx, &c.out, method, params, result, nil)
}

// Stream implements [Peer]. Related decides which notifications are passed to on.
func (c *Conn) Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error {
	c.begin()
	return c.asker.Call(ctx, &c.out, method, params, result, on)
}

// Notify implements [Peer]. When it returns, the message is queued but may not be written yet. A
// failed write closes the Conn; every later call returns its error.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	c.begin()
	return notify(ctx, &c.out, c.Version, method, params)
}

// Do sends one item and, if it is a call, waits for the response. It returns the error that it
// stores in item.Err.
func (c *Conn) Do(ctx context.Context, item *Item) error {
	c.begin()
	return c.asker.Do(ctx, &c.out, item)
}

// Batch sends all items in one array, as [Asker.Batch] describes.
func (c *Conn) Batch(ctx context.Context, items []Item) error {
	c.begin()
	return c.asker.Batch(ctx, &c.out, items)
}

// Pending returns the ids of our calls that wait for a response.
func (c *Conn) Pending() []ID { return c.asker.Pending() }

// Err returns why the connection was closed, or nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}
