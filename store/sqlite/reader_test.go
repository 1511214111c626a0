package sqlite_test

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// A store is read while it is written: it is consistent at every moment, and the writer is not
// affected.
func TestOpenReader(t *testing.T) {
	dir := t.TempDir()
	if _, err := sqlite.OpenReader(dir, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("OpenReader of an empty folder = %v", err)
	}
	if held, err := sqlite.Held(dir); held || err != nil {
		t.Fatalf("Held = %v, %v", held, err)
	}
	s, err := sqlite.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop, acked := make(chan struct{}), make(chan uint64, 1)
	acked <- 0
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Put(t.Context(), fmt.Sprint("value", w), store.Any, []byte("x"), 0); err != nil {
					t.Error(err)
					return
				}
				<-acked
				last, err := s.Append(t.Context(), "log", store.Any, []byte("event"))
				if acked <- last; err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		before := <-acked
		acked <- before
		if held, err := sqlite.Held(dir); !held || err != nil {
			t.Errorf("Held = %v, %v", held, err)
		}
		r, err := sqlite.OpenReader(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		for _, err := range r.Read(t.Context(), "log", 0) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		if n < before {
			t.Errorf("%d events are read, %d were acknowledged", n, before)
		}
		if _, err := r.Append(t.Context(), "log", store.Any, []byte("x")); err == nil {
			t.Error("a reader writes")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if held, err := sqlite.Held(dir); held || err != nil {
		t.Errorf("Held after Close = %v, %v", held, err)
	}
	r, err := sqlite.OpenReader(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if s, err = sqlite.Open(dir, nil); err != nil { // a reader does not lock out writers
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
