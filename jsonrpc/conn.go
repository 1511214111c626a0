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

// read takes payloads from the transport until it ends. It never waits, neither for a write nor for a handler: what they
// wait for may come down the same road.
func (c *Conn) read(ctx context.Context) error {
	for {
		payload, more, err := c.t.Read()
		if err != nil {
			err = c.unreadable(err)
		} else {
			err = c.take(ctx, payload)
		}
		if err == nil && c.held != nil && (!more || len(c.held.Bytes) > 64<<10) {
			err = c.release()
		}
		if c.job != nil && (!more || err != nil) {
			c.job.free()
			c.job = nil
		}
		if err != nil {
			return err
		}
	}
}

// unreadable returns nil if reading goes on behind err.
func (c *Conn) unreadable(err error) error {
	frame, ok := errors.AsType[*FrameError](err)
	if !ok {
		_ = c.release() // answers to what was read before
		return fmt.Errorf("jsonrpc: read: %w", err)
	}
	c.report("frame", frame)
	if frame.Answer != nil && !c.Quiet {
		c.answer(AppendError(c.answers(), c.Version, NullID, frame.Answer))
	}
	if frame.Final {
		_ = c.release() // it ends anyway
		c.flushFor(farewell)
		return frame
	}
	return nil
}

// farewell is how long a last answer may take to be written.
const farewell = time.Second

// release queues the answers of the quick methods.
func (c *Conn) release() error {
	b := c.held
	if c.held = nil; b == nil {
		return nil
	}
	defer c.Answerer.done()
	if len(b.Ends) == 0 {
		b.free()
		return nil
	}
	// Several answers are a sign of more to come, which is to share their write.
	if (len(b.Ends) > 1 || !c.out.now(b)) && !c.out.give(b) {
		return ErrSlowPeer // more answers wait than the peer reads
	}
	return nil
}

// answers is what an answer of the reader is appended to. Until release it counts as an answer under way, for whoever
// waits for the last of them.
func (c *Conn) answers() []byte {
	if c.held == nil {
		c.held = bursts.Get().(*Burst)
		c.active.Add(1)
	}
	return c.held.Bytes
}

// answer keeps an answer of the reader until release.
func (c *Conn) answer(dst []byte) {
	if len(dst) > len(c.held.Bytes) {
		dst = append(dst, '\n')
		c.held.Ends = append(c.held.Ends, len(dst))
	}
	c.held.Bytes = dst
}

// take handles one payload.
func (c *Conn) take(ctx context.Context, payload []byte) error {
	if c.job == nil {
		c.job = jobs.Get().(*job)
	}
	j := c.job
	if e := c.parse(&j.parser, payload); e != nil {
		return c.refuseAll(payload, e)
	}
	c.garbage, c.rubbish = 0, 0
	if j.parser.batch {
		return c.takeBatch(ctx, j, payload)
	}
	m := &j.parser.msgs[0]
	switch m.kind {
	case kindResponse, kindBadResponse:
		c.takeResponse(&c.asker, m, payload)
		return nil
	case kindBadRequest:
		if c.asker.spoilt(m, payload) {
			return nil
		}
		return c.refuseOne(payload, m)
	}
	return c.takeRequest(ctx, j, m, payload)
}

// refuseAll answers a payload in which there is no message.
func (c *Conn) refuseAll(payload []byte, e *Error) error {
	if c.Quiet {
		return c.countGarbage(payload)
	}
	c.report("refused", e)
	c.answer(AppendError(c.answers(), c.Version, NullID, e))
	return nil
}

func (c *Conn) refuseOne(payload []byte, m *message) error {
	if c.Quiet {
		return c.countGarbage(payload)
	}
	c.answer(AppendError(c.answers(), m.version, m.id, m.bad))
	return nil
}

// What a peer may print between its messages when Quiet.
const (
	mostGarbage = 100
	mostRubbish = 1 << 20
)

func (c *Conn) countGarbage(payload []byte) error {
	c.garbage++
	c.rubbish += len(payload)
	c.report("garbage", fmt.Errorf("jsonrpc: no JSON-RPC: %.200q", payload))
	if c.garbage >= mostGarbage || c.rubbish > mostRubbish {
		return ErrGarbage
	}
	return nil
}

// takeRequest answers a quick request at once, and puts another in line.
func (c *Conn) takeRequest(ctx context.Context, j *job, m *message, payload []byte) error {
	c.prepare(j, m, payload, &c.exchange)
	switch e := c.refuse(&j.req); {
	case c.isCancel(&j.req):
		c.cancelNamed(j.req.Params)
	case c.isAboutACall(&j.req):
	case e != nil:
		c.answer(appendRefusal(c.answers(), &j.req, m.version, e))
	case j.mode&Quick != 0:
		j.ctx = ctx
		out, _ := c.execute(j, m.version, c.answers())
		c.answer(out)
		if j.origin.after != nil {
			if err := c.release(); err != nil {
				return err
			}
			c.finish(j)
		}
	default:
		return c.enqueue(ctx, j, m, payload)
	}
	j.clear() // the next message finds it as new
	return nil
}

// isAboutACall hands a notification to the call of ours that it is about, and reports whether there is one that wants it.
func (c *Conn) isAboutACall(req *Request) bool {
	if c.Related == nil || !req.IsNotification() {
		return false
	}
	id, ok := c.Related(req)
	return ok && c.asker.event(id, req)
}

// enqueue puts a request in line.
func (c *Conn) enqueue(ctx context.Context, j *job, m *message, payload []byte) error {
	c.job = nil                                   // from now on it is the request's
	j.payload = append(j.payload[:0], payload...) // what was read is the transport's again soon
	j.req.Params = m.params.of(j.payload)
	if j.req.idText != nil {
		j.req.idText = m.idText.of(j.payload)
	}
	c.active.Add(1)
	c.admit(ctx, j, m, &c.exchange)
	t := &j.task
	*t = task{job: j, size: len(payload), waits: !j.req.IsNotification() || j.mode&Unordered != 0}
	t.ordered = !t.waits
	if c.lane.push(t) {
		return nil
	}
	defer c.discard(t)
	if j.req.IsNotification() { // which nobody could be told of
		return fmt.Errorf("jsonrpc: too many notifications wait: %w", ErrBusy)
	}
	c.answer(appendRefusal(c.answers(), &j.req, m.version, faultBusy))
	return nil
}

// runTask is the life of a request, or of a batch, on its goroutine.
func (c *Conn) runTask(t *task) {
	if t.batch != nil {
		c.runBatch(t)
		return
	}
	j, ordered := t.job, t.ordered
	out, _ := c.execute(j, j.run.v, j.out[:0])
	j.out = out
	switch {
	case len(out) == 0 || !j.run.taken.CompareAndSwap(false, true):
	case c.silent(j.run):
	default:
		c.send(out)
	}
	c.finish(j)
	c.putBack(j)
	if ordered {
		c.lane.pass()
	}
}

// putBack gives a job back and counts its payload as answered.
func (c *Conn) putBack(j *job) {
	j.free()
	c.Answerer.done()
}

// send queues an answer. A handler waits for room like everybody, but not for its context, which may have ended.
func (c *Conn) send(out []byte) {
	put := c.out.Send
	if c.active.Load() == 1 { // this one
		put = c.out.sendAlone
	}
	if err := put(context.Background(), out); err != nil && !errors.Is(err, ErrClosed) {
		c.report("dropped", fmt.Errorf("jsonrpc: an answer could not be sent: %w", err))
	}
}

// discard ends a task that will not run.
func (c *Conn) discard(t *task) {
	if t.batch != nil {
		t.batch.finish()
	} else {
		c.finish(t.job)
	}
	c.putBack(t.job)
}

// takeBatch delivers the responses of a batch, and puts the rest in line.
func (c *Conn) takeBatch(ctx context.Context, j *job, payload []byte) error {
	rest := j.parser.msgs[:0]
	for _, m := range j.parser.msgs {
		switch {
		case m.kind == kindResponse || m.kind == kindBadResponse:
			c.takeResponse(&c.asker, &m, payload)
		case m.kind == kindBadRequest && c.asker.spoilt(&m, payload):
		default:
			rest = append(rest, m)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if out, after, ok := c.quickBatch(ctx, c.answers(), payload, rest, &c.exchange); ok {
		c.answer(out)
		if after != nil {
			if err := c.release(); err != nil {
				return err
			}
		}
		c.finishAll(after)
		return nil
	}
	c.job = nil // from now on it is the batch's
	j.payload = append(j.payload[:0], payload...)
	c.active.Add(1)
	t := &j.task
	*t = task{job: j, size: len(payload), waits: true}
	t.batch = c.newBatch(ctx, j.payload, rest, &c.exchange)
	t.ordered = t.batch.ordered > 0
	if c.lane.push(t) {
		return nil
	}
	c.answer(t.batch.refuseAll(c.answers(), faultBusy))
	c.discard(t)
	return nil
}

func (c *Conn) runBatch(t *task) {
	j := t.job
	var onDone func()
	if t.ordered {
		onDone = c.lane.pass
	}
	j.out = t.batch.run(j.out[:0], onDone)
	if len(j.out) > 0 {
		c.send(j.out)
	}
	c.discard(t)
}

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
