package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/store"
)

// A tail waits for a change of one log.
type tail struct {
	changed chan struct{} // closed at the next change
	waiting int
}

// publish makes the logs of a commit visible and wakes their waiters.
func (s *Store) publish(heads map[string]*head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, h := range heads {
		if h == nil {
			delete(s.heads, key)
		} else {
			s.heads[key] = *h
		}
		s.wakeLocked(key)
	}
}

func (s *Store) wakeLocked(key string) {
	if t := s.tails[key]; t != nil {
		close(t.changed)
		delete(s.tails, key)
	}
}

// page is how many events are read at once, so that no reader blocks the checkpoint of the
// write-ahead log.
const page = 256

// Read implements [store.Log].
func (s *Store) Read(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		if err := s.enter(ctx, key); err != nil {
			yield(store.Event{}, err)
			return
		}
		h, ok := s.look(key)
		w := walk{log: h.id, after: after}
		for ok && w.after < h.last {
			events, err := s.page(ctx, key, &w)
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			for _, e := range events {
				if e.Seq > h.last || !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Tail implements [store.Log].
func (s *Store) Tail(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		if err := store.CheckKey(key); err != nil {
			yield(store.Event{}, err)
			return
		}
		w := walk{after: after}
		for {
			if w.log == 0 {
				if h, ok := s.look(key); ok {
					w.log = h.id
				}
			}
			err := s.await(ctx, key, w.log, w.after)
			var events []store.Event
			if err == nil && w.log != 0 {
				events, err = s.page(ctx, key, &w)
			}
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// await returns when the log with this ID has events after the given number or no longer exists. If
// the ID is 0, it returns when the log exists.
func (s *Store) await(ctx context.Context, key string, log int64, after uint64) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.mu.Lock()
		h, ok := s.heads[key]
		ok = ok && !past(h.expires, time.Now())
		switch {
		case s.closed:
			s.mu.Unlock()
			return store.ErrClosed
		case log == 0 && ok:
			s.mu.Unlock()
			return nil
		case log != 0 && (!ok || h.id != log):
			s.mu.Unlock()
			return store.ErrNotFound
		case log != 0 && h.last > after:
			s.mu.Unlock()
			return nil
		}
		t := s.tails[key]
		if t == nil {
			t = &tail{changed: make(chan struct{})}
			s.tails[key] = t
		}
		t.waiting++
		s.mu.Unlock()

		until := h.expires
		if !ok {
			until = 0 // a new log appears instead
		}
		wait(ctx, t.changed, until)

		s.mu.Lock()
		if t.waiting--; t.waiting == 0 && s.tails[key] == t {
			delete(s.tails, key)
		}
		s.mu.Unlock()
	}
}

// wait returns when c is closed, ctx ends or the time, if not 0, is reached.
func wait(ctx context.Context, c <-chan struct{}, until int64) {
	var timeout <-chan time.Time
	if until != 0 {
		timer := time.NewTimer(time.Until(fromMillis(until)))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-c:
	case <-ctx.Done():
	case <-timeout:
	}
}

// page reads some events of a log after the reader's position, and checks the hash chain.
func (s *Store) page(ctx context.Context, key string, w *walk) ([]store.Event, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	h, ok := s.look(key)
	switch {
	case !ok || h.id != w.log:
		return nil, store.ErrNotFound
	case w.after+1 < h.first:
		return nil, &store.TrimmedError{Key: key, First: h.first}
	}
	if len(w.positions) == 0 {
		if err := s.find(ctx, key, w, &h); err != nil {
			return nil, err
		}
	}
	n := min(len(w.positions), page)
	rows, err := s.db.QueryContext(ctx, `SELECT e.pos, e.seq, e.time, e.data, e.hash FROM json_each(?) j JOIN events e ON e.pos = j.value
		ORDER BY e.pos`, positionList(w.positions[:n]))
	if err != nil {
		return nil, s.readFault(ctx, err)
	}
	defer rows.Close()
	out := make([]store.Event, 0, n)
	for rows.Next() {
		var (
			pos, at   int64
			seq       uint64
			data, sum []byte
		)
		if err := rows.Scan(&pos, &seq, &at, &data, &sum); err != nil {
			return nil, s.readFault(ctx, err)
		}
		if want := link(&w.before, seq, at, data); !bytes.Equal(want[:], sum) || seq != w.after+1 || pos != w.positions[len(out)] {
			return nil, s.gone(key, w, h.last)
		}
		copy(w.before[:], sum)
		w.after = seq
		out = append(out, store.Event{Seq: seq, Time: fromMillis(at), Data: data})
	}
	if err := rows.Err(); err != nil {
		return nil, s.readFault(ctx, err)
	}
	if len(out) < n {
		return nil, s.gone(key, w, h.last)
	}
	w.positions = w.positions[n:]
	return out, nil
}

// A walk is a reader's position in a log.
type walk struct {
	log       int64 // ID of the log; 0 if it does not exist yet
	after     uint64
	before    hash    // hash of the event numbered after
	known     bool    // before is set
	positions []int64 // positions of the next events
}

// find looks up the positions of the events after w.after.
func (s *Store) find(ctx context.Context, key string, w *walk, h *head) error {
	if !w.known && w.after+1 == h.first {
		w.before, w.known = h.base, true
	}
	to := w.after + 1
	if !w.known {
		to-- // for its hash
	}
	rows, err := s.db.QueryContext(ctx, walkBack+` SELECT pos FROM walk ORDER BY pos`, h.pos, to)
	if err != nil {
		return s.readFault(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		var pos int64
		if err := rows.Scan(&pos); err != nil {
			return s.readFault(ctx, err)
		}
		w.positions = append(w.positions, pos)
	}
	if err := rows.Err(); err != nil {
		return s.readFault(ctx, err)
	}
	if uint64(len(w.positions)) != h.last+1-to {
		w.positions = nil
		return s.gone(key, w, h.last)
	}
	if w.known {
		return nil
	}
	var sum []byte
	err = s.db.QueryRowContext(ctx, `SELECT hash FROM events WHERE pos = ? AND seq = ?`, w.positions[0], w.after).Scan(&sum)
	w.positions = w.positions[1:]
	switch {
	case errors.Is(err, sql.ErrNoRows):
		w.positions = nil
		return s.gone(key, w, h.last)
	case err != nil:
		return s.readFault(ctx, err)
	}
	copy(w.before[:], sum)
	w.known = true
	return nil
}

// positionList returns the JSON array of some positions.
func positionList(positions []int64) string {
	b := []byte{'['}
	for i, pos := range positions {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, pos, 10)
	}
	return string(append(b, ']'))
}

// gone returns the error for an event that is missing: the log was trimmed or dropped meanwhile, or
// the disk has lost the event.
func (s *Store) gone(key string, w *walk, last uint64) error {
	h, ok := s.look(key)
	switch {
	case !ok || h.id != w.log:
		return store.ErrNotFound
	case w.after+1 < h.first:
		return &store.TrimmedError{Key: key, First: h.first}
	}
	return s.corrupt("log %q: an event of %d to %d is missing or corrupt", key, w.after+1, last)
}

// readFault converts a database error for a reader.
func (s *Store) readFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.ready(ctx) != nil || errors.Is(err, sql.ErrConnDone) {
		return store.ErrClosed
	}
	return fault(err)
}
