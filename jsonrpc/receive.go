package jsonrpc

import (
	"context"
	"errors"
	"fmt"
)

// The flow of an incoming payload, from its bytes to the response. flow_test.go checks that each
// function is in the file beside it.
//
//	Serve                       conn.go     on the goroutine of the caller, or of Start
//	└ read                      receive.go  one payload after the other
//	  ├ hold                    unread.go   waits while the peer does not read its responses
//	  ├ Transport.Read                      framing, for example transport/stream/stream.go
//	  ├ take                    receive.go  one payload
//	  │ ├ parse                 parse.go    one pass; an invalid payload goes to refuseAll
//	  │ ├ takeResponse          answer.go   a response
//	  │ │ └ deliver             ask.go      ends the call with its ID
//	  │ │   └ finish            waiter.go   wakes await, which decodes the result
//	  │ ├ takeRequest           receive.go  a request or a notification
//	  │ │ ├ prepare             answer.go   name, mode and handler, by nameTable.find
//	  │ │ ├ cancelNamed         running.go  a cancel: ends the context of the request it names
//	  │ │ ├ isAboutACall        receive.go  a notification about one of our calls
//	  │ │ │ └ event             ask.go      queues it for the function of Stream; may wait, see lagging.go
//	  │ │ ├ execute             answer.go   a quick method: runs here
//	  │ │ │ └ answer            receive.go  held until release
//	  │ │ └ enqueue             receive.go  all other methods
//	  │ │   ├ reserve           lane.go     room, or findRoom; without room -31001
//	  │ │   ├ admit             running.go  context, deadline, and what a cancel can find
//	  │ │   ├ push              lane.go     wakes a goroutine
//	  │ │   └ catchUp           lane.go     waits while the reader is too far ahead
//	  │ └ takeBatch             receive.go  an array: quickBatch, or newBatch and push
//	  └ release                 receive.go  held responses: outbox.now, or outbox.give
//
//	work                        lane.go     on a goroutine of the lane
//	└ runTask                   receive.go  one request, or runBatch
//	  ├ execute                 answer.go
//	  │ └ result                answer.go   recovers panics
//	  │   ├ enterGate           gate.go     a place at the Gate; without one -31001
//	  │   ├ Exchange.Check                  access checks of the transport
//	  │   ├ Handler.Handle                  usually of a Mux or a Function
//	  │   │ ├ find              mux.go      the handler of the method, unless prepare found it
//	  │   │ └ decode            params.go   params into a Go value, then the user's function
//	  │   ├ settle              answer.go   ends the request's Peer: nothing follows the response
//	  │   ├ appendValue         codec.go    the result
//	  │   └ outcome             answer.go   or what an error becomes
//	  ├ take                    context.go  false: the sweeper has responded with -31002
//	  ├ send                    receive.go  if it is alone: written here, by outbox.now
//	  │ └ send                  outbox.go   otherwise: queued, in order
//	  │   └ write               outbox.go   on the writing goroutine: Transport.Write
//	  ├ finish                  answer.go   forgets the request, runs its After functions
//	  └ pass                    lane.go     after a notification: what follows it may run
//
// A request over HTTP has no Conn: transport/httprpc and the other HTTP transports call
// [Answerer.Answer], which runs parse, prepare, admit and execute on the calling goroutine. conn.go
// lists the locks, their order, and the end of a connection.

// read reads payloads from the transport until it ends. It never waits for a handler: the message
// that a handler waits for may come next. It waits while the peer does not read its responses,
// unless calls of our own are open.
func (c *Conn) read(ctx context.Context) error {
	for {
		if c.out.unread.level.Load() || c.lane.isLaden() {
			if err := c.hold(); err != nil {
				return err
			}
		}
		payload, more, err := c.t.Read()
		if err != nil {
			err = c.unreadable(err)
		} else {
			err = c.take(ctx, payload)
		}
		if err == nil && c.held != nil && (!more || len(c.held.Bytes) > 64<<10) {
			err = c.release()
		}
		if !more || err != nil {
			c.releaseJob()
		}
		if err != nil {
			return err
		}
	}
}

// unreadable returns nil if reading can continue after err.
func (c *Conn) unreadable(err error) error {
	frame, ok := errors.AsType[*FrameError](err)
	if !ok {
		_ = c.release() // responses to what was read before
		return fmt.Errorf("jsonrpc: read: %w", err)
	}
	c.report(ReportFrame, frame)
	if frame.Answer != nil && !c.Quiet {
		out, _ := c.appendError(c.answers(), c.Version, NullID, frame.Answer)
		c.answer(out)
		// before any response to what is read later: the peer may depend on the order
		if err := c.release(); err != nil {
			return err
		}
	}
	if c.Quiet && !frame.Final {
		if c.garbage++; c.garbage >= mostGarbage {
			return ErrGarbage
		}
	}
	if frame.Final {
		_ = c.release() // the connection is closed anyway
		c.flushFor(drainTimeout)
		return frame
	}
	return nil
}

// release queues the responses of the quick methods.
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
	// Several responses indicate that more follow; they share one write.
	if c.rejected == 0 && len(b.Ends) == 1 && c.out.now(b, response) {
		return nil
	}
	if !c.out.give(b, c.rejected) {
		return ErrSlowPeer // more responses wait than the peer reads
	}
	c.rejected = 0
	return nil
}

// answers returns the buffer that a response of the reader is appended to. Until release it counts
// as a payload in progress, for Drain and others that wait for the last response.
func (c *Conn) answers() []byte {
	if c.held == nil {
		c.held = bursts.Get().(*Burst)
		c.active.Add(1)
	}
	return c.held.Bytes
}

// answer holds a response of the reader until release.
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
	c.garbage, c.garbageBytes = 0, 0
	if j.parser.batch {
		return c.takeBatch(ctx, j, payload)
	}
	m := &j.parser.msgs[0]
	switch m.kind {
	case kindResponse, kindBadResponse:
		c.takeResponse(&c.asker, m, payload, false)
		return nil
	case kindBadRequest:
		if c.asker.takeMalformed(m, payload) {
			return nil
		}
		return c.refuseOne(payload, m)
	}
	return c.takeRequest(ctx, j, m, payload)
}

// refuseAll responds to a payload that contains no message.
func (c *Conn) refuseAll(payload []byte, e *Error) error {
	if c.Quiet {
		return c.countGarbage(payload)
	}
	c.report(ReportRefused, e)
	if err := c.refuseWith(c.Version, NullID, e); err != nil {
		return err
	}
	return c.release() // for the same reason as in unreadable
}

func (c *Conn) refuseOne(payload []byte, m *message) error {
	if c.Quiet {
		return c.countGarbage(payload)
	}
	if err := c.refuseWith(m.version, m.id, m.bad); err != nil {
		return err
	}
	if m.id.IsNull() {
		return c.release() // for the same reason as in unreadable
	}
	return nil
}

// refuseWith answers a message that is not valid.
func (c *Conn) refuseWith(v Version, id ID, e *Error) error {
	refuse := func(dst []byte) []byte {
		dst, _ = c.appendError(dst, v, id, e)
		return dst
	}
	if c.crowded(false) {
		return c.reject(1, refuse)
	}
	c.answer(refuse(c.answers()))
	return nil
}

// Bounds of what a peer may print between its messages if Quiet is set.
const (
	mostGarbage      = 100
	mostGarbageBytes = 1 << 20
)

func (c *Conn) countGarbage(payload []byte) error {
	c.garbage++
	c.garbageBytes += len(payload)
	c.report(ReportGarbage, fmt.Errorf("jsonrpc: not JSON-RPC: %.200q", payload))
	if c.garbage >= mostGarbage || c.garbageBytes > mostGarbageBytes {
		return ErrGarbage
	}
	return nil
}

// takeRequest runs a quick request at once, and queues any other.
func (c *Conn) takeRequest(ctx context.Context, j *job, m *message, payload []byte) error {
	c.prepare(j, m, payload, &c.exchange)
	switch e := c.refuse(&j.req); {
	case c.isCancel(&j.req):
		c.cancelNamed(j.req.Params)
	case c.isAboutACall(&j.req):
	case !j.req.IsNotification() && c.crowded(e == nil && j.mode&Quick == 0):
		if e == nil {
			e = faultBusy
		}
		err := c.reject(1, func(dst []byte) []byte {
			dst, _ = c.appendRefusal(dst, &j.req, m.version, e)
			return dst
		})
		j.clear()
		return err
	case e != nil:
		out, _ := c.appendRefusal(c.answers(), &j.req, m.version, e)
		c.answer(out)
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
	j.clear() // empty for the next message
	return nil
}

// isAboutACall passes a notification to the call of ours that it is about, and reports whether that
// call streams.
func (c *Conn) isAboutACall(req *Request) bool {
	if c.Related == nil || !req.IsNotification() {
		return false
	}
	id, ok := c.Related(req)
	return ok && c.asker.event(id, req)
}

// enqueue queues a request.
func (c *Conn) enqueue(ctx context.Context, j *job, m *message, payload []byte) error {
	t := &j.task
	*t = task{job: j, size: len(payload), members: 1, waits: !j.req.IsNotification() || j.mode&Unordered != 0}
	t.ordered = !t.waits
	if !j.req.IsNotification() {
		t.recent = j.recent
		if j.mode&InOrder != 0 {
			t.ordered, j.origin.delays = true, true
		}
	}
	if room := c.lane.reserve(t); room != reserved && (room == lineFull || !c.findRoom(ctx, t)) {
		if j.req.IsNotification() { // it has no response that could report this
			return fmt.Errorf("jsonrpc: too many notifications are queued: %w", ErrBusy)
		}
		out, _ := c.appendRefusal(c.answers(), &j.req, m.version, faultBusy)
		c.answer(out)
		j.clear()
		return nil
	}
	c.job = nil                                   // the request owns it from now on
	j.payload = append(j.payload[:0], payload...) // the transport reuses what was read
	j.req.Params = m.params.of(j.payload)
	if j.req.idText != nil {
		j.req.idText = m.idText.of(j.payload)
	}
	c.active.Add(1)
	c.admit(ctx, j, m, &c.exchange)
	if c.lane.push(t) {
		c.lane.catchUp()
	}
	return nil
}

// runTask runs a request, or a batch, on its goroutine.
func (c *Conn) runTask(t *task) {
	if t.batch != nil {
		c.runBatch(t)
		return
	}
	j, ordered := t.job, t.ordered
	out, _ := c.execute(j, j.run.v, j.out[:0])
	c.lane.end(t)
	j.out = out
	switch {
	case len(out) == 0 || !j.run.take():
	case c.silent(j.run):
	default:
		c.send(j)
	}
	if j.origin.delays && j.origin.proceeded.Swap(true) {
		ordered = false
	}
	c.finish(j)
	c.putBack(j)
	if ordered {
		c.lane.pass()
	}
}

// putBack frees a job and marks its payload as completed.
func (c *Conn) putBack(j *job) {
	j.free()
	c.Answerer.done()
}

// send queues the response of j. A handler waits for room like other senders, but without its
// context, which may have been cancelled.
func (c *Conn) send(j *job) {
	out := j.out
	if isHandedOver(out, response) {
		j.out = nil
	}
	if len(out) >= longResponse { // it counts from now on, not only once it is queued
		c.lane.made(int64(len(out)))
		defer c.sent(int64(len(out)))
	}
	var err error
	if c.active.Load() == 1 { // only this one
		err = c.out.sendAlone(context.Background(), out, response)
	} else {
		err = c.out.send(context.Background(), out, response)
	}
	if err != nil && !errors.Is(err, ErrClosed) {
		c.report(ReportDropped, fmt.Errorf("jsonrpc: cannot send a response: %w", err))
	}
}

// sent is the other half of lane.made. It wakes the reader if it waits for that.
func (c *Conn) sent(n int64) {
	if light := c.lane.sent(n); light {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		c.out.unread.wakeReader()
	}
}

// discard frees a task that will not run any more.
func (c *Conn) discard(t *task) {
	if t.batch != nil {
		t.batch.finish()
	} else {
		c.finish(t.job)
	}
	c.putBack(t.job)
}

// takeBatch delivers the responses of a batch, and queues the rest.
func (c *Conn) takeBatch(ctx context.Context, j *job, payload []byte) error {
	rest := j.parser.msgs[:0]
	for _, m := range j.parser.msgs {
		switch {
		case m.kind == kindResponse || m.kind == kindBadResponse:
			c.takeResponse(&c.asker, &m, payload, true)
		case m.kind == kindBadRequest && c.asker.takeMalformed(&m, payload):
		default:
			rest = append(rest, m)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if c.crowded(false) && !hasNotification(rest) {
		return c.reject(len(rest), func(dst []byte) []byte { return c.refuseBatch(dst, rest, faultBusy) })
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
	t := &j.task
	*t = task{job: j, size: len(payload), members: len(rest), waits: true}
	if room := c.lane.reserve(t); room != reserved && (room == lineFull || !c.findRoom(ctx, t)) {
		c.answer(c.refuseBatch(c.answers(), rest, faultBusy))
		return nil
	}
	c.job = nil // the batch owns it from now on
	j.payload = append(j.payload[:0], payload...)
	c.active.Add(1)
	c.beginBatch(ctx, t, rest)
	if c.lane.push(t) {
		c.lane.catchUp()
	}
	return nil
}

// beginBatch prepares a batch that has its room. If Mode panics, the room is released.
func (c *Conn) beginBatch(ctx context.Context, t *task, msgs []message) {
	defer func() {
		if t.batch == nil {
			c.lane.unreserve(t)
			c.putBack(t.job)
		}
	}()
	t.batch = c.newBatch(ctx, t.job.payload, msgs, &c.exchange)
	t.ordered = t.batch.ordered > 0
	if !c.asker.isOpen() {
		t.expects = t.batch.expects()
	}
}

func (c *Conn) runBatch(t *task) {
	j := t.job
	var onDone func()
	if t.ordered {
		onDone = c.lane.pass
	}
	j.out = t.batch.run(j.out[:0], onDone)
	c.lane.end(t)
	if len(j.out) > 0 {
		c.send(j)
	}
	t.batch.forgetParts()
	c.discard(t)
}
