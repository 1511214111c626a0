package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"time"

	"github.com/da1ed7bb/parley/store"
)

// head returns a log as seen by this commit, or nil. It drops the log if it has expired.
func (b *batch) head(key string) (*head, error) {
	h, changed := b.heads[key]
	if !changed {
		old, ok := b.s.heads[key] // only this goroutine writes it
		if !ok {
			return nil, nil
		}
		h = &old
	}
	if h != nil && past(h.expires, b.now) {
		return nil, b.drop(key, h)
	}
	return h, nil
}

// drop removes a log and its events.
func (b *batch) drop(key string, h *head) error {
	if _, _, err := b.cut(h, h.last); err != nil {
		return err
	}
	b.next.logs--
	b.next.bytes -= store.EntryBytes
	b.heads[key] = nil
	return nil
}

// cut removes the events of a log up to the one numbered through. It returns their size in bytes
// and the hash of the last one.
func (b *batch) cut(h *head, through uint64) (size int64, base hash, err error) {
	if h.events() == 0 {
		return 0, h.base, nil
	}
	if err := b.flush(); err != nil {
		return 0, base, err
	}
	found, err := b.locate(h, through)
	if err != nil {
		return 0, base, err
	}
	for _, e := range found {
		if err := b.exec(`DELETE FROM events WHERE pos = ?`, e.pos); err != nil {
			return 0, base, err
		}
		size += e.size
		base = e.hash
		b.next.total -= first8(e.hash[:])
	}
	b.next.bytes -= size + store.EntryBytes*int64(len(found))
	return size, base, nil
}

// A located event is an event without its data.
type located struct {
	pos, size int64
	hash      hash
}

// locate finds the events of a log up to the one numbered through, oldest first.
func (b *batch) locate(h *head, through uint64) ([]located, error) {
	walk, err := b.statement(walkBack + ` SELECT w.pos, length(e.data), e.hash FROM walk w JOIN events e USING (pos)
		WHERE e.seq BETWEEN ?2 AND ?3 ORDER BY w.pos`)
	if err != nil {
		return nil, err
	}
	rows, err := walk.QueryContext(context.Background(), h.pos, h.first, through)
	if err != nil {
		return nil, databaseError{err}
	}
	defer rows.Close()
	var found []located
	for rows.Next() {
		var (
			e   located
			sum sql.RawBytes
		)
		if err := rows.Scan(&e.pos, &e.size, &sum); err != nil {
			return nil, databaseError{err}
		}
		copy(e.hash[:], sum)
		found = append(found, e)
	}
	if err := rows.Err(); err != nil {
		return nil, databaseError{err}
	}
	if uint64(len(found)) != through+1-h.first {
		return nil, databaseError{b.s.corrupt("a log has %d events from %d to %d", len(found), h.first, through)}
	}
	return found, nil
}

// walkBack finds the events of a log from the one at position ?1 back to the one numbered ?2.
const walkBack = `WITH RECURSIVE walk (pos, prev, seq) AS (
		SELECT pos, prev, seq FROM events WHERE pos = ?1
		UNION ALL SELECT e.pos, e.prev, e.seq FROM walk w JOIN events e ON e.pos = w.prev WHERE w.seq > ?2)`

// makeRoom checks the new totals and removes expired entries if they are too large.
func (b *batch) makeRoom(logs, values, size int64) error {
	check := func() error {
		return b.s.limits.CheckTotal(b.next.logs+logs, b.next.vals+values, b.next.bytes+size)
	}
	err := check()
	// A full store is not searched at every write.
	if err == nil || b.now.Sub(b.swept) < time.Second {
		return err
	}
	if err := b.sweep(); err != nil {
		return err
	}
	return check()
}

// sweep removes expired entries.
func (b *batch) sweep() error {
	b.swept = b.now
	for key := range b.s.heads { // only this goroutine writes it
		if _, err := b.head(key); err != nil {
			return err
		}
	}
	return b.sweepValues()
}

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	if err := s.enter(ctx, key); err != nil {
		return 0, err
	}
	size, err := s.limits.CheckEvents(events)
	if err != nil {
		return 0, err
	}
	kept := make([][]byte, len(events)) // the commit may run after the caller has returned
	for i, e := range events {
		kept[i] = append([]byte{}, e...)
	}
	return s.write(ctx, size, func(b *batch) (uint64, error) { return b.append(key, after, kept, size) })
}

func (b *batch) append(key string, after uint64, events [][]byte, size int64) (uint64, error) {
	old, err := b.head(key)
	if err != nil {
		return 0, err
	}
	h, fresh := head{first: 1}, int64(1)
	if old != nil {
		h, fresh = *old, 0
	}
	if after != store.Any && after != h.last {
		return 0, &store.ConflictError{Key: key, Want: after, Have: h.last}
	}
	if len(events) == 0 {
		return h.last, nil
	}
	n := int64(len(events))
	if err := b.s.limits.CheckLog(h.events()+n, h.bytes+size); err != nil {
		return 0, err
	}
	cost := size + store.EntryBytes*(fresh+n)
	if err := b.makeRoom(fresh, 0, cost); err != nil {
		return 0, err
	}
	if fresh == 1 {
		b.next.log++
		b.next.logs++
		h.id = b.next.log
		h.base = seed(&b.next, h.id, key)
		h.tip = h.base
	}
	b.next.bytes += cost
	at := b.now.UnixMilli()
	for _, e := range events {
		b.add(&h, at, e)
	}
	b.heads[key] = &h
	return h.last, nil
}

// add appends one event.
func (b *batch) add(h *head, at int64, data []byte) {
	h.last++
	b.next.pos++
	sum := link(&h.tip, h.last, at, data)
	b.rows = append(b.rows, b.next.pos, h.id, int64(h.last), h.pos, at, data, sum[:])
	h.tip, h.pos = sum, b.next.pos
	h.bytes += int64(len(data))
	b.next.total += first8(sum[:])
}

// Trim implements [store.Log].
func (s *Store) Trim(ctx context.Context, key string, through uint64) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	_, err := s.write(ctx, 0, func(b *batch) (uint64, error) { return 0, b.trim(key, through) })
	return err
}

func (b *batch) trim(key string, through uint64) error {
	old, err := b.head(key)
	if err != nil || old == nil || through < old.first || old.events() == 0 {
		return err
	}
	h := *old
	through = min(through, h.last)
	size, base, err := b.cut(&h, through)
	if err != nil {
		return err
	}
	h.bytes -= size
	h.first, h.base = through+1, base
	if h.events() == 0 {
		h.pos = 0
	}
	b.heads[key] = &h
	return nil
}

// Expire implements [store.Log].
func (s *Store) Expire(ctx context.Context, key string, at time.Time) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	_, err := s.write(ctx, 0, func(b *batch) (uint64, error) {
		old, err := b.head(key)
		if err != nil {
			return 0, err
		}
		if old == nil {
			return 0, store.ErrNotFound
		}
		h := *old
		h.expires = expiry(at)
		if past(h.expires, b.now) {
			return 0, b.drop(key, &h)
		}
		b.heads[key] = &h
		return 0, nil
	})
	return err
}

// Drop implements [store.Log].
func (s *Store) Drop(ctx context.Context, key string) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	_, err := s.write(ctx, 0, func(b *batch) (uint64, error) {
		h, err := b.head(key)
		if err != nil || h == nil {
			return 0, err
		}
		return 0, b.drop(key, h)
	})
	return err
}

// Head implements [store.Log].
func (s *Store) Head(ctx context.Context, key string) (store.Head, error) {
	if err := s.enter(ctx, key); err != nil {
		return store.Head{}, err
	}
	h, ok := s.look(key)
	if !ok {
		return store.Head{}, store.ErrNotFound
	}
	return h.public(key), nil
}

func (h *head) public(key string) store.Head {
	return store.Head{Key: key, First: h.first, Last: h.last, Bytes: h.bytes, Expires: fromMillis(h.expires)}
}

// look returns the log with this key as of the last commit.
func (s *Store) look(key string) (head, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h, ok := s.heads[key]
	return h, ok && !past(h.expires, time.Now())
}

// Heads implements [store.Log].
func (s *Store) Heads(ctx context.Context, prefix, after string, n int) ([]store.Head, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	from, to := between(prefix, after)
	rows, err := s.db.QueryContext(ctx, `SELECT key FROM logs
		WHERE key > ?1 AND key >= ?2 AND (?3 = '' OR key < ?3) AND (expires = 0 OR expires > ?4) ORDER BY key LIMIT ?5`,
		after, from, to, time.Now().UnixMilli(), pageSize(n))
	if err != nil {
		return nil, s.readFault(ctx, err)
	}
	defer rows.Close()
	var out []store.Head
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			return nil, s.readFault(ctx, err)
		}
		if h, ok := s.look(key); ok {
			out = append(out, h.public(key))
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.readFault(ctx, err)
	}
	return out, nil
}

func pageSize(n int) int {
	if n <= 0 || n > store.Page {
		return store.Page
	}
	return n
}

// between returns the range of keys with a prefix: from from (inclusive) to to (exclusive). An
// empty to means no upper bound.
func between(prefix, after string) (from, to string) {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) > 0 {
		end[len(end)-1]++
	}
	return max(prefix, after), string(bytes.Clone(end))
}
