package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHedge(t *testing.T) {
	rules := &callRules{Timeout: time.Minute, Hedge: true, HedgeAfter: 100 * time.Millisecond}
	for _, c := range []struct {
		name       string
		idempotent bool
		members    int
		first      outcomeKind // of the member that is chosen first
		took       time.Duration
		second     outcomeKind
		want       time.Duration // until the result
		attempts   int
		upstream   string // first or second, or the reason of the error
	}{
		{"fast enough", true, 2, answered, 90 * time.Millisecond, answered, 90 * time.Millisecond, 1, "first"},
		{"the hedge wins", true, 2, answered, time.Hour, answered, 110 * time.Millisecond, 2, "second"},
		{"the first wins", true, 2, answered, 105 * time.Millisecond, answered, 105 * time.Millisecond, 2, "first"},
		{"the hedge fails", true, 2, answered, 200 * time.Millisecond, failed, 200 * time.Millisecond, 2, "first"},
		{"not idempotent", false, 2, answered, time.Second, answered, time.Second, 1, "first"},
		{"no other member", true, 1, answered, time.Second, answered, time.Second, 1, "first"},
		{"both take too long", true, 2, answered, time.Hour, answered, time.Minute, 2, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, fakes := fakeGroup(t, c.members, breakerOptions{}, queueOptions{})
				fakes[0].set(c.first, c.took)
				if c.members > 1 {
					fakes[1].set(c.second, 10*time.Millisecond)
					if c.upstream == "timeout" {
						fakes[1].set(c.second, time.Hour)
					}
					g.members[1].pending.Store(1) // the first member is chosen
					g.members[1].queue.inflight++
				}
				begin := time.Now()
				d, err := dispatch(t.Context(), g, rules, callInfo{idempotent: c.idempotent}, attemptFake)
				took := time.Since(begin)
				g.close()
				if c.members > 1 {
					g.members[1].pending.Add(-1)
					g.members[1].queue.leave(1)
				}
				got := map[string]string{"a": "first", "b": "second", "": ""}[d.upstream]
				if err != nil {
					got = reasonTimeout
				}
				if got != c.upstream || took != c.want || d.attempts != c.attempts {
					t.Errorf("%s after %v, %d attempts, %v; want %s after %v, %d attempts", got, took, d.attempts, err, c.upstream, c.want, c.attempts)
				}
				if c.name == "the hedge wins" && (fakes[0].cut != 1 || g.hedgesWon.Load() != 1 || g.hedged.Load() != 1) {
					t.Errorf("the loser was not cancelled, or not counted: %d", fakes[0].cut)
				}
				for _, m := range g.members {
					if s := m.status(); s.Failures != 0 && c.second != failed && c.upstream != "timeout" {
						t.Errorf("%s has a failure", m.name)
					}
				}
			})
		})
	}
}

func TestHedgeQuantileAndBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 2, breakerOptions{}, queueOptions{})
		rules := &callRules{Timeout: time.Minute, Hedge: true, HedgeMin: 20 * time.Millisecond}
		call := func() time.Duration {
			begin := time.Now()
			if _, err := dispatch(t.Context(), g, rules, callInfo{idempotent: true}, attemptFake); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		if _, ok := g.hedgeAfter(rules, callInfo{idempotent: true}); ok {
			t.Error("a hedge without known latencies")
		}
		for i := range 1200 { // the last 1,000 are 201…1200 × 0.1 ms: the 95 % are done after 115.0 ms
			for _, f := range fakes {
				f.set(answered, time.Duration(i+1)*100*time.Microsecond)
			}
			rules.HedgeAfter = time.Hour
			call()
		}
		rules.HedgeAfter = 0
		if after, ok := g.hedgeAfter(rules, callInfo{idempotent: true}); !ok || after != 115*time.Millisecond {
			t.Errorf("p95 is %v", after)
		}
		rules.HedgeQuantile = 0.5
		if after, _ := g.hedgeAfter(rules, callInfo{idempotent: true}); after != 70*time.Millisecond {
			t.Errorf("p50 is %v", after)
		}
		rules.HedgeMin = 80 * time.Millisecond
		if after, _ := g.hedgeAfter(rules, callInfo{idempotent: true}); after != 80*time.Millisecond {
			t.Errorf("min does not count: %v", after)
		}
		if g.hedged.Load() != 0 {
			t.Fatal("there were hedges")
		}

		// the budget: 5 % of the calls before, and 10 per second
		rules.HedgeAfter, rules.HedgeMin = time.Nanosecond, 0
		for _, f := range fakes {
			f.set(answered, time.Microsecond)
		}
		for range 1000 {
			call()
		}
		if n := g.hedged.Load(); n < 100 || n > 60+50+10+1 {
			t.Errorf("%d hedges, want 5 %% of 2,200 calls and 10", n)
		}
	})
}

// TestHedgePanics: the panic of an attempt beside a hedge is reported, and its place is free.
func TestHedgePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := fakeGroup(t, 2, breakerOptions{}, queueOptions{})
		reports := 0
		g.report = func(string, error) { reports++ }
		_, err := dispatch(t.Context(), g, &callRules{Hedge: true, HedgeAfter: time.Hour, Attempts: 1}, callInfo{idempotent: true},
			func(context.Context, *member[*fakeUpstream]) outcome[string] { panic("x") })
		if reasonOf(err)[:6] != reasonFailed || reports != 1 {
			t.Errorf("%v, %d reports", err, reports)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = dispatch(t.Context(), g, &callRules{}, callInfo{}, func(context.Context, *member[*fakeUpstream]) outcome[string] { panic("x") })
		}()
	})
}

// TestHedgedFailureKeepsItsCause checks that the error of an attempt on a hedged route, which
// decides the response, is not lost.
func TestHedgedFailureKeepsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, fakes := fakeGroup(t, 2, breakerOptions{}, queueOptions{})
		for _, f := range fakes {
			f.set(failed, 0)
		}
		_, err := dispatch(t.Context(), g, &callRules{Hedge: true, HedgeAfter: time.Hour, Attempts: 1}, callInfo{idempotent: true}, attemptFake)
		if !errors.Is(err, errFake) {
			t.Errorf("the error is %v, want the cause in it", err)
		}
	})
}
