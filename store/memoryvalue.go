package store

import (
	"bytes"
	"context"
	"time"
)

func (m *Memory) valueLocked(key string, now time.Time) (Value, bool) {
	v, ok := m.values[key]
	if ok && past(v.Expires, now) {
		m.forgetLocked(v)
		return Value{}, false
	}
	return v, ok
}

func (m *Memory) forgetLocked(v Value) {
	m.bytes -= int64(len(v.Data)) + EntryBytes
	delete(m.values, v.Key)
}

// Get implements [Values].
func (m *Memory) Get(ctx context.Context, key string) (Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return Value{}, err
	}
	v, ok := m.valueLocked(key, time.Now())
	if !ok {
		return Value{}, ErrNotFound
	}
	return v, nil
}

// Put implements [Values].
func (m *Memory) Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return 0, err
	}
	if int64(len(data)) > m.limits.ValueBytes {
		return 0, &LimitError{What: "bytes of one value", Limit: m.limits.ValueBytes}
	}
	now := time.Now()
	old, ok := m.valueLocked(key, now)
	if rev != Any && rev != old.Rev {
		return 0, &ConflictError{Key: key, Want: rev, Have: old.Rev}
	}
	fresh, cost := int64(0), int64(len(data)-len(old.Data))
	if !ok {
		fresh, cost = 1, cost+EntryBytes
	}
	if err := m.makeRoomLocked(now, 0, fresh, cost); err != nil {
		return 0, err
	}
	m.lastRev++
	v := Value{Key: key, Rev: m.lastRev, Data: bytes.Clone(data)}
	if ttl > 0 {
		v.Expires = expiry(now.Add(ttl))
	}
	m.values[key] = v
	m.bytes += cost
	return v.Rev, nil
}

// Delete implements [Values].
func (m *Memory) Delete(ctx context.Context, key string, rev uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.enterLocked(ctx, key); err != nil {
		return err
	}
	v, ok := m.valueLocked(key, time.Now())
	if rev != Any && rev != v.Rev {
		return &ConflictError{Key: key, Want: rev, Have: v.Rev}
	}
	if ok {
		m.forgetLocked(v)
	}
	return nil
}

// List implements [Values].
func (m *Memory) List(ctx context.Context, prefix, after string, n int) ([]Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.openLocked(ctx); err != nil {
		return nil, err
	}
	now := time.Now()
	var out []Value
	size := 0
	for _, key := range pageOf(m.values, prefix, after) {
		if len(out) == pageSize(n) || size >= PageBytes {
			break
		}
		if v, ok := m.valueLocked(key, now); ok {
			out = append(out, v)
			size += len(v.Data)
		}
	}
	return out, nil
}
