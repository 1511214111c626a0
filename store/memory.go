package store

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// NewMemory returns a new Memory. It starts no goroutine.
func NewMemory(l Limits) *Memory {
	return &Memory{limits: l.WithDefaults(256 << 20), logs: map[string]*memoryLog{}, values: map[string]Value{}}
}

// A Memory is a [Store] in the memory of this process. Expired entries are invisible immediately;
// later writes free their memory.
type Memory struct {
	limits Limits

	mu      sync.Mutex // guards the fields below
	closed  bool
	logs    map[string]*memoryLog
	waiting map[string]*beginning
	values  map[string]Value
	lastRev uint64
	bytes   int64 // counted as in Limits
	swept   time.Time
}

// A beginning is what Tails wait for if their log does not exist yet.
type beginning struct {
	c       chan struct{}
	waiting int
}

type memoryLog struct {
	head    Head
	events  []Event
	changed chan struct{} // closed at the next change; nil if there are no waiters
	gone    bool
}

// wakeLocked wakes all that wait for a change of the log.
func (g *memoryLog) wakeLocked() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// enterLocked checks the store, ctx and key before an operation.
func (m *Memory) enterLocked(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return m.openLocked(ctx)
}

func (m *Memory) openLocked(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m.closed {
		return ErrClosed
	}
	return nil
}

// stored returns a time as stored in events: in UTC, in milliseconds.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// expiry returns an expiry time rounded to milliseconds, never before t.
func expiry(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return stored(t.Add(time.Millisecond - 1))
}

func past(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// logLocked returns the log with this key, or nil.
func (m *Memory) logLocked(key string, now time.Time) *memoryLog {
	g := m.logs[key]
	if g != nil && past(g.head.Expires, now) {
		m.dropLocked(g)
		return nil
	}
	return g
}

func (m *Memory) dropLocked(g *memoryLog) {
	m.bytes -= g.head.Bytes + EntryBytes*int64(1+len(g.events))
	g.gone = true
	g.wakeLocked()
	delete(m.logs, g.head.Key)
}

// makeRoomLocked checks the new totals. It removes expired entries if the totals are too large or
// some time has passed.
func (m *Memory) makeRoomLocked(now time.Time, logs, values, size int64) error {
	check := func() error {
		return m.limits.CheckTotal(int64(len(m.logs))+logs, int64(len(m.values))+values, m.bytes+size)
	}
	err := check()
	every := time.Minute
	if err != nil {
		every = time.Second // a full store is not searched at every write
	}
	if now.Sub(m.swept) < every {
		return err
	}
	m.swept = now
	for _, g := range m.logs {
		if past(g.head.Expires, now) {
			m.dropLocked(g)
		}
	}
	for _, v := range m.values {
		if past(v.Expires, now) {
			m.forgetLocked(v)
		}
	}
	return check()
}

// Append implements [Log].
func (m *Memory) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return 0, err
	}
	size, err := m.limits.CheckEvents(events)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	g, fresh := m.logLocked(key, now), false
	if g == nil {
		g, fresh = &memoryLog{head: Head{Key: key, First: 1}}, true
	}
	if after != Any && after != g.head.Last {
		return 0, &ConflictError{Key: key, Want: after, Have: g.head.Last}
	}
	if len(events) == 0 {
		return g.head.Last, nil
	}
	if err := m.limits.CheckLog(int64(len(g.events)+len(events)), g.head.Bytes+size); err != nil {
		return 0, err
	}
	begun := int64(0)
	if fresh {
		begun = 1
	}
	cost := size + EntryBytes*(begun+int64(len(events)))
	if err := m.makeRoomLocked(now, begun, 0, cost); err != nil {
		return 0, err
	}
	if fresh {
		m.logs[key] = g
		if b := m.waiting[key]; b != nil {
			close(b.c)
			delete(m.waiting, key)
		}
	}
	for _, e := range events {
		g.head.Last++
		g.events = append(g.events, Event{Seq: g.head.Last, Time: stored(now), Data: bytes.Clone(e)})
	}
	g.head.Bytes += size
	m.bytes += cost
	g.wakeLocked()
	return g.head.Last, nil
}

// pageLocked returns some events of g after the given number.
func (g *memoryLog) pageLocked(after uint64) ([]Event, error) {
	if after >= g.head.Last {
		return nil, nil
	}
	if after+1 < g.head.First {
		return nil, &TrimmedError{Key: g.head.Key, First: g.head.First}
	}
	events := g.events[after+1-g.head.First:]
	return slices.Clone(events[:min(len(events), 256)]), nil
}

// Read implements [Log].
func (m *Memory) Read(ctx context.Context, key string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		g, err := m.find(ctx, key)
		if g == nil {
			if err != nil {
				yield(Event{}, err)
			}
			return
		}
		m.mu.Lock()
		last := g.head.Last
		m.mu.Unlock()
		for after < last {
			events, err := m.page(ctx, g, after)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if e.Seq > last {
					return
				}
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
		}
	}
}

func (m *Memory) find(ctx context.Context, key string) (*memoryLog, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return nil, err
	}
	return m.logLocked(key, time.Now()), nil
}

func (m *Memory) page(ctx context.Context, g *memoryLog, after uint64) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openLocked(ctx); err != nil {
		return nil, err
	}
	if g.gone || past(g.head.Expires, time.Now()) {
		return nil, ErrNotFound
	}
	return g.pageLocked(after)
}

// Tail implements [Log].
func (m *Memory) Tail(ctx context.Context, key string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var g *memoryLog
		for {
			events, wait, err := m.next(ctx, key, &g, after)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if wait != nil {
				wait()
			}
		}
	}
}

// next returns the next events of a log, looking it up first if necessary, or a function that waits
// until it is worth trying again.
func (m *Memory) next(ctx context.Context, key string, g **memoryLog, after uint64) ([]Event, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return nil, nil, err
	}
	now := time.Now()
	if *g == nil {
		*g = m.logLocked(key, now)
	}
	l := *g
	if l == nil {
		return nil, m.beginsLocked(ctx, key), nil
	}
	if l.gone || past(l.head.Expires, now) {
		return nil, nil, ErrNotFound
	}
	events, err := l.pageLocked(after)
	if err != nil || len(events) > 0 {
		return events, nil, err
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	changed, until := l.changed, l.head.Expires
	return nil, func() { await(ctx, changed, until) }, nil
}

// beginsLocked returns a function that waits for a log that does not exist yet.
func (m *Memory) beginsLocked(ctx context.Context, key string) func() {
	if m.waiting == nil {
		m.waiting = map[string]*beginning{}
	}
	b := m.waiting[key]
	if b == nil {
		b = &beginning{c: make(chan struct{})}
		m.waiting[key] = b
	}
	b.waiting++
	return func() {
		await(ctx, b.c, time.Time{})
		m.mu.Lock()
		defer m.mu.Unlock()
		if b.waiting--; b.waiting == 0 && m.waiting[key] == b {
			delete(m.waiting, key)
		}
	}
}

// await returns when c is closed, ctx ends or the time is reached.
func await(ctx context.Context, c <-chan struct{}, until time.Time) {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-c:
	case <-ctx.Done():
	case <-timeout:
	}
}

// Head implements [Log].
func (m *Memory) Head(ctx context.Context, key string) (Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return Head{}, err
	}
	g := m.logLocked(key, time.Now())
	if g == nil {
		return Head{}, ErrNotFound
	}
	return g.head, nil
}

// Heads implements [Log].
func (m *Memory) Heads(ctx context.Context, prefix, after string, n int) ([]Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openLocked(ctx); err != nil {
		return nil, err
	}
	now := time.Now()
	var out []Head
	for _, key := range pageOf(m.logs, prefix, after) {
		if len(out) == pageSize(n) {
			break
		}
		if g := m.logLocked(key, now); g != nil {
			out = append(out, g.head)
		}
	}
	return out, nil
}

func pageSize(n int) int {
	if n <= 0 || n > Page {
		return Page
	}
	return n
}

// pageOf returns the keys with prefix that come after the given one, in order.
func pageOf[V any](all map[string]V, prefix, after string) []string {
	var keys []string
	for key := range all {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Trim implements [Log].
func (m *Memory) Trim(ctx context.Context, key string, through uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return err
	}
	g := m.logLocked(key, time.Now())
	if g == nil || through < g.head.First {
		return nil
	}
	n := min(through, g.head.Last) + 1 - g.head.First
	for _, e := range g.events[:n] {
		g.head.Bytes -= int64(len(e.Data))
		m.bytes -= int64(len(e.Data)) + EntryBytes
	}
	g.events = slices.Delete(g.events, 0, int(n))
	g.head.First += n
	return nil
}

// Expire implements [Log].
func (m *Memory) Expire(ctx context.Context, key string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return err
	}
	now := time.Now()
	g := m.logLocked(key, now)
	if g == nil {
		return ErrNotFound
	}
	g.head.Expires = expiry(at)
	if past(g.head.Expires, now) {
		m.dropLocked(g)
	}
	g.wakeLocked() // waiters have a new expiry to wait for
	return nil
}

// Drop implements [Log].
func (m *Memory) Drop(ctx context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return err
	}
	if g := m.logLocked(key, time.Now()); g != nil {
		m.dropLocked(g)
	}
	return nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, g := range m.logs {
		g.wakeLocked()
	}
	for key, b := range m.waiting {
		close(b.c)
		delete(m.waiting, key)
	}
	return nil
}
