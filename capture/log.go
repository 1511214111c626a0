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

// ErrGone means that something was recorded but is no longer stored.
var ErrGone = errors.New("capture: no longer stored")

// A Log contains the readable part of a recording: its events and their rows. It is safe for
// concurrent use, also while a [Recorder] adds to it.
type Log struct {
	maxRows   int
	maxStderr int // maximum number of stderr rows; 0: no separate limit

	batchMu sync.Mutex // guards batches; held while one is read from its file
	batches [2]batch   // those that were read last, the newer one first

	mu      sync.RWMutex  // guards the fields below
	rows    []Row         // by Ref
	stderr  int           // number of stderr lines in rows
	https   map[int64]Ref // the rows of kind http in rows, by their exchange
	rev     int64
	changes []change // by Rev; includes rows that have changed again since
	blocks  []*block // ordered by first
	memory  int64    // bytes of lines in blocks
	last    int64    // the last readable event
	lost    int64
	faults  []error
	changed chan struct{} // closed at the next change
	ended   bool
}

type change struct {
	rev int64
	ref Ref
}

// A block is a part of the session's lines, in memory, in a file, or in both.
type block struct {
	first, last int64
	lines       []byte // nil if they must be read from the file
	file        *segment
	offset      int64
	size        int

	// The offsets for the numbers of connections and exchanges in the lines, because each session
	// of a file starts with 1.
	conns, exchanges int64
}

// number sets the numbers of an event to those used in the Log.
func (b *block) number(e *Event, seq int64) {
	e.Seq = seq
	if e.Conn > 0 {
		e.Conn += b.conns
	}
	if e.Exchange > 0 {
		e.Exchange += b.exchanges
	}
}

func newLog(maxRows int) *Log { return &Log{maxRows: maxRows, changed: make(chan struct{})} }

// A Page is a set of changes of a [Log].
type Page struct {
	Rows []Row // in the order of their last change
	Next int64 // the argument for the next call of Since
	More bool  // more changes are available

	// Reset reports that earlier changes are no longer stored individually: discard all rows
	// received before.
	Reset bool
}

// Since returns at most limit rows that were added or changed after the change rev. A rev of 0 is
// the start, and a limit of 0 means 1,000. A row that changed several times is returned once in its
// current state, so that a slow reader has less to do and loses nothing.
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
	next := 0 // changes are mostly in the order of rows: the next row follows the previous one
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

// Wait returns nil when there are changes after rev, or ctx's cause. If the recording
// has ended without further changes, it returns [ErrGone].
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

// Follow yields the rows that were added or changed after the change rev, then new changes, until
// ctx or the recording ends.
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

// Rev returns the number of the last change.
func (l *Log) Rev() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.rev
}

// Len returns the number of stored rows.
func (l *Log) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.rows)
}

// Memory returns the number of payload bytes in memory. Older payloads are read from disk.
func (l *Log) Memory() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.memory
}

// Lost returns the number of events that were not recorded because a limit was reached.
func (l *Log) Lost() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lost
}

// Err returns the error of writing the file, or the lines of it that could not be read; nil if
// there was no error.
func (l *Log) Err() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return errors.Join(l.faults...)
}

// Row returns the current state of a row.
func (l *Log) Row(ref Ref) (Row, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if r := l.rowLocked(ref); r != nil {
		return *r, true
	}
	return Row{}, false
}

// Rows returns up to limit rows in the order of the traffic, starting with the first one at or
// after from. A limit of 0 means all.
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

// Last returns the newest row in the order of the traffic.
func (l *Log) Last() (Row, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if len(l.rows) == 0 {
		return Row{}, false
	}
	return l.rows[len(l.rows)-1], true
}

// Exchange returns the current state of the row of kind http of an HTTP exchange. It does not
// search the rows.
func (l *Log) Exchange(number int64) (Row, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ref, ok := l.https[number]
	if !ok {
		return Row{}, false
	}
	if r := l.rowLocked(ref); r != nil {
		return *r, true
	}
	return Row{}, false
}

func (l *Log) rowLocked(ref Ref) *Row {
	i, ok := place(l.rows, ref)
	if !ok {
		return nil
	}
	return &l.rows[i]
}

// place returns the index of a row in rows, or where it would be inserted. Most lookups are near
// the end, so the search starts there.
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

// Select yields the rows that f matches in the order of the traffic, starting with the first one at
// or after from. It reads payloads only if f searches for text, one block at a time.
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

// payloads caches the last block that was read, and the last batch in it.
type payloads struct {
	block  *block
	events []Event
	batch  batch
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
	if ref.Member == 0 {
		return p.events[i].Data
	}
	p.batch.load(ref.Seq, p.events[i].Data)
	return p.batch.member(ref.Member)
}

// A batch is a payload with many messages, which are mostly requested one after the other: each
// must not cost another pass over all.
type batch struct {
	seq     int64
	members [][]byte
}

// load splits the payload of an event, unless it is that of b already.
func (b *batch) load(seq int64, payload []byte) {
	if b.seq != seq {
		b.seq = seq
		b.members, _ = split(payload)
	}
}

// member returns the message with a number, counted from 1, or nil.
func (b *batch) member(n int) []byte {
	if n > len(b.members) {
		return nil
	}
	return b.members[n-1]
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

// lines returns the lines of a block, from memory or from its file.
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
			return events, err // another program wrote into the file
		}
		b.number(&e, b.first+int64(i))
		events = append(events, e)
	}
	return events, nil
}

// Event returns the event with a number.
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
	b.number(&e, seq)
	return e, err
}

// Payload returns the bytes of a row; for a member of a batch, that member's.
func (l *Log) Payload(ref Ref) ([]byte, error) {
	if ref.Member > 0 {
		return l.member(ref)
	}
	e, err := l.Event(ref.Seq)
	if err != nil {
		return nil, err
	}
	return e.Data, nil
}

// member returns a member of a batch. The last two batches stay split, because their members are
// mostly requested one after the other, calls together with their responses.
func (l *Log) member(ref Ref) ([]byte, error) {
	l.batchMu.Lock()
	defer l.batchMu.Unlock()
	if l.batches[0].seq != ref.Seq {
		l.batches[0], l.batches[1] = l.batches[1], l.batches[0]
	}
	b := &l.batches[0]
	if b.seq != ref.Seq {
		e, err := l.Event(ref.Seq)
		if err != nil {
			return nil, err
		}
		b.load(ref.Seq, e.Data)
	}
	data := b.member(ref.Member)
	if data == nil {
		return nil, fmt.Errorf("%w: member %s", ErrGone, ref)
	}
	return slices.Clone(data), nil
}

// Events yields the events starting with the number from, up to the last one available when it gets
// there.
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

// mergeLocked merges rows from a Book.
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
			if r.Kind == RowStderr {
				l.stderr++
			}
			l.noteExchange(r)
		case at == 0:
			continue // a late change of a dropped row
		default:
			l.rows = slices.Insert(l.rows, at, *r)
			l.noteExchange(r)
		}
		l.changes = append(l.changes, change{l.rev, r.Ref})
	}
	if l.stderr > 2*l.maxStderr && l.maxStderr > 0 {
		surplus := l.stderr - l.maxStderr
		l.rows = slices.DeleteFunc(l.rows, func(r Row) bool {
			if r.Kind != RowStderr || surplus == 0 {
				return false
			}
			surplus--
			return true
		})
		l.stderr = l.maxStderr
	}
	// Rows are dropped rarely and many at once, because moving the rest is expensive.
	if len(l.rows) > l.maxRows+l.maxRows/8 {
		for i := range len(l.rows) - l.maxRows {
			switch r := &l.rows[i]; r.Kind {
			case RowStderr:
				l.stderr--
			case RowHTTP:
				delete(l.https, r.Exchange)
			}
		}
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

// noteExchange makes a new row of kind http known to Exchange. The lock is held.
func (l *Log) noteExchange(r *Row) {
	if r.Kind != RowHTTP {
		return
	}
	if l.https == nil {
		l.https = map[int64]Ref{}
	}
	l.https[r.Exchange] = r.Ref
}

// tellLocked wakes the waiting readers.
func (l *Log) tellLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}
