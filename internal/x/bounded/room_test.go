package bounded_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/internal/x/bounded"
)

// TestRoom checks that Take waits while the number or the bytes are taken, grants a place of any
// size to the only one, and ends with its context.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bounded.NewRoom(2, 100)
		take := func(cost int) chan error {
			done := make(chan error, 1)
			go func() { done <- r.Take(t.Context(), cost) }()
			synctest.Wait()
			return done
		}
		if large := take(1000); len(large) != 1 || <-large != nil {
			t.Fatal("the only place has to wait")
		}
		small := take(1)
		if len(small) != 0 {
			t.Error("a place is granted beside one that is over the bytes")
		}
		r.Give(1000)
		synctest.Wait()
		if len(small) != 1 {
			t.Fatal("the place that was returned is not granted")
		}
		if second := take(99); len(second) != 1 {
			t.Fatal("99 and 1 of 100 bytes do not fit")
		}
		third := take(0)
		if len(third) != 0 {
			t.Error("a third of two places is granted")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Take(ctx, 1) }()
		synctest.Wait()
		why := errors.New("why")
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("the end of the context: %v", err)
		}
		if n := r.Taken(); n != 2 {
			t.Errorf("%d places are taken, want 2", n)
		}
		r.Give(99)
		synctest.Wait()
		if len(third) != 1 {
			t.Error("a place is not granted after another was returned")
		}
	})
}
