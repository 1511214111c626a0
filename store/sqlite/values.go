package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/store"
)

func valueCost(size int) int64 { return int64(size) + store.EntryBytes }

// A slot is the row of a value without its data.
type slot struct {
	rev    uint64
	size   int
	digest uint64
}

// slot returns the value of a key as seen by this commit. It removes the value if it has expired.
func (b *batch) slot(key string) (v slot, err error) {
	st, err := b.statement(`SELECT rev, expires, length(data), hash FROM vals WHERE key = ?`)
	if err != nil {
		return v, err
	}
	var (
		expires int64
		sum     []byte
	)
	err = st.QueryRowContext(context.Background(), key).Scan(&v.rev, &expires, &v.size, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return slot{}, nil
	}
	if err != nil {
		return v, databaseError{err}
	}
	v.digest = first8(sum)
	if past(expires, b.now) {
		return slot{}, b.forget(key, v)
	}
	return v, nil
}

// forget removes a value.
func (b *batch) forget(key string, v slot) error {
	b.next.vals--
	b.next.bytes -= valueCost(v.size)
	b.next.total -= v.digest
	return b.exec(`DELETE FROM vals WHERE key = ?`, key)
}

// sweepValues removes expired values.
func (b *batch) sweepValues() error {
	old, err := b.expiredValues()
	if err != nil {
		return err
	}
	for key, v := range old {
		if err := b.forget(key, v); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) expiredValues() (map[string]slot, error) {
	st, err := b.statement(`SELECT key, length(data), hash FROM vals WHERE expires > 0 AND expires <= ? LIMIT ?`)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(context.Background(), b.now.UnixMilli(), sweepMost)
	if err != nil {
		return nil, databaseError{err}
	}
	defer rows.Close()
	old := map[string]slot{}
	for rows.Next() {
		var (
			key string
			v   slot
			sum []byte
		)
		if err := rows.Scan(&key, &v.size, &sum); err != nil {
			return nil, databaseError{err}
		}
		v.digest = first8(sum)
		old[key] = v
	}
	if err := rows.Err(); err != nil {
		return nil, databaseError{err}
	}
	return old, nil
}

// Put implements [store.Values].
func (s *Store) Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	if err := s.enter(ctx, key); err != nil {
		return 0, err
	}
	if int64(len(data)) > s.limits.ValueBytes {
		return 0, &store.LimitError{What: "bytes of one value", Limit: s.limits.ValueBytes}
	}
	data = append([]byte{}, data...) // the commit may run after the caller has returned
	return s.write(ctx, int64(len(data)), func(b *batch) (uint64, error) { return b.put(key, rev, data, ttl) })
}

func (b *batch) put(key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	old, err := b.slot(key)
	if err != nil {
		return 0, err
	}
	if rev != store.Any && rev != old.rev {
		return 0, &store.ConflictError{Key: key, Want: rev, Have: old.rev}
	}
	fresh, cost := int64(1), valueCost(len(data))
	if old.rev != 0 {
		fresh, cost = 0, int64(len(data)-old.size)
	}
	if err := b.makeRoom(0, fresh, cost); err != nil {
		return 0, err
	}
	b.next.rev++
	b.next.vals += fresh
	b.next.bytes += cost
	var expires int64
	if ttl > 0 {
		expires = expiry(b.now.Add(ttl))
	}
	sum := valueHash(key, b.next.rev, expires, data)
	b.next.total += first8(sum[:]) - old.digest
	return b.next.rev, b.exec(`INSERT INTO vals (key, rev, expires, data, hash) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (key) DO UPDATE SET rev = ?2, expires = ?3, data = ?4, hash = ?5`, key, b.next.rev, expires, data, sum[:])
}

// Delete implements [store.Values].
func (s *Store) Delete(ctx context.Context, key string, rev uint64) error {
	if err := s.enter(ctx, key); err != nil {
		return err
	}
	_, err := s.write(ctx, 0, func(b *batch) (uint64, error) {
		old, err := b.slot(key)
		if err != nil {
			return 0, err
		}
		if rev != store.Any && rev != old.rev {
			return 0, &store.ConflictError{Key: key, Want: rev, Have: old.rev}
		}
		if old.rev == 0 {
			return 0, nil
		}
		return 0, b.forget(key, old)
	})
	return err
}

// Get implements [store.Values].
func (s *Store) Get(ctx context.Context, key string) (store.Value, error) {
	if err := s.enter(ctx, key); err != nil {
		return store.Value{}, err
	}
	rows, err := s.db.QueryContext(ctx, `SELECT key, rev, expires, data, hash FROM vals WHERE key = ?`, key)
	if err != nil {
		return store.Value{}, s.readFault(ctx, err)
	}
	values, err := s.scanValues(ctx, rows)
	if err != nil {
		return store.Value{}, err
	}
	if len(values) == 0 {
		return store.Value{}, store.ErrNotFound
	}
	return values[0], nil
}

// List implements [store.Values].
func (s *Store) List(ctx context.Context, prefix, after string, n int) ([]store.Value, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	from, to := between(prefix, after)
	rows, err := s.db.QueryContext(ctx, `SELECT key, rev, expires, data, hash FROM vals
		WHERE key > ?1 AND key >= ?2 AND (?3 = '' OR key < ?3) AND (expires = 0 OR expires > ?4) ORDER BY key LIMIT ?5`,
		after, from, to, time.Now().UnixMilli(), pageSize(n))
	if err != nil {
		return nil, s.readFault(ctx, err)
	}
	return s.scanValues(ctx, rows)
}

// scanValues reads values and closes rows. It skips expired values and stops after a page of data.
func (s *Store) scanValues(ctx context.Context, rows *sql.Rows) ([]store.Value, error) {
	defer rows.Close()
	var out []store.Value
	size, now := 0, time.Now()
	for size < store.PageBytes && rows.Next() {
		var (
			v       store.Value
			expires int64
			sum     []byte
		)
		if err := rows.Scan(&v.Key, &v.Rev, &expires, &v.Data, &sum); err != nil {
			return nil, s.readFault(ctx, err)
		}
		if want := valueHash(v.Key, v.Rev, expires, v.Data); !bytes.Equal(want[:], sum) {
			return nil, s.corrupt("value %q is corrupt", v.Key)
		}
		if past(expires, now) {
			continue
		}
		v.Expires = fromMillis(expires)
		out = append(out, v)
		size += len(v.Data)
	}
	if err := rows.Err(); err != nil {
		return nil, s.readFault(ctx, err)
	}
	return out, nil
}
