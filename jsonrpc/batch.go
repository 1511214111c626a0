package jsonrpc

import (
	"context"
	"sync"
)

// A batchRun answers the messages of one batch (JSON-RPC 2.0, section 6).
//
// Requests run at once, up to Limits.Parallel; notifications run one at a time in their order, and nothing behind one
// starts before it is done. The answers stand in the order of the requests.
type batchRun struct {
	a       *Answerer
	x       *Exchange
	payload []byte
	msgs    []message
	jobs    []*job // nil for a message that runs no handler
	onDone  func() // called when the last ordered notification is done; may be nil

	mu        sync.Mutex // guards what follows
	turn      sync.Cond
	next      int
	notifying bool
	ordered   int // notifications that must be done before what came after the batch
	bytes     int // of answers so far
	parts     [][]byte
}

// answerBatch runs the messages and appends the array of responses to dst, nothing if there is none.
func (a *Answerer) answerBatch(ctx context.Context, dst, payload []byte, msgs []message, x *Exchange) []byte {
	if out, after, ok := a.quickBatch(ctx, dst, payload, msgs, x); ok {
		a.finishAll(after)
		return out
	}
	b := a.newBatch(ctx, payload, msgs, x)
	defer b.finish()
	return b.run(dst, nil)
}

// quickBatch answers a batch of nothing but quick requests, one after the other and straight into dst. ok is false, and nothing
// was done, if there is another. Those in after left something to do for the time behind the answer.
func (a *Answerer) quickBatch(ctx context.Context, dst, payload []byte, msgs []message, x *Exchange) (out []byte, after []*job, ok bool) {
	for i := range msgs {
		m := &msgs[i]
		if m.kind == kindBadRequest || m.kind == kindRequest && a.modeOf(m.method.of(payload))&Quick != 0 {
			continue
		}
		return dst, nil, false
	}
	start := len(dst)
	j := jobs.Get().(*job)
	for i := range msgs {
		m := &msgs[i]
		between := byte(',')
		if i == 0 {
			between = '['
		}
		dst = append(dst, between)
		if m.kind == kindBadRequest {
			dst = AppendError(dst, m.version, m.id, m.bad)
			continue
		}
		a.prepare(j, m, payload, x)
		j.origin.batched = true
		j.ctx = ctx
		e := a.refuse(&j.req)
		if e == nil && len(dst)-start > a.Limits.BatchBytes {
			e = faultTooLarge
		}
		if e != nil {
			dst = appendRefusal(dst, &j.req, m.version, e)
		} else {
			dst, _ = a.execute(j, m.version, dst)
		}
		if len(j.origin.after) > 0 {
			after = append(after, j)
			j = jobs.Get().(*job)
		} else {
			j.clear()
		}
	}
	j.free()
	return append(dst, ']'), after, true
}

// newBatch prepares and admits all messages, so that each can be cancelled from now on.
func (a *Answerer) newBatch(ctx context.Context, payload []byte, msgs []message, x *Exchange) *batchRun {
	b := &batchRun{a: a, x: x, payload: payload, msgs: msgs, jobs: make([]*job, len(msgs))}
	b.turn.L = &b.mu
	for i := range msgs {
		m := &msgs[i]
		if m.kind != kindRequest && m.kind != kindNotification {
			continue
		}
		j := jobs.Get().(*job)
		a.prepare(j, m, payload, x)
		j.origin.batched = true
		j.ctx = ctx
		if a.isCancel(&j.req) {
			a.cancelNamed(j.req.Params)
			j.free()
			continue
		}
		if j.mode&Quick == 0 {
			a.admit(ctx, j, m, x)
			j.run.taken.Store(true) // only the batch as a whole is answered
		}
		if b.isOrdered(j) {
			b.ordered++
		}
		b.jobs[i] = j
	}
	return b
}

func (b *batchRun) isOrdered(j *job) bool {
	return j.req.IsNotification() && j.mode&(Quick|Unordered) == 0
}

// slow counts the messages that want a goroutine of their own.
func (b *batchRun) slow() int {
	n := 0
	for _, j := range b.jobs {
		if j != nil && j.mode&Quick == 0 {
			n++
		}
	}
	return n
}

// run works on this goroutine and on as many others as the batch has use for.
func (b *batchRun) run(dst []byte, onDone func()) []byte {
	b.onDone = onDone
	if b.ordered == 0 && onDone != nil {
		onDone()
	}
	b.parts = make([][]byte, len(b.msgs))
	var helpers sync.WaitGroup
	for range min(b.slow(), b.a.Limits.Parallel) - 1 {
		helpers.Go(b.work)
	}
	b.work()
	helpers.Wait()
	return b.join(dst)
}

// finish forgets the requests, once their answers are on their way.
func (b *batchRun) finish() { b.a.finishAll(b.jobs) }

func (a *Answerer) finishAll(all []*job) {
	for _, j := range all {
		if j != nil {
			a.finish(j)
			j.free()
		}
	}
}

// work takes messages until there are none.
func (b *batchRun) work() {
	for {
		i, j := b.take()
		if i < 0 {
			return
		}
		b.done(j, b.one(i, j))
	}
}

// take returns the next message that may start, and waits for a notification before it. -1 means none is left.
func (b *batchRun) take() (int, *job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.notifying {
		b.turn.Wait()
	}
	if b.next == len(b.msgs) {
		return -1, nil
	}
	i := b.next
	b.next++
	j := b.jobs[i]
	b.notifying = j != nil && b.isOrdered(j)
	return i, j
}

// done lets those wait no longer that came after a notification.
func (b *batchRun) done(j *job, n int) {
	b.mu.Lock()
	b.bytes += n
	last := false
	if j != nil && b.isOrdered(j) {
		b.notifying = false
		b.ordered--
		last = b.ordered == 0
		b.turn.Broadcast()
	}
	b.mu.Unlock()
	if last && b.onDone != nil {
		b.onDone()
	}
}

// one answers message i and returns the size of the answer.
func (b *batchRun) one(i int, j *job) int {
	m := &b.msgs[i]
	var out []byte
	switch {
	case m.kind == kindResponse || m.kind == kindBadResponse:
		b.a.takeResponse(b.x.Asker, m, b.payload)
	case m.kind == kindBadRequest:
		out = AppendError(nil, m.version, m.id, m.bad)
	case j == nil: // a cancel
	default:
		e := b.a.refuse(&j.req)
		if e == nil && b.full() && !j.req.IsNotification() {
			e = faultTooLarge
		}
		if e != nil {
			out = appendRefusal(j.out[:0], &j.req, m.version, e)
		} else {
			out, _ = b.a.execute(j, m.version, j.out[:0])
		}
		j.out = out
		if b.a.silent(j.run) {
			out = nil
		}
	}
	b.parts[i] = out
	return len(out)
}

// full reports whether the answers have reached their limit.
func (b *batchRun) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes > b.a.Limits.BatchBytes
}

// join appends the answers in the order of the requests.
func (b *batchRun) join(dst []byte) []byte {
	start := len(dst)
	for _, part := range b.parts {
		if len(part) == 0 {
			continue
		}
		if len(dst) == start {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, part...)
	}
	if len(dst) > start {
		dst = append(dst, ']')
	}
	return dst
}

// refuseAll answers every request of a batch that is not run with e.
func (b *batchRun) refuseAll(dst []byte, e *Error) []byte {
	b.parts = make([][]byte, len(b.msgs))
	for i, j := range b.jobs {
		if m := &b.msgs[i]; m.kind == kindBadRequest {
			b.parts[i] = AppendError(nil, m.version, m.id, m.bad)
		} else if j != nil && !j.req.IsNotification() {
			b.parts[i] = AppendError(nil, m.version, m.id, e)
		}
	}
	return b.join(dst)
}
