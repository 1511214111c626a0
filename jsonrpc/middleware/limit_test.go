package middleware

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// refusal returns the fault of an error made by Limit.
func refusal(t *testing.T, err error) jsonrpc.FaultData {
	t.Helper()
	e, ok := err.(*jsonrpc.Error)
	if !ok || e.Code != jsonrpc.CodeBusy {
		t.Fatalf("error %v, want code %d", err, jsonrpc.CodeBusy)
	}
	var f jsonrpc.FaultData
	if err := e.Data.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLimitRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, now atomic.Int64
		h := Limit(Budget{Running: 3})(jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil, nil
		}))
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := h.Handle(t.Context(), call("m", ``)); err != nil {
					refused.Add(1)
					if f := refusal(t, err); f != (jsonrpc.FaultData{Reason: "busy", Retryable: true, RetryAfterMs: 100}) {
						t.Errorf("data = %+v", f)
					}
				}
			})
		}
		wg.Wait()
		if most.Load() != 3 || refused.Load() != 7 {
			t.Errorf("at most %d ran and %d were refused, want 3 and 7", most.Load(), refused.Load())
		}
		if _, err := h.Handle(t.Context(), call("m", ``)); err != nil {
			t.Errorf("all places are free, but: %v", err)
		}
	})
}

func TestLimitGivesPlacesBack(t *testing.T) {
	h := Recover(nil)(Limit(Budget{Running: 1})(jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		if req.Method == "panic" {
			panic("boom")
		}
		return nil, errors.New("fails")
	})))
	for _, method := range []string{"panic", "fail", "panic"} {
		if _, err := h.Handle(t.Context(), call(method, ``)); errors.Is(err, jsonrpc.NewError(jsonrpc.CodeBusy, "")) {
			t.Errorf("%s: %v, though nothing runs", method, err)
		}
	}
}

func TestLimitRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Limit(Budget{PerSecond: 2, Burst: 3})(answers("ok", nil))
		for i := range 3 {
			if _, err := h.Handle(t.Context(), call("m", ``)); err != nil {
				t.Fatalf("call %d of the burst: %v", i, err)
			}
		}
		for range 2 { // a refused call uses no budget: the second waits no longer than the first
			_, err := h.Handle(t.Context(), call("m", ``))
			if f := refusal(t, err); f != (jsonrpc.FaultData{Reason: "rate", Retryable: true, RetryAfterMs: 500}) {
				t.Errorf("data = %+v", f)
			}
		}
		time.Sleep(500 * time.Millisecond)
		if _, err := h.Handle(t.Context(), call("m", ``)); err != nil {
			t.Errorf("after the announced time: %v", err)
		}
	})
}

func TestLimitDefaults(t *testing.T) {
	tests := []struct {
		name   string
		budget Budget
		passes int // calls at one moment, of 10
	}{
		{"nothing", Budget{}, 10},
		{"burst of a second", Budget{PerSecond: 4}, 4},
		{"at least one", Budget{PerSecond: 0.1}, 1},
		{"negative", Budget{PerSecond: -1, Running: -1}, 10},
		{"another method", Budget{PerSecond: 1, Running: 1, Methods: []string{"other"}}, 10},
		{"this method", Budget{PerSecond: 1, Methods: []string{"other", "m"}}, 1},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			h := Limit(tt.budget)(answers(nil, nil))
			passed := 0
			for range 10 {
				if _, err := h.Handle(t.Context(), call("m", ``)); err == nil {
					passed++
				}
			}
			if passed != tt.passes {
				t.Errorf("%s: %d of 10 passed, want %d", tt.name, passed, tt.passes)
			}
		})
	}
}

// TestLimitAllOrNothing checks that if one budget rejects a request, the others are restored, both
// rates and places.
func TestLimitAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Limit(
			Budget{Running: 1},
			Budget{PerSecond: 1, Burst: 5},
			Budget{PerSecond: 1, Burst: 1, Methods: []string{"rare"}},
		)(answers(nil, nil))
		passed := map[string]int{}
		for range 10 {
			if _, err := h.Handle(t.Context(), call("rare", ``)); err == nil {
				passed["rare"]++
			}
		}
		for range 10 {
			if _, err := h.Handle(t.Context(), call("usual", ``)); err == nil {
				passed["usual"]++
			}
		}
		if passed["rare"] != 1 || passed["usual"] != 4 {
			t.Errorf("passed %v, want 1 rare and the other 4 of the burst of 5", passed)
		}
	})
}

func TestLimitIsShared(t *testing.T) {
	m := Limit(Budget{PerSecond: 1})
	a, b := m(answers(nil, nil)), m(answers(nil, nil))
	_, first := a.Handle(t.Context(), call("m", ``))
	_, second := b.Handle(t.Context(), call("m", ``))
	if first != nil || second == nil {
		t.Errorf("first %v, second %v: two handlers of one Limit share its budgets", first, second)
	}
}
