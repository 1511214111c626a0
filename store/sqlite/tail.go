package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"

	"github.com/da1ed7bb/parley/store"
)

// A tail is what waits for a change of one log.
type tail struct {
	changed chan struct{} // closed at the next change
	waiting int
}

// publish makes the logs of a commit visible, and wakes who waits for them.
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

// page is how many events are read at once, so that no reader keeps the write-ahead log from being folded back.
const page = 256

// Read implements [store.Log].
func (s *Store) Read(ctx context.Context, key string, after uint64) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		if err := s.enter(ctx, key); err != nil {
			yield(store.Event{}, err)
			return
		}
		h, ok := s.look(key)
		for last := h.last; ok && after < last; {
			events, err := s.page(ctx, key, h.id, after)
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			for _, e := range events {
				if e.Seq > last || !yield(e, nil) {
					return
				}
				after = e.Seq
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
		var log uint32 // 0 until there is one
		for {
			if log == 0 {
				if h, ok := s.look(key); ok {
					log = h.id
				}
			}
			err := s.await(ctx, key, log, after)
			var events []store.Event
			if err == nil && log != 0 {
				events, err = s.page(ctx, key, log, after)
			}
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
		}
	}
}

// await returns when the log with this number has events behind after, or is gone, or there is one if the number is 0.
func (s *Store) await(ctx context.Context, key string, log uint32, after uint64) error {
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
			until = 0 // it is another log that comes
		}
		wait(ctx, t.changed, until)

		s.mu.Lock()
		if t.waiting--; t.waiting == 0 && s.tails[key] == t {
			delete(s.tails, key)
		}
		s.mu.Unlock()
	}
}

// wait returns when c is closed, ctx ends or the time has come, if there is one.
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

// page reads some events of a log behind after, and the hash before them, and checks the chain.
func (s *Store) page(ctx context.Context, key string, log uint32, after uint64) ([]store.Event, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	h, ok := s.look(key)
	if !ok || h.id != log {
		return nil, store.ErrNotFound
	}
	if after+1 < h.first {
		return nil, &store.TrimmedError{Key: key, First: h.first}
	}
	before, known := h.base, after+1 == h.first
	from := after
	if known {
		from++
	}
	rows, err := s.db.QueryContext(ctx, `SELECT id, time, data, hash FROM events WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?`,
		eventID(log, from), eventID(log, h.last), page+1)
	if err != nil {
		return nil, s.readFault(ctx, err)
	}
	defer rows.Close()
	var out []store.Event
	for rows.Next() {
		var (
			id, at    int64
			data, sum []byte
		)
		if err := rows.Scan(&id, &at, &data, &sum); err != nil {
			return nil, s.readFault(ctx, err)
		}
		seq := uint64(id & 0xffffffff)
		if known {
			if want := link(&before, seq, at, data); !bytes.Equal(want[:], sum) || seq != after+1 {
				return nil, s.gone(key, log, after, h.last)
			}
			out = append(out, store.Event{Seq: seq, Time: fromMillis(at), Data: data})
			after = seq
		} else if seq != after {
			return nil, s.gone(key, log, after, h.last)
		}
		copy(before[:], sum)
		known = true
	}
	if err := rows.Err(); err != nil {
		return nil, s.readFault(ctx, err)
	}
	if len(out) == 0 {
		return nil, s.gone(key, log, after, h.last)
	}
	return out, nil
}

// gone says why an event was not where it should be: the log was trimmed or dropped since, or the disk has lost it.
func (s *Store) gone(key string, log uint32, after, last uint64) error {
	h, ok := s.look(key)
	switch {
	case !ok || h.id != log:
		return store.ErrNotFound
	case after+1 < h.first:
		return &store.TrimmedError{Key: key, First: h.first}
	}
	return s.corrupt("log %q: an event of %d to %d is missing or not what was written", key, after+1, last)
}

// readFault is what a reader returns for an error of the database.
func (s *Store) readFault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.ready(ctx) != nil || errors.Is(err, sql.ErrConnDone) {
		return store.ErrClosed
	}
	return fault(err)
}
