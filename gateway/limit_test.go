package gateway

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// takes calls take n times and returns how many succeeded.
func takes(l *limiter, n int, c ...charge) (passed int) {
	for range n {
		if _, over := l.take(c, time.Now()); over < 0 {
			passed++
		}
	}
	return passed
}

func TestLimiterIsExact(t *testing.T) {
	for _, c := range []struct {
		rate     limitRate
		replicas int
		burst    int
		each     time.Duration
	}{
		{limitRate{100, time.Second, 200}, 1, 200, 10 * time.Millisecond},
		{limitRate{10, time.Minute, 0}, 1, 10, 6 * time.Second},
		{limitRate{10, time.Minute, 1}, 1, 1, 6 * time.Second},
		{limitRate{3, time.Second, 0}, 1, 3, 333333334},
		{limitRate{100, time.Second, 200}, 4, 50, 40 * time.Millisecond},
		{limitRate{1, time.Hour, 0}, 3, 1, 3 * time.Hour},
	} {
		t.Run(fmt.Sprint(c.rate, c.replicas), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter([]limitRate{c.rate}, c.replicas)
				key := charge{0, "p", ""}
				if got := takes(l, c.burst+10, key); got != c.burst {
					t.Errorf("burst: %d, want %d", got, c.burst)
				}
				wait, over := l.take([]charge{key}, time.Now())
				if over != 0 || wait != c.each {
					t.Fatalf("empty: %v, charge %d, want %v", wait, over, c.each)
				}
				time.Sleep(wait - 1)
				if got := takes(l, 1, key); got != 0 {
					t.Error("a token came 1 ns early")
				}
				time.Sleep(time.Nanosecond)
				if got := takes(l, 5, key); got != 1 {
					t.Errorf("after retryAfter: %d, want 1", got)
				}
				time.Sleep(7*c.each + c.each/2)
				if got := takes(l, c.burst+10, key); got != min(7, c.burst) {
					t.Errorf("after 7.5 tokens: %d", got)
				}
				time.Sleep(time.Duration(c.burst+1) * c.each * 2)
				if got := takes(l, c.burst+10, key); got != c.burst {
					t.Errorf("after a long pause: %d, want %d", got, c.burst)
				}
				time.Sleep(wait - wait%time.Millisecond)
				if wait%time.Millisecond != 0 && retryMs(wait) != int64(wait/time.Millisecond)+1 {
					t.Errorf("retryMs(%v) = %d", wait, retryMs(wait))
				}
			})
		})
	}
}

func TestLimiterKeysAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter([]limitRate{{2, time.Hour, 0}, {3, time.Hour, 0}}, 1)
		for _, c := range []charge{{0, "a", ""}, {0, "b", ""}, {0, "a", "x"}, {0, "a", "y"}, {1, "c", "x"}} {
			if got := takes(l, 10, c); got != 2+c.rule {
				t.Errorf("%v: %d", c, got)
			}
		}
		if s := l.status(); s.Buckets != 5 || s.Refused != 8+8+8+8+7 {
			t.Errorf("%+v", s)
		}
		if _, over := l.take(nil, time.Now()); over != -1 {
			t.Error("a call without rules was refused")
		}
	})
}

// TestLimiterTakesFromAllOrNone: a refused call uses no token of the other rules.
func TestLimiterTakesFromAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter([]limitRate{{100, time.Hour, 0}, {2, time.Minute, 0}, {1, time.Minute, 0}}, 1)
		wide, tool, other := charge{0, "p", ""}, charge{1, "p", "tool"}, charge{2, "p", "other"}
		if got := takes(l, 50, wide, tool); got != 2 {
			t.Fatalf("%d, want 2", got)
		}
		if got := takes(l, 200, wide); got != 98 {
			t.Errorf("%d tokens are left, want 98", got)
		}
		takes(l, 1, other)
		// both are empty: the longer wait counts
		if wait, over := l.take([]charge{tool, other}, time.Now()); wait != time.Minute || over != 1 {
			t.Errorf("%v, charge %d", wait, over)
		}
		if wait, over := l.take([]charge{other, tool}, time.Now()); wait != time.Minute || over != 0 {
			t.Errorf("%v, charge %d", wait, over)
		}
	})
}

func TestLimiterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter([]limitRate{{10, time.Minute, 0}, {1, time.Minute, 0}}, 1)
		l.most = 100
		busy := charge{1, "busy", ""}
		takes(l, 1, busy)
		for i := range 99 {
			takes(l, 1, charge{0, fmt.Sprint("idle ", i), ""})
		}
		time.Sleep(7 * time.Second) // those with 10 a minute are full again
		for i := range 50 {
			takes(l, 1, charge{0, fmt.Sprint("new ", i), ""})
		}
		if s := l.status(); s.Buckets != 100 || len(l.owners) != 100 {
			t.Fatalf("%+v, %d subjects", s, len(l.owners))
		}
		if takes(l, 1, busy) != 0 {
			t.Error("a bucket that is in use was dropped, although others were idle")
		}
		for i := range 200 { // nothing is idle: the least recently used one goes
			takes(l, 1, charge{0, fmt.Sprint("newer ", i), ""})
		}
		if s := l.status(); s.Buckets != 100 || len(l.owners) != 100 {
			t.Errorf("%+v, %d subjects", s, len(l.owners))
		}
	})
}

// TestLimiterNamesOfOneCaller: calls under many names do not free a caller from its limit.
func TestLimiterNamesOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter([]limitRate{{10, time.Minute, 0}}, 1)
		tool := charge{0, "p", "tool"}
		takes(l, 10, tool)
		passed := 0
		for i := range 20_000 {
			passed += takes(l, 1, charge{0, "p", fmt.Sprint("name ", i)})
		}
		if s := l.status(); s.Buckets != limitPerOwner+1 || passed != limitPerOwner-1+10 {
			t.Errorf("%+v, %d calls passed", s, passed)
		}
		if takes(l, 1, tool) != 0 {
			t.Error("the bucket of the tool was dropped")
		}
		if takes(l, 1, charge{0, "q", "tool"}) != 1 {
			t.Error("another caller is limited")
		}
	})
}

func BenchmarkLimiter(b *testing.B) {
	l := newLimiter([]limitRate{{1_000_000_000, time.Second, 0}, {1_000_000_000, time.Second, 0}}, 1)
	both := []charge{{0, "token:somebody", ""}, {1, "token:somebody", "crm__export"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, over := l.take(both, time.Now()); over >= 0 {
			b.Fatal("refused")
		}
	}
}
