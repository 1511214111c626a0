package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/store"
)

const (
	maxWaiting = 1024    // writes waiting for a commit; further writes wait for a free place
	maxGroup   = 512     // writes in one commit
	maxBytes   = 8 << 20 // approximate bytes in one commit
	sweepEvery = time.Minute
	sweepMost  = 1000 // values removed in one sweep
	headEvery  = 100 * time.Millisecond
)

// An op is one waiting write.
type op struct {
	ctx  context.Context
	do   func(*batch) (uint64, error)
	size int64
	done chan outcome // buffer of one
}

type outcome struct {
	n   uint64
	err error
}

// write runs do in a commit. If do itself returns an error, nothing is changed.
func (s *Store) write(ctx context.Context, size int64, do func(*batch) (uint64, error)) (uint64, error) {
	if s.readOnly {
		return 0, &store.Fault{Reason: store.ReasonFailed, Err: errReadOnly}
	}
	o := &op{ctx: ctx, do: do, size: size, done: make(chan outcome, 1)}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-s.stop:
		return 0, store.ErrClosed
	}
	select {
	case r := <-o.done:
		return r.n, r.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-s.stopped:
	}
	select {
	case r := <-o.done: // it finished in time
		return r.n, r.err
	default:
		return 0, store.ErrClosed
	}
}

// commits is the goroutine that writes. It owns the writer's connection.
func (s *Store) commits(m meta) {
	defer close(s.stopped)
	b := &batch{s: s, meta: m, statements: map[string]*sql.Stmt{}}
	defer b.close()
	for {
		var first *op
		select {
		case first = <-s.ops:
		case <-s.stop:
			select {
			case first = <-s.ops: // writes queued before the close are still executed
			default:
				return
			}
		}
		runtime.Gosched() // acknowledged callers may have more writes
		b.run(s.gather(first))
	}
}

// gather returns the waiting ops, up to the bounds of a commit.
func (s *Store) gather(first *op) []*op {
	ops, size := []*op{first}, first.size
	for len(ops) < maxGroup && size < maxBytes {
		select {
		case o := <-s.ops:
			ops = append(ops, o)
			size += o.size
		default:
			return ops
		}
	}
	return ops
}

// syncHead is the goroutine that syncs the record of acknowledged commits, soon after it was
// written and at most once per headEvery. It does not have to be earlier: commits are synced
// separately, a crash of the process loses nothing that was written, and a slightly older record
// only contains slightly less.
func (s *Store) syncHead() {
	defer close(s.synced)
	for {
		select {
		case <-s.written:
		case <-s.stopped:
			return
		}
		if err := datasync(s.head.f); err != nil {
			_ = s.breakWith(fault(err)) // reported to the next write
		}
		pause := time.NewTimer(headEvery)
		select {
		case <-pause.C:
		case <-s.stopped:
			pause.Stop()
		}
	}
}

// broke returns the fault that prevents further writes, or nil.
func (s *Store) broke() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.broken != nil {
		return s.broken
	}
	return nil
}

// breakWith stops all writing: the state of the disk is unknown until the store is opened again.
func (s *Store) breakWith(f *store.Fault) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = f
		s.report(ReportBroken, f)
	}
	return s.broken
}

// A batch is a commit in progress. It belongs to the commits goroutine.
type batch struct {
	s          *Store
	statements map[string]*sql.Stmt
	swept      time.Time

	meta meta // as of the last commit

	// The changes of this commit.
	begun bool
	now   time.Time
	next  meta
	heads map[string]*head // nil for a dropped log
	rows  []any            // columns of events that are not written yet
}

func (b *batch) close() {
	for _, st := range b.statements {
		_ = st.Close() // the connection is closed next
	}
}

// A databaseError fails the whole commit.
type databaseError struct{ err error }

func (e databaseError) Error() string { return e.err.Error() }
func (e databaseError) Unwrap() error { return e.err }

// run executes ops in one commit and sends the outcomes.
func (b *batch) run(ops []*op) {
	b.begun, b.now, b.next, b.heads, b.rows = false, time.Now(), b.meta, map[string]*head{}, b.rows[:0]
	err := b.s.broke()
	if err == nil && b.now.Sub(b.swept) >= sweepEvery {
		err = b.sweep()
	}
	results := make([]outcome, 0, len(ops))
	for _, o := range ops {
		if err != nil {
			break
		}
		if o.ctx.Err() != nil {
			results = append(results, outcome{err: context.Cause(o.ctx)})
			continue
		}
		n, failed := o.do(b)
		if fatal, ok := errors.AsType[databaseError](failed); ok {
			err = fatal.err
			break
		}
		results = append(results, outcome{n, failed})
	}
	if err == nil {
		err = b.commit()
	}
	if err != nil {
		b.fail(ops, err)
		return
	}
	for i, o := range ops {
		o.done <- results[i]
	}
}

// fail rolls back the commit and sends the error to all ops.
func (b *batch) fail(ops []*op, err error) {
	f := fault(err)
	if b.begun {
		// SQLite may have rolled back already; otherwise the next BEGIN reports the failure.
		_, _ = b.s.writer.ExecContext(context.Background(), "ROLLBACK")
	}
	if f.Reason != store.ReasonFull {
		_ = b.s.breakWith(f) // reported below
	}
	for _, o := range ops {
		o.done <- outcome{err: f}
	}
}

// commit writes the rows of the logs and the meta row, and makes the commit durable.
func (b *batch) commit() error {
	if !b.begun && len(b.heads) == 0 {
		return nil
	}
	if err := b.flush(); err != nil {
		return err
	}
	for key, h := range b.heads {
		if err := b.saveHead(key, h); err != nil {
			return err
		}
	}
	m := &b.next
	m.commits++
	sum := m.hash()
	err := b.exec(`UPDATE meta SET commits = ?, log = ?, pos = ?, rev = ?, logs = ?, vals = ?, bytes = ?, total = ?, hash = ?`,
		m.commits, m.log, m.pos, m.rev, m.logs, m.vals, m.bytes, int64(m.total), sum[:])
	if err != nil {
		return err
	}
	if err := b.exec("COMMIT"); err != nil {
		return err
	}
	b.meta = *m
	b.s.publish(b.heads)
	return b.s.head.write(b.meta.record(), b.s.written)
}

// saveHead writes the row of a log if it has changed.
func (b *batch) saveHead(key string, h *head) error {
	old, existed := b.s.heads[key] // only this goroutine writes it
	if existed && h != nil && h.sameRow(&old) {
		return nil
	}
	if existed {
		b.next.total -= old.digest(key)
	}
	if h == nil {
		if !existed {
			return nil
		}
		return b.exec(`DELETE FROM logs WHERE key = ?`, key)
	}
	b.next.total += h.digest(key)
	return b.exec(`INSERT INTO logs (key, id, first, expires, base) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (key) DO UPDATE SET id = ?2, first = ?3, expires = ?4, base = ?5`, key, h.id, h.first, h.expires, h.base[:])
}

// Many events are inserted per statement, which more than halves the cost.
const (
	eventColumns = 7
	rowsAtOnce   = 16
	insertEvent  = `INSERT INTO events (pos, log, seq, prev, time, data, hash) VALUES (?, ?, ?, ?, ?, ?, ?)`
)

var insertEvents = insertEvent + strings.Repeat(`, (?, ?, ?, ?, ?, ?, ?)`, rowsAtOnce-1)

// flush writes the pending events.
func (b *batch) flush() error {
	rows := b.rows
	b.rows = b.rows[:0]
	for len(rows) > 0 {
		query, n := insertEvent, eventColumns
		if len(rows) >= rowsAtOnce*eventColumns {
			query, n = insertEvents, rowsAtOnce*eventColumns
		}
		if err := b.exec(query, rows[:n]...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	clear(b.rows[:cap(b.rows)]) // do not retain their data
	return nil
}

// statement returns a prepared statement of the writer.
func (b *batch) statement(query string) (*sql.Stmt, error) {
	st := b.statements[query]
	if st == nil {
		var err error
		if st, err = b.s.writer.PrepareContext(context.Background(), query); err != nil {
			return nil, databaseError{err}
		}
		b.statements[query] = st
	}
	return st, nil
}

// exec runs a statement in the commit, which it begins if necessary.
func (b *batch) exec(query string, args ...any) error {
	if !b.begun {
		if _, err := b.s.writer.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
			return databaseError{err}
		}
		b.begun = true
	}
	st, err := b.statement(query)
	if err != nil {
		return err
	}
	if _, err := st.ExecContext(context.Background(), args...); err != nil {
		return databaseError{err}
	}
	return nil
}
