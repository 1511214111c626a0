package gateway

import (
	"context"
	"errors"
	"sync"
	"time"
)

// queueOptions are the bounds of a queue. Zero values are the defaults.
type queueOptions struct {
	// Inflight is the maximum number of calls that run at once. The default is 256.
	Inflight int

	// Queue is the maximum number of calls that wait. The default is 1,024; a negative value means
	// that no call waits.
	Queue int

	// Bytes is the maximum size of the calls that wait, in bytes. The default is 64 MiB. If nothing
	// else waits, a call of any size may.
	Bytes int64

	// Wait is how long a call waits at most. The default is 5 s.
	Wait time.Duration
}

// retryQueueFloor is the least time after which a caller should try again when the queue is full.
const retryQueueFloor = 100 * time.Millisecond

// sparePlaces is how many places a queue retains for later calls.
const sparePlaces = 64

// A queue bounds the calls that one upstream gets at once. The calls above the bound wait, each
// principal in a line of its own, and the lines are served in turn: the calls of one principal
// delay those of others by one call each at most. If the queue is full, the principal with the
// longest line loses its newest call, unless that is the principal who calls.
//
// For each call: enter, and if that returned no error, the call, and then leave with the same
// weight. The calls of one principal pass in the order in which enter was called. All methods are
// safe for concurrent use.
type queue struct {
	o queueOptions

	mu       sync.Mutex // guards the fields below
	inflight int        // the sum of weights
	waiting  int
	bytes    int64
	lines    map[string]*queueLine
	next     *queueLine // of the ring of lines, the one that is served next
	spare    []*place
	refused  uint64
	left     time.Time     // when a call left while others waited
	pace     time.Duration // the mean time between two of those
}

// A queueLine is what one principal has in the queue. All lines are in a ring.
type queueLine struct {
	principal   string
	first, last *place
	length      int
	bytes       int64
	prev, next  *queueLine
}

// A place is one call that waits.
type place struct {
	line       *queueLine // nil once it has left the queue
	prev, next *place
	weight     int
	bytes      int64
	turn       chan error // gets nil if the call may run, or why it lost its place
}

// errFlushed is the error of a call that waited when its upstream stopped taking calls. It may go
// to another one.
var errFlushed = errors.New("the upstream takes no calls now")

// errEvicted is the error of a call that lost its place to that of another principal.
var errEvicted = errors.New("the queue is full")

// A queueStatus is a snapshot for the status and for metrics.
type queueStatus struct {
	Inflight, Waiting int
	Bytes             int64
	Principals        int    // that wait
	Refused           uint64 // calls that found the queue full, lost their place or waited too long
}

func newQueue(o queueOptions) *queue {
	if o.Inflight <= 0 {
		o.Inflight = 256
	}
	if o.Queue == 0 {
		o.Queue = 1024
	}
	o.Queue = max(o.Queue, 0)
	if o.Bytes <= 0 {
		o.Bytes = 64 << 20
	}
	if o.Wait <= 0 {
		o.Wait = 5 * time.Second
	}
	return &queue{o: o, lines: make(map[string]*queueLine)}
}

// enter waits until a call of a principal may run, and reports whether it had to wait. weight is
// what the call counts in Inflight: 1, or the number of members of an array; one of any weight may
// run alone. bytes is its size. If the queue is full or the wait is over, the error is a
// *callError with the reason queue_full. If ctx ends first, the error is its cause, and
// after flush it is errFlushed. After an error the call must not be sent, and leave must not be
// called.
func (q *queue) enter(ctx context.Context, principal string, weight int, bytes int64) (waited bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	weight = max(weight, 1)
	q.mu.Lock()
	if q.waiting == 0 && q.fitsLocked(weight) {
		q.inflight += weight
		q.mu.Unlock()
		return false, nil
	}
	if !q.roomLocked(principal, bytes) {
		err := q.fullLocked()
		q.mu.Unlock()
		return false, err
	}
	p := q.joinLocked(principal, weight, bytes)
	q.mu.Unlock()
	return true, q.await(ctx, p)
}

// tryEnter is enter for calls that must not wait. It reports whether the call may run.
func (q *queue) tryEnter(weight int) bool {
	weight = max(weight, 1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting > 0 || !q.fitsLocked(weight) {
		return false
	}
	q.inflight += weight
	return true
}

// leave ends a call that had entered.
func (q *queue) leave(weight int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inflight -= max(weight, 1)
	if q.waiting > 0 {
		now := time.Now()
		if gap := now.Sub(q.left); !q.left.IsZero() {
			q.pace += (gap - q.pace) / 8
		}
		q.left = now
		q.serveLocked()
	}
	if q.waiting == 0 {
		q.left = time.Time{}
	}
}

func (q *queue) status() queueStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	return queueStatus{q.inflight, q.waiting, q.bytes, len(q.lines), q.refused}
}

func (q *queue) fitsLocked(weight int) bool {
	return q.inflight == 0 || q.inflight+weight <= q.o.Inflight
}

// roomLocked reports whether a call of a principal may wait. It makes room at the cost of a
// principal with a longer line.
func (q *queue) roomLocked(principal string, bytes int64) bool {
	if q.o.Queue == 0 {
		return false
	}
	var own queueLine
	if l := q.lines[principal]; l != nil {
		own = *l
	}
	for q.waiting >= q.o.Queue {
		l := q.longestLocked(func(l *queueLine) int64 { return int64(l.length) })
		if l.length <= own.length+1 {
			return false
		}
		q.evictLocked(l)
	}
	for q.waiting > 0 && q.bytes+bytes > q.o.Bytes {
		l := q.longestLocked(func(l *queueLine) int64 { return l.bytes })
		if l.bytes <= own.bytes+bytes {
			return false
		}
		q.evictLocked(l)
	}
	return true
}

func (q *queue) longestLocked(length func(*queueLine) int64) *queueLine {
	longest := q.next
	for l := q.next.next; l != q.next; l = l.next {
		if length(l) > length(longest) {
			longest = l
		}
	}
	return longest
}

// evictLocked makes the newest call of a line lose its place.
func (q *queue) evictLocked(l *queueLine) {
	p := l.last
	q.removeLocked(p)
	p.turn <- errEvicted
}

// flush makes all waiting calls lose their places: enter returns errFlushed. The breaker calls it
// when it opens, so that calls do not wait for an upstream that takes none.
func (q *queue) flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.next != nil {
		p := q.next.first
		q.removeLocked(p)
		p.turn <- errFlushed
	}
}

func (q *queue) fullLocked() error {
	q.refused++
	after := min(max(q.pace*time.Duration(q.waiting+1), retryQueueFloor), q.o.Wait)
	return &callError{reason: reasonQueueFull, retryAfter: after}
}

func (q *queue) joinLocked(principal string, weight int, bytes int64) *place {
	l := q.lines[principal]
	if l == nil {
		l = &queueLine{principal: principal}
		q.lines[principal] = l
		if q.next == nil {
			l.prev, l.next = l, l
			q.next = l
		} else { // it is served after all others
			l.prev, l.next = q.next.prev, q.next
			l.prev.next, l.next.prev = l, l
		}
	}
	var p *place
	if n := len(q.spare); n > 0 {
		p, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		p = &place{turn: make(chan error, 1)}
	}
	p.line, p.weight, p.bytes = l, weight, bytes
	p.prev = l.last
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
	l.length++
	l.bytes += bytes
	q.waiting++
	q.bytes += bytes
	return p
}

// removeLocked takes a place out of its line, and an empty line out of the ring.
func (q *queue) removeLocked(p *place) {
	l := p.line
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.line, p.prev, p.next = nil, nil, nil
	l.length--
	l.bytes -= p.bytes
	q.waiting--
	q.bytes -= p.bytes
	if l.length > 0 {
		return
	}
	delete(q.lines, l.principal)
	if l.next == l {
		q.next = nil
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	if q.next == l {
		q.next = l.next
	}
}

// serveLocked lets calls run as long as there is room, one of each line in turn.
func (q *queue) serveLocked() {
	for q.next != nil && q.fitsLocked(q.next.first.weight) {
		l := q.next
		p := l.first
		q.next = l.next
		q.removeLocked(p)
		q.inflight += p.weight
		p.turn <- nil
	}
}

// await waits for the turn of a place.
func (q *queue) await(ctx context.Context, p *place) error {
	timer := time.NewTimer(q.o.Wait)
	defer timer.Stop()
	select {
	case err := <-p.turn:
		return q.turned(ctx, p, err)
	case <-timer.C:
	case <-ctx.Done():
	}
	q.mu.Lock()
	if p.line == nil { // its turn came at the same time
		q.mu.Unlock()
		return q.turned(ctx, p, <-p.turn)
	}
	defer q.mu.Unlock()
	q.removeLocked(p)
	q.keepLocked(p)
	q.serveLocked() // a heavy call may have delayed lighter ones
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return q.fullLocked()
}

// turned ends the wait of a place that has left the queue. A call whose ctx has ended does not
// run.
func (q *queue) turned(ctx context.Context, p *place, err error) error {
	weight := p.weight
	q.mu.Lock()
	q.keepLocked(p)
	if errors.Is(err, errEvicted) {
		err = q.fullLocked()
	}
	q.mu.Unlock()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		q.leave(weight)
		return context.Cause(ctx)
	}
	return nil
}

func (q *queue) keepLocked(p *place) {
	if len(q.spare) < sparePlaces {
		q.spare = append(q.spare, p)
	}
}
