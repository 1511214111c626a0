package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad")
		results := []error{nil, bad, nil, bad, bad, bad, nil, bad}
		var events []string
		var mu sync.Mutex
		var at []time.Time
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(at)
		}
		h := newHealth(healthOptions{
			Probe: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Now())
				return results[len(at)-1]
			},
			Checked: func(err error) { events = append(events, fmt.Sprint("checked ", err)) },
			Changed: func(up bool) { events = append(events, fmt.Sprint("up ", up)) },
		})
		h.start()
		h.start()
		for i := range results {
			synctest.Wait()
			if len(at) != i+1 {
				t.Fatalf("%d checks, want %d", len(at), i+1)
			}
			if up := i < 4 || i > 5; h.up() != up {
				t.Errorf("after check %d: up %v", i+1, h.up())
			}
			if s := h.status(); s.Up != h.up() || s.Checks != uint64(i+1) || s.Err != results[i] || s.Last != at[i] {
				t.Errorf("status %+v", s)
			}
			if i+1 < len(results) {
				for count() == i+1 {
					time.Sleep(10 * time.Millisecond)
				}
			}
		}
		h.close()
		time.Sleep(time.Hour)
		if len(at) != len(results) {
			t.Errorf("%d checks after close", len(at)-len(results))
		}
		want := []string{"checked <nil>", "checked bad", "checked <nil>", "checked bad", "checked bad", "up false", "checked bad", "checked <nil>", "up true", "checked bad"}
		if !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
		for i := range at[1:] {
			if d := at[i+1].Sub(at[i]); d < 9*time.Second || d > 11*time.Second {
				t.Errorf("check %d came after %v, want 10 s ± 10 %%", i+2, d)
			}
		}
	})
}

func TestHealthTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(healthOptions{Every: time.Minute, Probe: func(ctx context.Context) error {
			<-ctx.Done()
			return nil // too late, whatever it returns
		}})
		h.start()
		defer h.close()
		time.Sleep(2*time.Second - 1)
		if s := h.status(); s.Checks != 0 {
			t.Errorf("before the time-out: %+v", s)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if s := h.status(); s.Checks != 1 || !errors.Is(s.Err, context.DeadlineExceeded) || !s.Up {
			t.Errorf("after the time-out: %+v", s)
		}
	})
}

// TestHealthKick: a requested check runs at once, but not within a second of the last one, and
// many requests are one check.
func TestHealthKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begin := time.Now()
		h := newHealth(healthOptions{Every: time.Hour, Probe: func(context.Context) error {
			at = append(at, time.Since(begin))
			return nil
		}})
		h.start()
		synctest.Wait()
		for range 10 {
			h.kick()
		}
		time.Sleep(5 * time.Second)
		h.kick()
		synctest.Wait()
		h.close()
		h.kick() // has no effect
		if want := []time.Duration{0, time.Second, 5 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("checks at %v, want %v", at, want)
		}
	})
}

func TestHealthCloseEndsARunningCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(healthOptions{
			Probe:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			Checked: func(err error) { t.Errorf("a check that close ended was counted: %v", err) },
		})
		h.start()
		synctest.Wait()
		h.close()
		h.start() // has no effect
		if s := h.status(); s.Checks != 0 || !s.Up {
			t.Errorf("%+v", s)
		}
		newHealth(healthOptions{}).close() // never started
	})
}

func TestHealthProbePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := 0
		h := newHealth(healthOptions{Probe: func(context.Context) error { panic("x") }, Report: func(string, error) { reports++ }})
		h.start()
		time.Sleep(15 * time.Second)
		h.close()
		if s := h.status(); s.Up || s.Checks != 2 || reports != 2 {
			t.Errorf("%+v, %d reports", s, reports)
		}
	})
}
