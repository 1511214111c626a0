package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// maxMembers is the maximum number of members of a group.
const maxMembers = 256

// A member is one upstream of a group: a value of the integrator, such as its links, with the
// mechanisms that protect it. A member belongs to one group at a time. It may be passed to a new
// group after a reload, with its breaker, queue and statistics.
type member[T any] struct {
	value   T
	name    string // of the server in the file; the hash of sessions depends on it
	breaker *breaker
	queue   *queue
	health  *health // nil if there are no active checks

	// retired stops new calls: the server has changed or was removed.
	retired atomic.Bool

	hash    uint64
	pending atomic.Int32 // calls that were assigned to it and have not ended

	mu       sync.Mutex // guards the fields below
	load     average
	recent   latencies
	calls    uint64 // attempts that have ended
	failures uint64
}

// newMember makes a member. checks may be nil. Calls that wait in q leave it when b opens.
func newMember[T any](name string, value T, b *breaker, q *queue, checks *health) *member[T] {
	b.stopped = q.flush
	return &member[T]{name: name, value: value, breaker: b, queue: q, health: checks, hash: hashOf(name)}
}

// A memberStatus is a snapshot for the status and for metrics.
type memberStatus struct {
	Name     string
	State    string // healthy, half-open, open, paused, failed, cordoned or draining
	Calls    uint64
	Failures uint64
	P50, P99 time.Duration // of the last 1,000 calls with a response
	Pending  int           // calls that run or wait for this member
	Breaker  breakerStatus
	Queue    queueStatus
	Health   *healthStatus // nil if there are no active checks
}

func (m *member[T]) status() memberStatus {
	s := memberStatus{Name: m.name, Pending: int(m.pending.Load()), Breaker: m.breaker.status(time.Now()), Queue: m.queue.status()}
	m.mu.Lock()
	s.Calls, s.Failures = m.calls, m.failures
	sorted := m.recent.sorted(nil)
	m.mu.Unlock()
	s.P50, s.P99 = quantile(sorted, 0.5), quantile(sorted, 0.99)
	if m.health != nil {
		h := m.health.status()
		s.Health = &h
	}
	switch {
	case m.retired.Load():
		s.State = "draining"
	case s.Breaker.State != breakerClosed:
		s.State = s.Breaker.State.String()
	case s.Health != nil && !s.Health.Up:
		s.State = "failed"
	case s.Breaker.Paused > 0:
		s.State = "paused"
	default:
		s.State = "healthy"
	}
	return s
}

// usable reports whether the member may get a call.
func (m *member[T]) usable(now time.Time) bool {
	return !m.retired.Load() && (m.health == nil || m.health.up()) && m.breaker.usable(now)
}

// refusal returns the error for a call that this member cannot get.
func (m *member[T]) refusal(now time.Time) *callError {
	e := &callError{upstream: m.name}
	b := m.breaker.status(now)
	switch {
	case m.retired.Load():
		e.reason, e.retryAfter = reasonDraining, time.Second
	case b.State == breakerCordoned:
		e.reason = reasonCordoned
	case b.State == breakerOpen, b.State == breakerHalfOpen:
		e.reason, e.retryAfter = reasonBreakerOpen, max(b.RetryAfter, time.Millisecond)
	case m.health != nil && !m.health.up():
		e.reason, e.retryAfter = reasonUnreachable, healthKicked
	default:
		e.reason, e.retryAfter = reasonRateLimited, max(b.Paused, time.Millisecond)
	}
	return e
}

// A group is one or more equal upstreams: every call goes to one of them. It is made by newGroup;
// dispatch sends a call. Its methods are safe for concurrent use.
type group[T any] struct {
	// cacheName is the name of this group in the cache. A group that replaces it after a reload has
	// another one: results of servers that were removed are not used.
	cacheName string

	name    string
	members []*member[T]
	hash    uint64
	retries allowance // 20 % of the calls, and 10 per second
	hedges  allowance // 5 % of the calls, and 10 per second
	losers  sync.WaitGroup

	// report gets panics of attempts that run beside a hedge; set it before the first call.
	report func(what string, err error)

	mu     sync.Mutex // guards the fields below
	recent latencies  // of calls that may be hedged
	sorted []uint32   // recent, as of some calls ago
	stale  int        // calls since then

	retried, hedged, hedgesWon atomic.Uint64
}

// newGroup makes a group. It returns an error for a group without members, or with more than 256.
func newGroup[T any](name string, members ...*member[T]) (*group[T], error) {
	if len(members) == 0 || len(members) > maxMembers {
		return nil, fmt.Errorf("group %s has %d servers: there must be 1 to %d", name, len(members), maxMembers)
	}
	return groupOf(name, members...), nil
}

// groupsMade numbers the groups of the process.
var groupsMade atomic.Uint64

func groupOf[T any](name string, members ...*member[T]) *group[T] {
	return &group[T]{
		cacheName: fmt.Sprint(name, " ", groupsMade.Add(1)), name: name, members: members, hash: hashOf(name),
		retries: allowance{ratio: 0.2, perSecond: 10}, hedges: allowance{ratio: 0.05, perSecond: 10},
	}
}

// close waits for attempts that lost a race against their hedge. Their contexts have ended.
func (g *group[T]) close() { g.losers.Wait() }

// An outcomeKind is how an attempt ended.
type outcomeKind uint8

const (
	// answered: the upstream responded, with a result or a JSON-RPC error. It is never retried.
	answered outcomeKind = iota

	// notSent: no byte was sent, such as a connection that is refused, a TLS failure, or a link that
	// was closed before. It is a failure of the upstream, and any call may be retried.
	notSent

	// failed: the call may have run, such as a cut connection, a time-out, HTTP 5xx, or an answer
	// that is not JSON-RPC. It is a failure, and idempotent calls may be retried.
	failed

	// paused: the upstream refused for now, with HTTP 429 or Retry-After. It is not a failure. The
	// member gets no calls for retryAfter, and idempotent calls may be retried.
	paused
)

// An outcome is the result of one attempt.
type outcome[R any] struct {
	kind       outcomeKind
	value      R             // of an answered attempt
	err        error         // of any other
	retryAfter time.Duration // of a paused one; 0 means 1 s
}

// A delivery is the result of a call with all its attempts.
type delivery[R any] struct {
	value    R
	upstream string // the member that responded
	attempts int    // with hedges
	hedges   int
}

// callRules are what the route determines for its calls. Zero values are the defaults.
type callRules struct {
	// Timeout bounds all attempts together. If it is zero, only the context of the call does, and a
	// failure counts as 60 s in the choice of members.
	Timeout time.Duration

	// Attempts is the maximum number of attempts, without hedges. The default is 3. If no byte of
	// the call was sent and the group has other members, up to 3 of them are tried even if it is 1.
	Attempts int

	// Backoff is the time before the second attempt, ± 20 %. It doubles for each further one. The
	// default is 50 ms.
	Backoff time.Duration

	// Hedge enables a second attempt at another member while the first one takes long: after
	// HedgeAfter, or if that is zero after the time in which the part HedgeQuantile of the last
	// 1,000 calls had a response, at least HedgeMin. The default of HedgeQuantile is 0.95. Only
	// idempotent calls are hedged.
	Hedge         bool
	HedgeAfter    time.Duration
	HedgeQuantile float64
	HedgeMin      time.Duration
}

// A callInfo describes one call.
type callInfo struct {
	principal string // for the queue
	bytes     int64  // its size, for the queue
	weight    int    // 1, or the number of members of an array; the default is 1

	// idempotent permits a second attempt after one that may have run, and hedges.
	idempotent bool

	// session selects the same member for all calls with the same value, as long as that member may
	// be used. If empty, each call is assigned alone.
	session string
}

const (
	defaultAttempts = 3
	defaultBackoff  = 50 * time.Millisecond
	defaultQuantile = 0.95
	hedgeKnown      = 20 // calls that must be known for the quantile
	hedgeStale      = 50 // calls after which it is computed again
)

// dispatch sends a call to a member of g: it chooses the member, waits in its queue, runs attempt,
// and tries again where that is safe. attempt must return soon after its ctx ends, must not retain
// the call's buffers after that, and may run twice at once for a call with a hedge.
//
// The error is a *callError, or the cause of ctx if the caller has left. dispatch allocates
// nothing for a call without Timeout and Hedge whose first attempt succeeds.
func dispatch[T, R any](ctx context.Context, g *group[T], o *callRules, c callInfo, attempt func(context.Context, *member[T]) outcome[R]) (delivery[R], error) {
	caller := ctx
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, errTimeout)
		defer cancel()
	}
	g.retries.calls.Add(1)
	g.hedges.calls.Add(1)
	most := o.Attempts
	if most <= 0 {
		most = defaultAttempts
	}
	var d delivery[R]
	var tried memberSet
	var last *callError
	for n := 1; ; n++ {
		l, err := g.acquire(ctx, c, &tried, true)
		if err != nil {
			if last != nil && ctx.Err() == nil {
				err = last // it explains more than that there is no other member
			}
			return d, g.ended(caller, ctx, "", err)
		}
		tried.add(l.index)
		var out outcome[R]
		if after, ok := g.hedgeAfter(o, c); ok {
			out, l = race(ctx, g, o, c, l, after, &d, attempt)
			tried.add(l.index)
		} else {
			d.attempts++
			out = run(ctx, g, o, l, attempt)
		}
		name := l.m.name
		if out.kind == answered {
			d.value, d.upstream = out.value, name
			return d, nil
		}
		last = failure(name, out.kind, out.err, out.retryAfter)
		limit := most
		if out.kind == notSent && g.another(time.Now(), &tried) {
			limit = max(most, defaultAttempts)
		}
		if ctx.Err() != nil || out.kind != notSent && !c.idempotent || n >= limit {
			return d, g.ended(caller, ctx, name, last)
		}
		if err := g.backOff(ctx, o, n); err != nil {
			return d, g.ended(caller, ctx, name, last)
		}
		g.retried.Add(1)
	}
}

// failure returns the error of an attempt without a response.
func failure(name string, kind outcomeKind, err error, retryAfter time.Duration) *callError {
	e := &callError{reason: reasonFailed, upstream: name, err: err}
	switch kind {
	case notSent:
		e.reason = reasonUnreachable
	case paused:
		e.reason = reasonRateLimited
		if e.retryAfter = retryAfter; e.retryAfter <= 0 {
			e.retryAfter = busyPause
		}
	}
	return e
}

// ended returns the error of a call: the cause of the caller's context if the caller has left, a
// time-out if the time has passed, or else err.
func (g *group[T]) ended(caller, ctx context.Context, name string, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case left(caller):
		return context.Cause(caller)
	}
	e := &callError{reason: reasonTimeout, upstream: name, err: context.Cause(ctx)}
	if name == "" {
		if c, ok := errors.AsType[*callError](err); ok {
			e.upstream = c.upstream
		}
	}
	return e
}

// left reports whether the caller has cancelled, and not only run out of time.
func left(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), jsonrpc.ErrTimeout)
}

// backOff waits before attempt n+1. It returns an error if there is no time or no budget for it.
func (g *group[T]) backOff(ctx context.Context, o *callRules, n int) error {
	wait := o.Backoff
	if wait <= 0 {
		wait = defaultBackoff
	}
	wait = time.Duration(float64(wait) * math.Pow(2, float64(n-1)) * spread())
	now := time.Now()
	if end, ok := ctx.Deadline(); ok && end.Sub(now) <= wait {
		return errTimeout
	}
	if !g.retries.take(now) {
		return errNoBudget
	}
	return pause.For(ctx, wait)
}

var errNoBudget = errors.New("the group has no budget for another attempt")

// A lease is a member that was acquired for one attempt.
type lease[T any] struct {
	m      *member[T]
	index  int
	permit permit
	weight int
	start  time.Time
}

// acquire chooses a member and waits in its queue. Members in tried are avoided: used only if
// there is no other one, and not at all if again is false; then it does not wait in a queue
// either.
func (g *group[T]) acquire(ctx context.Context, c callInfo, tried *memberSet, again bool) (lease[T], error) {
	var session uint64
	if c.session != "" {
		session = hashOf(c.session) ^ g.hash
	}
	var out memberSet // members that refused
	var full error
	for {
		now := time.Now()
		i := g.choose(now, session, tried, &out, again)
		if i < 0 {
			if full == nil {
				full = g.refusal(now)
			}
			return lease[T]{}, full
		}
		m := g.members[i]
		out.add(i)
		p, ok := m.breaker.allow(now)
		if !ok {
			continue
		}
		m.pending.Add(1)
		waited := false
		var err error
		if again {
			waited, err = m.queue.enter(ctx, c.principal, c.weight, c.bytes)
		} else if !m.queue.tryEnter(c.weight) {
			err = errNoBudget
		}
		if waited {
			now = time.Now()
		}
		l := lease[T]{m, i, p, c.weight, now}
		switch {
		case err != nil:
			m.breaker.done(p, verdictNone, now)
			m.pending.Add(-1)
			if e, ok := err.(*callError); ok { //nolint:errorlint // enter returns it unwrapped
				e.upstream = m.name
			}
			if errors.Is(err, errFlushed) {
				continue // to another member, or to the error of a group without one
			}
			if waited || !again {
				return l, err
			}
			full = err
		case waited && (m.retired.Load() || !m.breaker.valid(p, now)): // it failed while this call waited
			l.end(verdictNone, 0, now)
		default:
			return l, nil
		}
	}
}

// refusal returns the error of a group without a usable member: of the member that may be used
// first.
func (g *group[T]) refusal(now time.Time) error {
	var best *callError
	for _, m := range g.members {
		if m.health != nil && !m.health.up() {
			m.health.kick()
		}
		e := m.refusal(now)
		if best == nil || e.retryAfter > 0 && (best.retryAfter == 0 || e.retryAfter < best.retryAfter) {
			best = e
		}
	}
	return best
}

// end gives a member back after an attempt. took is its time, for the choice of members; 0 changes
// nothing there.
func (l *lease[T]) end(v verdict, took time.Duration, now time.Time) {
	m := l.m
	m.breaker.done(l.permit, v, now)
	m.queue.leave(l.weight)
	m.pending.Add(-1)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch v {
	case verdictSuccess:
		m.calls++
		if l.permit.trial {
			m.load = average{} // what it was before it failed does not count
		}
		m.recent.add(took)
		m.load.add(took, now)
	case verdictFailure:
		m.calls++
		m.failures++
		m.load.add(took, now)
	case verdictNone:
		if took > 0 && float64(took) > m.load.at(now) { // it takes longer than others
			m.load.add(took, now)
		}
	}
}

// run runs one attempt and gives its member back.
func run[T, R any](ctx context.Context, g *group[T], o *callRules, l lease[T], attempt func(context.Context, *member[T]) outcome[R]) (out outcome[R]) {
	v := verdictFailure // also if attempt panics
	defer func() {
		now := time.Now()
		took := now.Sub(l.start)
		switch {
		case v == verdictSuccess && o.Hedge:
			g.record(took)
		case v == verdictFailure:
			if took = o.Timeout; took <= 0 {
				took = defaultTimeout
			}
		}
		l.end(v, took, now)
	}()
	out = attempt(ctx, l.m)
	switch {
	case out.kind == answered:
		v = verdictSuccess
	case out.kind == paused:
		v = verdictNone
		l.m.breaker.pause(out.retryAfter, time.Now())
	case left(ctx):
		v = verdictNone // its caller has left, or the other attempt won
	}
	return out
}

// another reports whether a member that is not in tried is usable.
func (g *group[T]) another(now time.Time, tried *memberSet) bool {
	for i, m := range g.members {
		if !tried.has(i) && m.usable(now) {
			return true
		}
	}
	return false
}

// choose returns the index of the best member for a call, or -1.
func (g *group[T]) choose(now time.Time, session uint64, tried, out *memberSet, again bool) int {
	var fresh, used [maxMembers]uint8
	nf, nu := 0, 0
	for i, m := range g.members {
		switch {
		case out.has(i) || !m.usable(now):
		case tried.has(i):
			used[nu] = uint8(i)
			nu++
		default:
			fresh[nf] = uint8(i)
			nf++
		}
	}
	list := fresh[:nf]
	if nf == 0 && again {
		list = used[:nu]
	}
	switch {
	case len(list) == 0:
		return -1
	case len(list) == 1:
		return int(list[0])
	case session != 0:
		return g.rendezvous(session, list)
	}
	for _, i := range list {
		if g.members[i].breaker.due(now) {
			return int(i) // a trial: one call at a time
		}
	}
	a := rand.IntN(len(list))
	b := rand.IntN(len(list) - 1)
	if b >= a {
		b++
	}
	return int(g.lighter(list[a], list[b], now))
}

// lighter returns the one of two members with the lower product of latency and calls.
func (g *group[T]) lighter(a, b uint8, now time.Time) uint8 {
	x, y := g.members[a], g.members[b]
	p, q := float64(x.pending.Load()+1), float64(y.pending.Load()+1)
	lx, ly := x.latency(now), y.latency(now)
	if lx > 0 && ly > 0 { // a member without a response yet is compared by its calls alone
		p, q = p*lx, q*ly
	}
	if q < p {
		return b
	}
	return a
}

// latency returns the average latency in nanoseconds, or 0 if nothing is known.
func (m *member[T]) latency(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.load.at(now)
}

// rendezvous returns the member with the highest hash together with the session: if a member is
// lost, only its sessions go to others.
func (g *group[T]) rendezvous(session uint64, list []uint8) int {
	best, most := -1, uint64(0)
	for _, i := range list {
		if score := mix(session ^ g.members[i].hash); best < 0 || score > most {
			best, most = int(i), score
		}
	}
	return best
}

// hashOf is FNV-1a: the same in all replicas.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finalizer of SplitMix64.
func mix(h uint64) uint64 {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}

// A memberSet is a set of indexes of members.
type memberSet [maxMembers / 64]uint64

func (s *memberSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *memberSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// An average is an exponentially weighted moving average of latencies. A value counts less the
// older it is, with a time of decay of 10 s; while there is no new one, the average falls, so that
// a slow member is tried again.
type average struct {
	value float64 // in nanoseconds; 0 before the first value
	last  time.Time
}

const (
	averageDecay = 10 * time.Second
	averageLeast = float64(time.Microsecond)
)

func (a *average) at(now time.Time) float64 {
	if a.value == 0 {
		return 0
	}
	return max(a.value*decay(now.Sub(a.last)), averageLeast)
}

func (a *average) add(took time.Duration, now time.Time) {
	if a.value == 0 {
		a.value = max(float64(took), averageLeast)
	} else {
		w := decay(now.Sub(a.last))
		a.value = max(a.value*w+float64(took)*(1-w), averageLeast)
	}
	if now.After(a.last) {
		a.last = now
	}
}

func decay(d time.Duration) float64 { return math.Exp(-max(d.Seconds(), 0) / averageDecay.Seconds()) }

// latencies are the last 1,000 latencies in microseconds.
type latencies struct {
	ring  []uint32 // made with the first value
	count int      // of all values
}

const latencyRing = 1000

func (l *latencies) add(d time.Duration) {
	if l.ring == nil {
		l.ring = make([]uint32, latencyRing)
	}
	l.ring[l.count%latencyRing] = uint32(min(max(d.Microseconds(), 0), math.MaxUint32))
	l.count++
}

// sorted appends the values to dst and sorts them.
func (l *latencies) sorted(dst []uint32) []uint32 {
	dst = append(dst, l.ring[:min(l.count, len(l.ring))]...)
	slices.Sort(dst)
	return dst
}

// quantile returns the smallest value that a part q of all values does not exceed, or 0.
func quantile(sorted []uint32, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return time.Duration(sorted[max(i, 0)]) * time.Microsecond
}

// An allowance permits something for a part of all calls, and some more every second. At first,
// and after a pause, one second's worth is there. Of what calls have added, 100 are retained.
type allowance struct {
	ratio     float64 // for each call
	perSecond float64
	calls     atomic.Uint64 // counted by the caller

	mu     sync.Mutex // guards the fields below
	seen   uint64     // of calls
	earned float64    // by calls
	timed  float64    // by time
	last   time.Time
}

const allowanceRetained = 100

// take uses one permission, and reports whether there was one.
func (a *allowance) take(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := a.calls.Load()
	a.earned = min(a.earned+a.ratio*float64(calls-a.seen), allowanceRetained)
	a.seen = calls
	if a.last.IsZero() {
		a.timed = a.perSecond
	} else {
		a.timed = min(a.timed+a.perSecond*now.Sub(a.last).Seconds(), a.perSecond)
	}
	a.last = now
	switch {
	case a.timed >= 1:
		a.timed--
	case a.earned >= 1:
		a.earned--
	default:
		return false
	}
	return true
}
