package capture

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"sync"
)

// ErrGone says that something was recorded, but is kept no more.
var ErrGone = errors.New("capture: no longer kept")

// A Log is what can be read of a recording: its events, and the rows they make. It is safe for concurrent use, while a
// [Recorder] adds to it.
type Log struct {
	maxRows int

	mu      sync.RWMutex // guards what is below
	rows    []Row        // by Ref
	rev     int64
	changes []change // by Rev; what was changed again since is still in it
	blocks  []*block // by first
	memory  int64    // bytes of lines in blocks
	last    int64    // the last event that can be read
	lost    int64
	faults  []error
	changed chan struct{} // closed at the next change
	ended   bool
}

type change struct {
	rev int64
	ref Ref
}

// A block is some lines of the session, in memory, in a file, or in both.
type block struct {
	first, last int64
	lines       []byte // nil when they are to be read from the file
	file        *segment
	offset      int64
	size        int
}

func newLog(maxRows int) *Log { return &Log{maxRows: maxRows, changed: make(chan struct{})} }

// A Page is some changes of a [Log].
type Page struct {
	Rows []Row // in the order of their last change
	Next int64 // what to ask Since for next
	More bool  // there are further changes already

	// Reset says that changes before these are not known one by one any more: forget what you have.
	Reset bool
}

// Since returns the rows that were added or changed after the change rev, at most limit of them; 0 is the beginning, and a
// limit of 0 means 1,000. A row that changed many times comes once, as it is now, so that a slow reader has less to do and
// loses nothing.
func (l *Log) Since(rev int64, limit int) Page {
	if limit <= 0 {
		limit = 1000
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	p := Page{Next: rev}
	if len(l.changes) > 0 && rev > 0 && rev < l.changes[0].rev-1 {
		p.Reset = true
	}
	i, _ := slices.BinarySearchFunc(l.changes, rev+1, func(c change, rev int64) int { return int(max(-1, min(1, c.rev-rev))) })
	p.Rows = make([]Row, 0, min(limit, len(l.changes)-i))
	next := 0 // changes are mostly in the order of the wire: a row stands behind the one before
	for ; i < len(l.changes); i++ {
		c := l.changes[i]
		if len(p.Rows) == limit {
			p.More = true
			return p
		}
		p.Next = c.rev
		if next >= len(l.rows) || l.rows[next].Ref != c.ref {
			at, found := place(l.rows, c.ref)
			if !found {
				continue
			}
			next = at
		}
		if r := &l.rows[next]; r.Rev == c.rev {
			p.Rows = append(p.Rows, *r)
		}
		next++
	}
	return p
}

// Wait returns when there are changes after rev, or with ctx's cause. It returns [ErrGone] when there are none and never
// will be, since the recording has ended.
func (l *Log) Wait(ctx context.Context, rev int64) error {
	for {
		l.mu.RLock()
		ready, ended, changed := l.rev > rev, l.ended, l.changed
		l.mu.RUnlock()
		switch {
		case ready:
			return nil
		case ended:
			return ErrGone
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Follow yields the rows that were added or changed after the change rev, then those that come, until ctx or the recording ends.
func (l *Log) Follow(ctx context.Context, rev int64) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for {
			p := l.Since(rev, 0)
			rev = p.Next
			for _, r := range p.Rows {
				if ctx.Err() != nil || !yield(r) {
					return
				}
			}
			if !p.More && l.Wait(ctx, rev) != nil {
				return
			}
		}
	}
}

// Rev is the number of the last change.
func (l *Log) Rev() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.rev
}

// Len is how many rows are kept.
func (l *Log) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.rows)
}

// Memory is how many bytes of payload are kept in memory; what is older is read from disk.
func (l *Log) Memory() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.memory
}

// Lost is how many events were not recorded because a bound was met.
func (l *Log) Lost() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lost
}

// Err tells what went wrong with the file, or which lines of it could not be read; nil if nothing did.
func (l *Log) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return errors.Join(l.faults...)
}

// Row returns a row as it is now.
func (l *Log) Row(ref Ref) (Row, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if r := l.rowLocked(ref); r != nil {
		return *r, true
	}
	return Row{}, false
}

// Rows returns up to limit rows from the first one at or after from, in the order of the wire. A limit of 0 means all.
func (l *Log) Rows(from Ref, limit int) []Row {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, _ := place(l.rows, from)
	rest := l.rows[i:]
	if limit > 0 && len(rest) > limit {
		rest = rest[:limit]
	}
	return slices.Clone(rest)
}

func (l *Log) rowLocked(ref Ref) *Row {
	i, ok := place(l.rows, ref)
	if !ok {
		return nil
	}
	return &l.rows[i]
}

// place is where a row stands in rows, or would stand. Most that is asked for is near the end, so the search begins there.
func place(rows []Row, ref Ref) (at int, found bool) {
	low, high := 0, len(rows)
	for step := 1; low < high; step *= 2 {
		i := max(high-step, low)
		if rows[i].Ref.compare(ref) < 0 {
			low = i + 1
			break
		}
		high = i
	}
	for low < high {
		mid := int(uint(low+high) >> 1)
		if rows[mid].Ref.compare(ref) < 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(rows) && rows[low].Ref == ref
}

// Select yields the rows that f matches, in the order of the wire, from the first one at or after from. It reads payloads only if f
// looks for text, and those one block after the other.
func (l *Log) Select(f *Filter, from Ref) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		var cache payloads
		for {
			rows := l.Rows(from, 500)
			for i := range rows {
				r := &rows[i]
				if f.Match(r, func() []byte { return cache.of(l, r.Ref) }) && !yield(*r) {
					return
				}
			}
			if len(rows) < 500 {
				return
			}
			from = rows[len(rows)-1].Ref
			from.Member++
		}
	}
}

// payloads remembers the block that was read last.
type payloads struct {
	block  *block
	events []Event
}

func (p *payloads) of(l *Log, ref Ref) []byte {
	b, err := l.blockOf(ref.Seq)
	if err != nil {
		return nil
	}
	if b != p.block {
		events, err := l.read(b)
		if err != nil {
			return nil
		}
		p.block, p.events = b, events
	}
	i, ok := slices.BinarySearchFunc(p.events, ref.Seq, func(e Event, seq int64) int { return int(max(-1, min(1, e.Seq-seq))) })
	if !ok {
		return nil
	}
	return member(p.events[i].Data, ref.Member)
}

// member is a member of a batch, or all of it.
func member(data []byte, n int) []byte {
	if n == 0 {
		return data
	}
	members, _ := split(data)
	if n > len(members) {
		return nil
	}
	return members[n-1]
}

func (l *Log) blockOf(seq int64) (*block, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, found := slices.BinarySearchFunc(l.blocks, seq, func(b *block, seq int64) int {
		switch {
		case b.last < seq:
			return -1
		case b.first > seq:
			return 1
		}
		return 0
	})
	if !found {
		return nil, fmt.Errorf("%w: event %d", ErrGone, seq)
	}
	return l.blocks[i], nil
}

// lines are those of a block, from memory or from its file.
func (l *Log) lines(b *block) ([]byte, error) {
	l.mu.RLock()
	lines := b.lines
	l.mu.RUnlock()
	switch {
	case lines != nil:
		return lines, nil
	case b.file == nil:
		return nil, ErrGone
	}
	lines = make([]byte, b.size)
	if err := b.file.readAt(lines, b.offset); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	return lines, nil
}

// read decodes a block.
func (l *Log) read(b *block) ([]Event, error) {
	lines, err := l.lines(b)
	if err != nil {
		return nil, err
	}
	var events []Event
	for i, text := range splitLines(lines) {
		e, err := ParseLine(text)
		if err != nil {
			return events, err // somebody else wrote into the file
		}
		e.Seq = b.first + int64(i)
		events = append(events, e)
	}
	return events, nil
}

// Event returns what was recorded under a number.
func (l *Log) Event(seq int64) (Event, error) {
	b, err := l.blockOf(seq)
	if err != nil {
		return Event{}, err
	}
	lines, err := l.lines(b)
	if err != nil {
		return Event{}, err
	}
	all := splitLines(lines)
	at := int(seq - b.first) // a block has no gaps
	if at >= len(all) {
		return Event{}, fmt.Errorf("%w: event %d", ErrGone, seq)
	}
	e, err := ParseLine(all[at])
	e.Seq = seq
	return e, err
}

// Payload returns the bytes of a row: of a member of a batch, the member's.
func (l *Log) Payload(ref Ref) ([]byte, error) {
	e, err := l.Event(ref.Seq)
	if err != nil {
		return nil, err
	}
	data := member(e.Data, ref.Member)
	if data == nil && ref.Member > 0 {
		return nil, fmt.Errorf("%w: member %s", ErrGone, ref)
	}
	return data, nil
}

// Events yields what was recorded, from the number from on, up to what is there when it comes to the end.
func (l *Log) Events(from int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			l.mu.RLock()
			var b *block
			if i := sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].last >= from }); i < len(l.blocks) {
				b = l.blocks[i]
			}
			l.mu.RUnlock()
			if b == nil {
				return
			}
			events, err := l.read(b)
			if err != nil && !yield(Event{}, err) {
				return
			}
			for _, e := range events {
				if e.Seq >= from && !yield(e, nil) {
					return
				}
			}
			from = b.last + 1
		}
	}
}

// mergeLocked takes rows from a Book.
func (l *Log) mergeLocked(rows []Row) {
	for i := range rows {
		r := &rows[i]
		l.rev++
		r.Rev = l.rev
		switch at, found := place(l.rows, r.Ref); {
		case found:
			l.rows[at] = *r
		case at == len(l.rows):
			l.rows = append(l.rows, *r)
		case at == 0:
			continue // a late change of what was dropped
		default:
			l.rows = slices.Insert(l.rows, at, *r)
		}
		l.changes = append(l.changes, change{l.rev, r.Ref})
	}
	if len(l.rows) > l.maxRows+l.maxRows/8 { // seldom, and many at once: moving them costs
		l.rows = slices.Delete(l.rows, 0, len(l.rows)-l.maxRows)
	}
	if len(l.changes) > 2*len(l.rows)+1024 {
		kept := l.changes[:0]
		for _, c := range l.changes {
			if r := l.rowLocked(c.ref); r != nil && r.Rev == c.rev {
				kept = append(kept, c)
			}
		}
		l.changes = kept
	}
}

// tellLocked wakes who waits.
func (l *Log) tellLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}
