package jsonrpc

import (
	"context"
	"errors"
	"fmt"
)

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
