package gateway

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// try sends one call through b, and reports whether it could be sent.
func try(b *breaker, v verdict) bool {
	p, ok := b.allow(time.Now())
	if ok {
		b.done(p, v, time.Now())
	}
	return ok
}

func tryAll(t *testing.T, b *breaker, n int, v verdict) {
	t.Helper()
	for i := range n {
		if !try(b, v) {
			t.Fatalf("call %d of %d was refused: %+v", i+1, n, b.status(time.Now()))
		}
	}
}

// opensFor waits until b lets a call pass, in steps of 10 ms, and returns how long that took.
func opensFor(b *breaker) time.Duration {
	begin := time.Now()
	for !b.usable(time.Now()) {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begin)
}

func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*8/10 || got > want*12/10+10*time.Millisecond {
		t.Errorf("%s: %v, want %v ± 20 %%", what, got, want)
	}
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{})
		tryAll(t, b, 4, verdictFailure)
		tryAll(t, b, 10, verdictSuccess) // the row ends
		tryAll(t, b, 4, verdictFailure)
		if s := b.status(time.Now()); s.State != breakerClosed || s.FailuresInRow != 4 || s.Failures != 8 || s.Calls != 18 {
			t.Fatalf("before the fifth: %+v", s)
		}
		tryAll(t, b, 1, verdictFailure)
		s := b.status(time.Now())
		if s.State != breakerOpen || s.Opened != 1 || s.RetryAfter <= 0 {
			t.Fatalf("after the fifth: %+v", s)
		}
		for range 1000 {
			if try(b, verdictSuccess) {
				t.Fatal("a call passed while open")
			}
		}
	})
}

func TestBreakerOpensAtARatioInTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{Failures: 5, Ratio: 0.5, Window: 30 * time.Second})
		for range 4 { // one of two: no five in a row
			tryAll(t, b, 1, verdictFailure)
			tryAll(t, b, 1, verdictSuccess)
			time.Sleep(time.Second)
		}
		time.Sleep(31 * time.Second) // all of them leave the window
		if s := b.status(time.Now()); s.Calls != 0 {
			t.Fatalf("old calls still count: %+v", s)
		}
		tryAll(t, b, 6, verdictSuccess)
		for range 4 {
			tryAll(t, b, 1, verdictFailure)
			tryAll(t, b, 1, verdictSuccess)
		}
		tryAll(t, b, 1, verdictFailure) // 5 of 15
		if s := b.status(time.Now()); s.State != breakerClosed || s.Failures != 5 || s.Calls != 15 {
			t.Fatalf("5 of 15: %+v", s)
		}
		tryAll(t, b, 3, verdictFailure) // 8 of 18
		tryAll(t, b, 1, verdictSuccess)
		tryAll(t, b, 1, verdictFailure) // 9 of 20
		if s := b.status(time.Now()); s.State != breakerClosed || s.Failures != 9 || s.Calls != 20 {
			t.Fatalf("9 of 20: %+v", s)
		}
		tryAll(t, b, 1, verdictFailure) // 10 of 21
		if s := b.status(time.Now()); s.State != breakerClosed {
			t.Fatalf("10 of 21: %+v", s)
		}
		tryAll(t, b, 1, verdictFailure) // 11 of 22
		if s := b.status(time.Now()); s.State != breakerOpen {
			t.Fatalf("11 of 22: %+v", s)
		}
	})
}

func TestBreakerHalfOpenHasOneTrialAtATimeAndDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		b := newBreaker(breakerOptions{Changed: func(from, to breakerState) { seen = append(seen, fmt.Sprint(from, " ", to)) }})
		tryAll(t, b, 5, verdictFailure)
		for i, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
			within(t, fmt.Sprint("open time ", i+1), opensFor(b), want*time.Second)
			p, ok := b.allow(time.Now())
			if !ok || !p.trial {
				t.Fatalf("no trial: %v %v", p, ok)
			}
			if _, second := b.allow(time.Now()); second || b.usable(time.Now()) {
				t.Fatal("two trials at a time")
			}
			if s := b.status(time.Now()); s.State != breakerHalfOpen || s.RetryAfter <= 0 {
				t.Fatalf("during a trial: %+v", s)
			}
			b.done(p, verdictFailure, time.Now())
		}
		opensFor(b)
		tryAll(t, b, 1, verdictSuccess)
		if s := b.status(time.Now()); s.State != breakerHalfOpen {
			t.Fatalf("after one success: %+v", s)
		}
		tryAll(t, b, 1, verdictSuccess)
		if s := b.status(time.Now()); s.State != breakerClosed || s.Opened != 7 {
			t.Fatalf("after two: %+v", s)
		}
		tryAll(t, b, 5, verdictFailure)
		within(t, "open time after it was closed", opensFor(b), 5*time.Second)
		if !slices.Equal(seen[:4], []string{"closed open", "open half-open", "half-open open", "open half-open"}) || seen[len(seen)-2] != "half-open closed" {
			t.Errorf("changes: %q", seen)
		}
	})
}

func TestBreakerTrialThatProvesNothingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{})
		tryAll(t, b, 5, verdictFailure)
		opensFor(b)
		tryAll(t, b, 3, verdictNone) // cancelled by their callers
		tryAll(t, b, 1, verdictSuccess)
		tryAll(t, b, 1, verdictNone)
		tryAll(t, b, 1, verdictSuccess)
		if s := b.status(time.Now()); s.State != breakerClosed {
			t.Fatalf("%+v", s)
		}
	})
}

func TestBreakerIgnoresCallsOfAnEarlierPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{})
		old, _ := b.allow(time.Now())
		if !b.valid(old, time.Now()) {
			t.Fatal("the permit is not valid")
		}
		tryAll(t, b, 5, verdictFailure)
		if b.valid(old, time.Now()) {
			t.Error("a permit outlived the state")
		}
		opensFor(b)
		b.done(old, verdictFailure, time.Now())
		trial, ok := b.allow(time.Now())
		if !ok {
			t.Fatal("an old failure ended the half-open state")
		}
		b.done(old, verdictSuccess, time.Now())
		b.done(old, verdictSuccess, time.Now())
		if s := b.status(time.Now()); s.State != breakerHalfOpen {
			t.Errorf("old successes closed it: %+v", s)
		}
		if _, second := b.allow(time.Now()); second {
			t.Error("an old result released the place of the trial")
		}
		b.done(trial, verdictSuccess, time.Now())
	})
}

func TestBreakerPauseIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{})
		for _, c := range []struct{ d, want time.Duration }{
			{3 * time.Second, 3 * time.Second},
			{0, time.Second},
			{-time.Hour, time.Second},
			{24 * time.Hour, 5 * time.Minute},
		} {
			b.pause(c.d, time.Now())
			if s := b.status(time.Now()); s.State != breakerClosed || s.Paused != c.want || s.RetryAfter != c.want || s.Failures != 0 {
				t.Errorf("pause(%v): %+v", c.d, s)
			}
			if try(b, verdictSuccess) || b.usable(time.Now()) {
				t.Errorf("pause(%v): a call passed", c.d)
			}
			time.Sleep(c.want - 1)
			if try(b, verdictSuccess) {
				t.Errorf("pause(%v): a call passed 1 ns early", c.d)
			}
			time.Sleep(time.Nanosecond)
			if !b.usable(time.Now()) || !try(b, verdictSuccess) {
				t.Errorf("pause(%v): it does not end", c.d)
			}
		}
		b.pause(10*time.Second, time.Now())
		b.pause(time.Second, time.Now()) // does not shorten the other
		if s := b.status(time.Now()); s.Paused != 10*time.Second {
			t.Errorf("a second pause: %v", s.Paused)
		}
	})
}

func TestBreakerCordon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		b := newBreaker(breakerOptions{Changed: func(from, to breakerState) { seen = append(seen, fmt.Sprint(from, " ", to)) }})
		running, _ := b.allow(time.Now())
		b.cordon(true)
		b.cordon(true)
		b.done(running, verdictSuccess, time.Now())
		time.Sleep(time.Hour)
		b.checked(true, time.Now())
		b.recovered(time.Now())
		if s := b.status(time.Now()); s.State != breakerCordoned || s.RetryAfter >= 0 || try(b, verdictSuccess) || b.usable(time.Now()) {
			t.Errorf("cordoned: %+v", s)
		}
		b.cordon(false)
		tryAll(t, b, 4, verdictFailure)
		if want := []string{"closed cordoned", "cordoned closed"}; !slices.Equal(seen, want) {
			t.Errorf("changes: %q, want %q", seen, want)
		}
	})
}

func TestBreakerOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{Off: true})
		tryAll(t, b, 1000, verdictFailure)
		b.pause(time.Second, time.Now())
		if try(b, verdictSuccess) {
			t.Error("a pause has no effect")
		}
		b.cordon(true)
		time.Sleep(time.Minute)
		if try(b, verdictSuccess) {
			t.Error("the cordon has no effect")
		}
	})
}

// TestBreakerActiveCheckComesFirst: with active checks a half-open breaker needs a successful one
// before calls are trials, and it requests one without waiting for a call.
func TestBreakerActiveCheckComesFirst(t *testing.T) {
	for _, proves := range []bool{false, true} {
		t.Run(fmt.Sprint("proves ", proves), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				checks := 0
				b := newBreaker(breakerOptions{Check: func() { checks++ }, Proves: proves})
				defer b.close()
				tryAll(t, b, 5, verdictFailure)
				b.checked(true, time.Now()) // open: too early
				if s := b.status(time.Now()); s.State != breakerOpen {
					t.Fatalf("a check closed an open breaker: %+v", s)
				}
				time.Sleep(7 * time.Second)
				synctest.Wait()
				if checks != 1 || try(b, verdictSuccess) {
					t.Fatalf("half-open: %d checks were requested, or a call passed before", checks)
				}
				b.checked(false, time.Now())
				if s := b.status(time.Now()); s.State != breakerOpen || s.Opened != 2 {
					t.Fatalf("after a failed check: %+v", s)
				}
				time.Sleep(13 * time.Second)
				synctest.Wait()
				b.checked(true, time.Now())
				tryAll(t, b, 1, verdictSuccess)
				want := breakerHalfOpen
				if proves {
					want = breakerClosed
				}
				if s := b.status(time.Now()); s.State != want || checks != 2 {
					t.Fatalf("after a check and a call: %+v, %d checks", s, checks)
				}
			})
		})
	}
}

func TestBreakerRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerOptions{Open: time.Hour, Max: time.Hour, Check: func() { t.Error("a check was requested") }})
		defer b.close()
		b.recovered(time.Now())
		tryAll(t, b, 5, verdictFailure)
		b.recovered(time.Now())
		tryAll(t, b, 2, verdictSuccess)
		if s := b.status(time.Now()); s.State != breakerClosed {
			t.Errorf("%+v", s)
		}
	})
}

func BenchmarkBreaker(b *testing.B) {
	k := newBreaker(breakerOptions{})
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		p, _ := k.allow(now)
		k.done(p, verdictSuccess, now)
	}
}
