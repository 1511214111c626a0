package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T, l store.Limits) store.Store { return store.NewMemory(l) }, nil)
}

// A Tail that waits for a log which is never created must leave nothing behind, because its key can
// be anything.
func TestTailLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{})
		for i := range 3 {
			for range 2 {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					for _, err := range s.Tail(ctx, fmt.Sprint("never", i), 0) {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
					}
				}()
			}
		}
		synctest.Wait()
		if n := store.Waiting(s); n != 3 {
			t.Errorf("%d keys are waited for, want 3", n)
		}
		time.Sleep(time.Minute)
		if n := store.Waiting(s); n != 0 {
			t.Errorf("%d keys are waited for by nobody", n)
		}
	})
}

func TestFaultPublic(t *testing.T) {
	secret := errors.New("open /home/me/secret")
	for _, c := range []struct{ reason, data string }{
		{store.ReasonFull, `{"reason":"storage_full","retryable":true,"retryAfterMs":1000}`},
		{store.ReasonCorrupt, `{"reason":"storage_corrupt","retryable":false}`},
	} {
		f := &store.Fault{Reason: c.reason, Err: secret}
		code, message, data := f.Public()
		if code != jsonrpc.CodeStorage || string(data) != c.data || strings.Contains(message, "secret") {
			t.Errorf("Public of %s = %d, %q, %s, want -31009 and %s", c.reason, code, message, data, c.data)
		}
		if !errors.Is(fmt.Errorf("append: %w", f), secret) {
			t.Errorf("%v does not wrap its cause", f)
		}
	}
}
