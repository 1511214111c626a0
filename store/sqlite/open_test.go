package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/store"
)

// A caller that is cancelled while its write waits gets the cause; the write is either done or not,
// and the store continues.
func TestGivingUp(t *testing.T) {
	s := open(t, t.TempDir(), store.Limits{})
	defer s.Close()
	why := errors.New("enough")
	var wg sync.WaitGroup
	for w := range 20 {
		wg.Go(func() {
			for i := range 20 {
				ctx, cancel := context.WithCancelCause(t.Context())
				if (w+i)%2 == 0 {
					go cancel(why)
				}
				if _, err := s.Append(ctx, "log", store.Any, fmt.Appendf(nil, "%d.%d", w, i)); err != nil && !errors.Is(err, why) {
					t.Error(err)
				}
				cancel(nil)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for e, err := range s.Read(t.Context(), "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(e.Data)] {
			t.Errorf("duplicate entry %s", e.Data)
		}
		seen[string(e.Data)] = true
	}
	for w := range 20 {
		for i := range 20 {
			if !seen[fmt.Sprintf("%d.%d", w, i)] && (w+i)%2 != 0 {
				t.Errorf("%d.%d was acknowledged and is missing", w, i)
			}
		}
	}
}

// Writes that run while the store is closed are either acknowledged and stored, or fail because it
// is closed.
func TestCloseUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Limits{})
	const writers = 20
	acked := make([]uint64, writers)
	started := make(chan struct{}, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for {
				last, err := s.Append(t.Context(), fmt.Sprint("log", w), store.Any, []byte("x"))
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if acked[w] = last; last == 1 {
					started <- struct{}{}
				}
			}
		})
	}
	for range writers {
		<-started
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	s = open(t, dir, store.Limits{})
	defer s.Close()
	for w := range writers {
		h, err := s.Head(t.Context(), fmt.Sprint("log", w))
		if err != nil || h.Last != acked[w] {
			t.Errorf("log %d is at %d, %v; %d was acknowledged", w, h.Last, err, acked[w])
		}
	}
}
