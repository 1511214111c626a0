package guard

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Memory{Max: 100}
		must := func(bytes int64) {
			t.Helper()
			if err := m.take(t.Context(), bytes); err != nil {
				t.Fatal(err)
			}
		}
		must(1000) // alone, whatever its size
		m.give(1000)
		must(60)
		must(40)

		var order []int64
		var mu sync.Mutex
		wait := func(ctx context.Context, bytes int64) {
			go func() {
				if m.take(ctx, bytes) == nil {
					mu.Lock()
					order = append(order, bytes)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx, 70)
		wait(t.Context(), 50)
		wait(t.Context(), 10) // would fit first, and waits its turn
		m.give(40)
		synctest.Wait()
		if len(order) != 0 {
			t.Errorf("%v came in before their turn", order)
		}
		cancel() // whoever leaves lets the next ones in
		synctest.Wait()
		m.give(60)
		synctest.Wait()
		if len(order) != 2 || order[0]+order[1] != 60 {
			t.Errorf("got %v, want 50 and 10", order)
		}
		m.give(50)
		m.give(10)
		if m.used != 0 || len(m.line) != 0 {
			t.Errorf("%d bytes and %d turns are left", m.used, len(m.line))
		}
		if err := m.take(t.Context(), 100); err != nil {
			t.Error(err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := m.take(short, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

// TestBodiesShareMemory holds what a body counts while it is read and afterwards.
func TestBodiesShareMemory(t *testing.T) {
	m := &Memory{Max: 1 << 20}
	b := &Body{Memory: m, Max: 1 << 20}
	read := func(size int, chunked bool) ([]byte, *Refusal) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, size)))
		r.Header.Set("Content-Type", "application/json")
		if chunked {
			r.ContentLength = -1
		}
		return b.Read(plainWriter{t}, r, nil)
	}
	for _, tt := range []struct {
		size    int
		chunked bool
		held    int64
		status  int
	}{
		{100, false, 0, 200},
		{64 << 10, false, 0, 200},
		{64<<10 + 1, false, 64<<10 + 1, 200},
		{1 << 20, false, 1 << 20, 200},
		{100, true, 0, 200},
		{200 << 10, true, 200 << 10, 200},
		{1<<20 + 1, true, 0, 413},
	} {
		body, f := read(tt.size, tt.chunked)
		if status(f) != tt.status || m.used != tt.held || f == nil && len(body) != tt.size {
			t.Errorf("%d bytes, chunked %t: got %v, %d bytes held, want %d and %d", tt.size, tt.chunked, f, m.used, tt.status, tt.held)
		}
		if f == nil {
			b.Done(len(body))
		}
		if m.used != 0 {
			t.Fatalf("%d bytes are held after Done", m.used)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		m.used = 1 << 20
		start := time.Now()
		_, f := read(100<<10, false)
		if status(f) != http.StatusServiceUnavailable || f.Name != "Retry-After" || time.Since(start) != 30*time.Second {
			t.Errorf("no room: got %v after %v, want 503 after 30s", f, time.Since(start))
		}
	})
}

// TestALongBodyTakesItsSize and not twice of it.
func TestALongBodyTakesItsSize(t *testing.T) {
	const size = 3 << 20
	r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, size)))
	r.Header.Set("Content-Type", "application/json")
	body, f := new(Body).Read(plainWriter{t}, r, nil)
	if f != nil || len(body) != size || cap(body) > size {
		t.Errorf("got %d of %d bytes, %v; want exactly %d", len(body), cap(body), f, size)
	}
}
