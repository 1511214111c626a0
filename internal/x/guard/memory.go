package guard

import (
	"context"
	"sync"
)

// Memory bounds the bytes of all long bodies that are in memory at once; short ones, of up to 64 KiB, are free. Who finds
// no room waits in line. The zero Memory has room for 512 MiB. It is safe for concurrent use.
//
// Room is taken before a body is read, for all that it may have, and not as it arrives: many that are half read and wait
// for each other would never go on.
type Memory struct {
	// Max is how many bytes there is room for. Zero means 512 MiB, negative means no bound. It must not change.
	Max int64

	mu   sync.Mutex // guards what is below
	used int64
	line []*turn
}

// A turn is a body that waits for room.
type turn struct {
	bytes int64
	ready chan struct{} // closed when it has its room
}

const defaultMemory = 512 << 20

// take waits for room until ctx ends. Nobody overtakes.
func (m *Memory) take(ctx context.Context, bytes int64) error {
	m.mu.Lock()
	if len(m.line) == 0 && m.fitsLocked(bytes) {
		m.used += bytes
		m.mu.Unlock()
		return nil
	}
	t := &turn{bytes: bytes, ready: make(chan struct{})}
	m.line = append(m.line, t)
	m.mu.Unlock()

	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, other := range m.line {
		if other == t {
			m.line = append(m.line[:i], m.line[i+1:]...)
			m.admitLocked() // the next one may be smaller
			return context.Cause(ctx)
		}
	}
	return nil // its turn came at the same time
}

// fitsLocked lets a single body in whatever its size.
func (m *Memory) fitsLocked(bytes int64) bool {
	limit := m.Max
	if limit == 0 {
		limit = defaultMemory
	}
	return limit < 0 || m.used == 0 || m.used+bytes <= limit
}

func (m *Memory) give(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
	m.admitLocked()
}

func (m *Memory) admitLocked() {
	for len(m.line) > 0 && m.fitsLocked(m.line[0].bytes) {
		t := m.line[0]
		m.line[0] = nil
		m.line = m.line[1:]
		m.used += t.bytes
		close(t.ready)
	}
}

// weight is what a body of so many bytes counts.
func weight(bytes int64) int64 {
	if bytes <= step {
		return 0
	}
	return bytes
}
