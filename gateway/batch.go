package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	// mostAtOnce is how many members of a batch run at once on a group that gets single calls.
	mostAtOnce = 64

	// mostInArray is how many members are sent in one array, so that the calls of others can run
	// between the arrays of a long batch.
	mostInArray = 128
)

// HandleBatch passes on the members of a batch. Each is checked alone and fails alone. Members for
// the same group of HTTP upstreams are sent in one array, or several of up to 128 members. All
// groups work at the same time.
func (r router) HandleBatch(ctx context.Context, members []*jsonrpc.Member) {
	s := r.gateway.enter()
	defer s.leave()
	parts := make(map[*group[*upstream]]*batchPart)
	var order []*batchPart
	for _, m := range members {
		if r.only == nil && r.gateway.controls(s, m.Method) {
			m.Answer(r.gateway.control.Handle(m.Context(), m.Request))
			continue
		}
		p, e := r.pass(m.Context(), s, m.Request)
		if e != nil {
			m.Answer(nil, e)
			continue
		}
		to := p.route.to
		part := parts[to]
		if part == nil {
			part = &batchPart{router: r, to: to}
			parts[to] = part
			order = append(order, part)
		}
		part.entries = append(part.entries, &batchEntry{m: m, p: p})
	}
	var wait sync.WaitGroup
	for _, part := range order {
		wait.Go(func() {
			defer rescue.Catch(r.gateway.report, nil) // a member without an answer gets an error
			part.run(ctx)
		})
	}
	wait.Wait()
}

// A batchPart has the members of a batch that go to one group.
type batchPart struct {
	router  router
	to      *group[*upstream]
	entries []*batchEntry
	at      atomic.Pointer[string] // the name of the upstream that got the array last
}

// A batchEntry is one member of a batch.
type batchEntry struct {
	m    *jsonrpc.Member
	p    passage
	done bool // it has its response, or was sent as a notification

	key    cacheKey
	stores bool // its result is stored with the key
}

func (b *batchPart) run(ctx context.Context) {
	for _, e := range b.entries {
		if e.key, e.stores = e.p.cacheKey(); !e.stores {
			continue
		}
		if result, ok := b.router.gateway.cache.get(e.key); ok {
			e.stores = false
			b.answer(e, result, nil)
		}
	}
	b.entries = b.missing(b.entries)
	ordered := slices.ContainsFunc(b.entries, func(e *batchEntry) bool { return e.m.IsNotification() })
	var arrays sync.WaitGroup
	defer arrays.Wait()
	for entries := range slices.Chunk(b.entries, mostInArray) {
		part := &batchPart{router: b.router, to: b.to, entries: entries}
		if ordered || len(b.entries) <= mostInArray {
			part.send(ctx)
			continue
		}
		arrays.Go(func() {
			defer rescue.Catch(b.router.gateway.report, nil)
			part.send(ctx)
		})
	}
}

// send sends the entries in one array if they may be, and alone otherwise.
func (b *batchPart) send(ctx context.Context) {
	if len(b.entries) > 1 && b.takesArrays() && b.array(ctx) {
		return
	}
	b.oneByOne()
}

// takesArrays reports whether all upstreams of the group may be sent arrays.
func (b *batchPart) takesArrays() bool {
	for _, m := range b.to.members {
		if !m.value.isHTTP || m.value.singles.Load() {
			return false
		}
	}
	return true
}

// array sends the entries in one array. It returns false if an upstream takes no arrays; then
// entries that are not done must be sent alone.
func (b *batchPart) array(ctx context.Context) bool {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var waiting atomic.Int64 // entries whose callers wait
	waiting.Store(int64(len(b.entries)))
	left := func() {
		if waiting.Add(-1) == 0 {
			cancel(errTimeout)
		}
	}
	for _, e := range b.entries {
		defer b.watch(e, sync.OnceFunc(left))()
	}
	rules := b.entries[0].p.route.rules
	rules.Hedge = false
	info := callInfo{principal: b.entries[0].p.principal, weight: len(b.entries)}
	for _, e := range b.entries {
		rules.Timeout = max(rules.Timeout, e.p.route.rules.Timeout)
		one := e.p.info()
		info.bytes += one.bytes
		info.idempotent = info.idempotent || one.idempotent
	}
	d, err := dispatch(ctx, b.to, &rules, info, func(ctx context.Context, m *member[*upstream]) outcome[bool] {
		b.at.Store(&m.name)
		defer b.router.gateway.metrics.attempted(m.name, time.Now())
		o := b.attempt(ctx, m, b.live())
		if o.kind == failed || o.kind == paused {
			b.giveUp(failure(m.name, o.kind, o.err, o.retryAfter), cancel)
		}
		return o
	})
	if err == nil && d.value {
		return false
	}
	for _, e := range b.missing(b.entries) {
		b.answer(e, nil, err)
	}
	return true
}

// live returns the entries without a response whose callers wait.
func (b *batchPart) live() (list []*batchEntry) {
	for _, e := range b.missing(b.entries) {
		if e.m.Context().Err() == nil {
			list = append(list, e)
		}
	}
	return list
}

// giveUp answers the entries that must not be sent again after an attempt that may have run them.
// If no others are left, it cancels the attempts.
func (b *batchPart) giveUp(err error, cancel context.CancelCauseFunc) {
	for _, e := range b.missing(b.entries) {
		if !e.p.info().idempotent {
			b.answer(e, nil, err)
		}
	}
	if len(b.missing(b.entries)) == 0 {
		cancel(nil)
	}
}

func (b *batchPart) missing(entries []*batchEntry) (list []*batchEntry) {
	for _, e := range entries {
		if !e.done {
			list = append(list, e)
		}
	}
	return list
}

// attempt sends one array to one upstream. The value of its outcome is whether the upstream takes
// no arrays.
func (b *batchPart) attempt(ctx context.Context, m *member[*upstream], entries []*batchEntry) outcome[bool] {
	items := make([]jsonrpc.Item, len(entries))
	results := make([]jsonrpc.Raw, len(entries))
	for i, e := range entries {
		e.p.account.sent(m.name, 1, 0)
		items[i] = jsonrpc.Item{Method: e.p.method, Params: rawOrNil(e.m.Params), Notify: e.m.IsNotification()}
		if !items[i].Notify {
			items[i].Result = &results[i]
		}
	}
	err := m.value.batch(ctx, items)
	if errors.Is(err, jsonrpc.ErrBatchRefused) {
		m.value.singles.Store(true)
		return outcome[bool]{value: true}
	}
	var declined error
	for i, e := range entries {
		switch failed := items[i].Err; {
		case b.to.isDeclined(failed):
			declined = failed
		case failed != nil && err != nil && !isAnswer(failed): // of the whole array
		case failed != nil:
			b.answer(e, nil, outcomeOf(m.name, failed, nil).faultOf(m.name))
		case e.m.IsNotification() && err != nil:
		case err == nil || results[i] != nil:
			b.answer(e, results[i], nil)
		}
	}
	if err == nil && declined != nil {
		return outcome[bool]{kind: notSent, err: declined}
	}
	if err == nil {
		return outcome[bool]{}
	}
	o := outcomeOf(m.name, err, nil)
	if o.kind == answered { // one error for all
		for _, e := range b.missing(entries) {
			b.answer(e, nil, o.value.err)
		}
		return outcome[bool]{}
	}
	return outcome[bool]{kind: o.kind, err: o.err, retryAfter: o.retryAfter}
}

// faultOf returns the error for one call of an array.
func (o outcome[R]) faultOf(name string) error {
	if r, ok := any(o.value).(reply); ok && o.kind == answered {
		return r.err
	}
	return failure(name, o.kind, o.err, o.retryAfter)
}

// watch answers an entry whose time has passed or whose caller has cancelled it, while the array
// goes on for the others. done is called then, or by the returned function, which ends the watch.
func (b *batchPart) watch(e *batchEntry, done func()) (end func()) {
	ctx, cancel := context.WithTimeoutCause(e.m.Context(), e.p.route.rules.Timeout, errTimeout)
	stop := context.AfterFunc(ctx, func() {
		defer rescue.Catch(b.router.gateway.report, nil)
		defer done()
		err := context.Cause(ctx)
		if errors.Is(err, errTimeout) {
			late := &callError{reason: reasonTimeout, upstream: b.to.name}
			if name := b.at.Load(); name != nil {
				late.upstream = *name
			}
			err = late.fault().error()
		}
		e.respond(nil, err)
	})
	return func() {
		stop()
		cancel()
		done()
	}
}

// oneByOne sends the entries that are not done as single messages. Notifications keep their order:
// each waits for the notifications before it, and for nothing else.
func (b *batchPart) oneByOne() {
	var wait sync.WaitGroup
	places := make(chan struct{}, mostAtOnce)
	for _, e := range b.missing(b.entries) {
		if e.m.IsNotification() {
			b.single(e)
			continue
		}
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			defer rescue.Catch(b.router.gateway.report, nil)
			b.single(e)
		})
	}
	wait.Wait()
}

func (b *batchPart) single(e *batchEntry) {
	e.done = true
	result, err := b.router.send(e.m.Context(), &e.p, nil)
	e.respond(result, err)
}

// respond sends the response of an entry, if it has none yet.
func (e *batchEntry) respond(result jsonrpc.Raw, err error) {
	e.p.account.end(len(result), err)
	if err != nil {
		e.m.Answer(nil, err)
		return
	}
	e.m.Answer(result, nil)
}

// answer sets the response of an entry.
func (b *batchPart) answer(e *batchEntry, result jsonrpc.Raw, err error) {
	e.done = true
	if e.stores && err == nil {
		b.router.gateway.cache.store(e.key, result, e.p.route.Cache.TTL)
	}
	if c, ok := errors.AsType[*callError](err); ok {
		err = b.router.failed(&e.p, c)
	}
	e.respond(result, err)
}

var _ jsonrpc.BatchHandler = router{}
