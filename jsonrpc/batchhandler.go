package jsonrpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// A BatchHandler is a Handler that gets the valid messages of a batch (JSON-RPC 2.0, section 6)
// together, so that it can pass many of them on at once. An Answerer whose Handler is a
// BatchHandler calls HandleBatch for each batch that has a message whose method is not [Quick], and
// Handle for all other messages.
//
// The Answerer checks each member before (access, version, shutdown), and makes the array of
// responses in the order of the requests, within Limits.BatchBytes. A batch takes one place of the
// Gate.
type BatchHandler interface {
	Handler

	// HandleBatch answers each of the members. They are requests and notifications, in the order of
	// the batch; there is at least one. HandleBatch chooses in which order they run, and must itself
	// hold the order of notifications. A member that is not answered when it returns gets "Internal
	// error". If it panics, all of these do.
	//
	// ctx ends when the connection is closed; each member has its own context, which also ends when
	// its deadline passes or its caller cancels it. The members and their Requests are valid until
	// HandleBatch returns.
	HandleBatch(ctx context.Context, members []*Member)
}

// A Member is one request or notification of a batch that a [BatchHandler] handles.
type Member struct {
	*Request

	batch    *batchMembers
	index    int // in the batch
	job      *job
	answered atomic.Bool
	result   any
	err      error
}

// Context returns the context of this member. It ends as the context of [Handler].Handle does.
func (m *Member) Context() context.Context { return m.job.ctx }

// Answer sets the result or the error of the member, as the return values of [Handler].Handle do.
// For a notification it says that the notification is done. The first call has an effect, the
// others have none. It is safe for concurrent use.
func (m *Member) Answer(result any, err error) {
	if m.answered.CompareAndSwap(false, true) {
		m.settle(result, err)
	}
}

// settle makes the response of a member that was not answered before.
func (m *Member) settle(result any, err error) {
	run := m.batch.run
	defer m.batch.left.Done()
	if !m.IsNotification() {
		if e := run.full(); e != nil {
			result, err = nil, e
		}
	}
	m.result, m.err = result, err
	j := m.job
	out, _ := run.a.execute(j, run.msgs[m.index].version, j.out[:0])
	j.out = out
	if run.a.silent(j.run) {
		out = nil
	}
	run.done(m.index, j, out)
}

// A batchMembers is what the members of one batch share.
type batchMembers struct {
	run  *batchRun
	left sync.WaitGroup // members without an answer
}

// errUnanswered is reported for a member that its BatchHandler did not answer.
var errUnanswered = errors.New("jsonrpc: the batch handler returned without an answer to this message")

// together runs the batch by one call of h.
func (b *batchRun) together(h BatchHandler) {
	b.mu.Lock()
	b.next = len(b.msgs) // no worker takes one of them
	b.mu.Unlock()
	shared := &batchMembers{run: b}
	members := make([]*Member, 0, len(b.jobs))
	for i, j := range b.jobs {
		if j == nil || b.isLate(i) || b.a.refuse(&j.req) != nil {
			b.done(i, j, b.one(i, j))
			continue
		}
		m := &Member{Request: &j.req, batch: shared, index: i, job: j}
		shared.left.Add(1)
		j.member = m
		if err := b.check(j); err != nil {
			m.Answer(nil, err)
			continue
		}
		members = append(members, m)
	}
	if len(members) > 0 {
		b.handle(h, members)
	}
	shared.left.Wait()
}

// check is the access check of a member, which may panic.
func (b *batchRun) check(j *job) error {
	if b.x.Check == nil {
		return nil
	}
	return b.a.guarded(j.req.Method, func() error { return b.x.Check(j.ctx, &j.req) })
}

// handle calls h within one place of the Gate, and answers what it has left.
func (b *batchRun) handle(h BatchHandler, members []*Member) {
	rest := errUnanswered
	defer func() {
		for _, m := range members {
			m.Answer(nil, rest)
		}
	}()
	parent := members[0].job.ctx
	if i := slices.IndexFunc(members, func(m *Member) bool { return m.job.run != nil }); i >= 0 {
		j := members[i].job
		parent = j.run.parent
		if b.a.Gate != nil {
			if !b.a.enterGate(j) {
				rest = faultBusy
				return
			}
			defer j.leaveGate()
		}
	}
	err := b.a.guarded(members[0].Method, func() error {
		h.HandleBatch(parent, members)
		return nil
	})
	if err != nil {
		rest = err
	}
}
