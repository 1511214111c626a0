package jsonrpc

import (
	"context"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A batchRun runs the messages of one batch (JSON-RPC 2.0, section 6).
//
// Requests run concurrently, up to Limits.Parallel. Notifications run one at a time in order, and
// no later message starts before a notification is done. The responses are in the order of the
// requests.
type batchRun struct {
	a       *Answerer
	x       *Exchange
	payload []byte
	msgs    []message
	jobs    []*job // nil for a message without a handler
	onDone  func() // called when the last ordered notification is done; may be nil

	mu        sync.Mutex // guards the fields below
	turn      sync.Cond
	next      int
	notifying bool
	ordered   int   // notifications that must be done before the messages after the batch
	bytes     int   // of the responses so far
	short     int   // the same of short ones that do not count in the process yet
	made      int64 // the same of those that do
	reserved  int64 // bytes that the members that run will probably respond with
	parts     [][]byte
	settled   []bool        // the messages that have their part
	left      int           // messages without a part
	late      []*running    // messages whose response was made in place of their handlers
	sent      bool          // the response was taken for sending
	given     chan struct{} // closed when the response was sent in place of run; nil unless it is
	helpers   sync.WaitGroup
}

// answerBatch runs the messages and appends the array of responses to dst, or nothing if there are
// none.
func (a *Answerer) answerBatch(ctx context.Context, dst, payload []byte, msgs []message, x *Exchange) []byte {
	if out, after, ok := a.quickBatch(ctx, dst, payload, msgs, x); ok {
		a.finishAll(after)
		return out
	}
	b := a.newBatch(ctx, payload, msgs, x)
	defer b.finish()
	defer b.forgetParts()
	return b.run(dst, nil)
}

// quickBatch runs a batch that consists only of quick requests, one after the other, and writes
// straight into dst. If the batch has another message, ok is false and nothing was run. The jobs in
// after have functions to run after the response.
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
			dst, _ = a.appendError(dst, m.version, m.id, m.bad)
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
			dst, _ = a.appendRefusal(dst, &j.req, m.version, e)
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

// newBatch prepares and admits all messages, so that each of them can be cancelled from now on.
func (a *Answerer) newBatch(ctx context.Context, payload []byte, msgs []message, x *Exchange) *batchRun {
	b := &batchRun{a: a, x: x, payload: payload, msgs: msgs, jobs: make([]*job, len(msgs))}
	extras := make([]extra, len(msgs))
	b.turn.L = &b.mu
	b.mu.Lock() // a member may exceed its deadline before the last one is prepared
	defer b.mu.Unlock()
	prepared := false
	defer func() {
		if !prepared { // Mode panicked
			b.finish()
		}
	}()
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
			extras[i] = extra{batch: b, index: i}
			a.admitMember(ctx, j, m, x, &extras[i])
		}
		if b.isOrdered(j) {
			b.ordered++
		}
		b.jobs[i] = j
	}
	prepared = true
	return b
}

func (b *batchRun) isOrdered(j *job) bool {
	return j.req.IsNotification() && j.mode&(Quick|Unordered) == 0
}

// expects returns how many bytes the response probably has.
func (b *batchRun) expects() (sum int64) {
	for _, j := range b.jobs {
		if j != nil && !j.req.IsNotification() {
			sum += j.recent.Get()
		}
	}
	return min(sum, int64(b.a.Limits.BatchBytes))
}

// slow counts the messages that need a goroutine.
func (b *batchRun) slow() int {
	n := 0
	for _, j := range b.jobs {
		if j != nil && j.mode&Quick == 0 {
			n++
		}
	}
	return n
}

// run works on this goroutine and on as many others as the batch can use.
func (b *batchRun) run(dst []byte, onDone func()) []byte {
	b.onDone = onDone
	if b.ordered == 0 && onDone != nil {
		onDone()
	}
	b.mu.Lock()
	b.begin()
	together, ok := b.a.Handler.(BatchHandler)
	if !ok {
		for range min(b.slow(), b.a.Limits.Parallel) - 1 {
			b.helpers.Go(b.work)
		}
	}
	b.mu.Unlock()
	if ok {
		b.together(together)
	} else {
		b.work()
	}
	b.helpers.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if given := b.given; given != nil {
		b.mu.Unlock()
		<-given
		b.mu.Lock()
		return dst
	}
	b.sent = true
	return b.join(dst)
}

// begin allocates the responses. The lock is held.
func (b *batchRun) begin() {
	if b.settled == nil {
		b.parts, b.settled, b.left = make([][]byte, len(b.msgs)), make([]bool, len(b.msgs)), len(b.msgs)
	}
}

// settle stores the response to message i, and reports whether it is the first. The lock is held.
func (b *batchRun) settle(i int, part []byte) bool {
	b.begin()
	if b.settled[i] {
		return false
	}
	b.parts[i], b.settled[i] = part, true
	b.left--
	return true
}

// giveUp sets the response to message i in place of its handler, which did not return in time or
// did not start; r is its context. If it was the last one without a response, the batch is
// complete. Another worker continues with the rest of the batch.
func (b *batchRun) giveUp(i int, r *running) {
	m := &b.msgs[i]
	var part []byte
	if m.kind == kindRequest {
		part, _ = b.a.appendError(nil, m.version, m.id, faultDeadline)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[i]
	if b.sent || !b.settle(i, part) {
		return
	}
	if i < b.next { // a worker runs it
		if b.isOrdered(j) {
			b.notifying = false
			b.turn.Broadcast()
		}
		b.helpers.Go(b.work)
	}
	go settlePeer(&r.peer)
	b.late = append(b.late, r)
	b.complete()
}

// complete sends the response once it has all parts, if run still waits for a handler. The lock is
// held.
func (b *batchRun) complete() {
	if b.left == 0 && len(b.late) > 0 && !b.sent {
		b.sent, b.given = true, make(chan struct{})
		out, late := b.join(nil), b.late
		go func() {
			defer close(b.given)
			defer rescue.Catch(b.a.report, nil) // of a transport
			for _, r := range late {
				settlePeer(&r.peer) // nothing may follow the response
			}
			if len(out) > 0 {
				b.a.sendLate(b.x, out, nil)
			}
			b.forgetParts()
		}()
	}
}

// forgetParts is called when the response is queued. What handlers make later counts until run
// returns.
func (b *batchRun) forgetParts() {
	b.mu.Lock()
	made := b.made
	b.made = 0
	b.mu.Unlock()
	if made > 0 {
		b.count(-made)
	}
}

// count counts n bytes of responses that the peer cannot read yet, or counts them no longer.
func (b *batchRun) count(n int64) {
	switch {
	case b.x.lane == nil:
		budget.Parts.Add(n)
	case n < 0:
		b.x.lane.sentPart(-n)
	default:
		b.x.lane.madePart(n)
	}
}

// finish removes the requests, once their responses are being sent.
func (b *batchRun) finish() { b.a.finishAll(b.jobs) }

func (a *Answerer) finishAll(all []*job) {
	for _, j := range all {
		if j != nil {
			a.finish(j)
			j.free()
		}
	}
}

// work runs messages until none is left.
func (b *batchRun) work() {
	for {
		i, j := b.take()
		if i < 0 {
			return
		}
		b.done(i, j, b.one(i, j))
	}
}

// take returns the next message that may start. It waits for a running notification. It returns -1
// if no message is left.
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
	b.notifying = j != nil && b.isOrdered(j) && !b.settled[i] // one that came too late does not run
	return i, j
}

// done stores the result of message i and, after a notification, wakes the workers that wait for
// it.
func (b *batchRun) done(i int, j *job, out []byte) {
	b.mu.Lock()
	b.bytes += len(out)
	n := len(out)
	if n < longResponse { // many short ones count once they are as much as several long ones
		if b.short += n; b.short < unreadBytes {
			n = 0
		} else {
			n, b.short = b.short, 0
		}
	}
	if n > 0 {
		b.count(int64(n))
		b.made += int64(n)
	}
	inTime := b.settle(i, out)
	b.complete()
	last := false
	if j != nil && b.isOrdered(j) {
		if inTime {
			b.notifying = false
		}
		b.ordered--
		last = b.ordered == 0
		b.turn.Broadcast()
	}
	b.mu.Unlock()
	if last && b.onDone != nil {
		b.onDone()
	}
}

// one returns the response to message i.
func (b *batchRun) one(i int, j *job) []byte {
	m := &b.msgs[i]
	var out []byte
	switch {
	case m.kind == kindResponse || m.kind == kindBadResponse:
		b.a.takeResponse(b.x.Asker, m, b.payload, true)
	case m.kind == kindBadRequest:
		out, _ = b.a.appendError(nil, m.version, m.id, m.bad)
	case j == nil: // a cancel message
	case b.isLate(i): // it has its response already
	default:
		e := b.a.refuse(&j.req)
		n := int64(0)
		if e == nil && !j.req.IsNotification() {
			n, e = b.reserve(j)
		}
		if e != nil {
			out, _ = b.a.appendRefusal(j.out[:0], &j.req, m.version, e)
		} else {
			out, _ = b.a.executeExpected(j, m.version, j.out[:0], b.x)
		}
		b.release(n)
		j.out = out
		if b.a.silent(j.run) {
			out = nil
		}
	}
	return out
}

// isLate reports whether message i got its response before it started.
func (b *batchRun) isLate(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled[i]
}

// full returns why no more members run: the responses have reached their limit, or a lower one
// while all connections hold too many responses. It returns nil if they run.
func (b *batchRun) full() *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.bytes > b.a.Limits.BatchBytes:
		return faultTooLarge
	case b.bytes > unreadBytes && b.areTooMany():
		return faultBusy
	}
	return nil
}

// areTooMany reports whether all connections, or all batches without one, hold too many responses.
func (b *batchRun) areTooMany() bool {
	if b.x.lane == nil {
		return budget.Parts.Load() > mostUnread
	}
	return unreadIsFull()
}

// reserve is full for a member that is about to run. Without a lane, which decides that for a whole
// batch, it counts n bytes of the response that the member will probably have, until release.
func (b *batchRun) reserve(j *job) (n int64, e *Error) {
	if e = b.full(); e != nil || b.x.lane != nil {
		return 0, e
	}
	n = j.recent.Get()
	b.mu.Lock()
	defer b.mu.Unlock()
	if own := int64(b.bytes) + b.reserved; n > 0 && own > 0 && own+n > unreadBytes && budget.Parts.Load()+n > mostUnread {
		return 0, faultBusy
	}
	b.reserved += n
	b.count(n)
	return n, nil
}

func (b *batchRun) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= n
	b.count(-n)
}

// join appends the responses in the order of the requests.
func (b *batchRun) join(dst []byte) []byte {
	start, size := len(dst), 2
	for _, part := range b.parts {
		size += len(part) + 1
	}
	dst = slices.Grow(dst, size)
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

// refuseBatch responds with e to every request of a batch that is not run.
func (a *Answerer) refuseBatch(dst []byte, msgs []message, e *Error) []byte {
	start := len(dst)
	for i := range msgs {
		m := &msgs[i]
		fault := e
		switch m.kind {
		case kindRequest:
		case kindBadRequest:
			fault = m.bad
		default:
			continue
		}
		between := byte(',')
		if len(dst) == start {
			between = '['
		}
		dst, _ = a.appendError(append(dst, between), m.version, m.id, fault)
	}
	if len(dst) > start {
		dst = append(dst, ']')
	}
	return dst
}

// hasNotification reports whether msgs contains a notification: notifications are never dropped.
func hasNotification(msgs []message) bool {
	return slices.ContainsFunc(msgs, func(m message) bool { return m.kind == kindNotification })
}
