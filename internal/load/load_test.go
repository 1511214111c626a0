package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestHistogram compares quantiles with those of all values, sorted.
func TestHistogram(t *testing.T) {
	var h Histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rand.ExpFloat64() * float64(time.Millisecond))
		h.Add(d)
		all = append(all, d)
	}
	for _, d := range []time.Duration{0, 1, 1023, 1024, 1025, 1<<62 + 12345} {
		h.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(q*float64(len(all))+0.999999)-1, 0)]
		if got := h.Quantile(q); got < want || float64(got) > float64(want)*1.001+1 {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if h.Max() != all[len(all)-1] || h.Count() != uint64(len(all)) {
		t.Errorf("max %v of %d", h.Max(), h.Count())
	}
}

// TestClosedLoop checks the number of calls and their durations: each caller waits for its
// response.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Callers: 4, Ramp: 2 * time.Second, Call: func(_ context.Context, i int) []error {
			time.Sleep(10 * time.Millisecond)
			if i == 0 {
				return []error{nil, &jsonrpc.Error{Code: 7}, errors.New("x"), jsonrpc.ErrTimeout}
			}
			return []error{nil}
		}})
		l.Run(t.Context(), time.Second)
		if l.Calls() != 3*100+400 || l.Times.Max() != 10*time.Millisecond || l.Seconds() != 1 {
			t.Errorf("%d calls in %v s, the longest %v", l.Calls(), l.Seconds(), l.Times.Max())
		}
		if e := l.Errors(); len(e) != 3 || e["7"] != 100 || e["other"] != 100 || e["timeout"] != 100 {
			t.Errorf("errors: %v", e)
		}
	})
}

// TestOpenLoop checks that a server that stops for a second is seen by all calls that were due
// then, and not only by the one that it delayed.
func TestOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := New(Options{Callers: 1, Rate: 100, Call: func(context.Context, int) []error {
			if since := time.Since(begin); since < time.Second {
				time.Sleep(time.Second - since)
			}
			return []error{nil}
		}})
		l.Run(t.Context(), 2*time.Second)
		if l.Calls() != 200 {
			t.Errorf("%d calls, want 200", l.Calls())
		}
		if p := l.Times.Quantile(0.75); p < 490*time.Millisecond || p > 510*time.Millisecond {
			t.Errorf("p75 is %v: the calls that waited for the first one are missing", p)
		}
	})
}

// TestLate checks that a run against a server that does not respond ends, and that all calls that
// were due count.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		sent := 0
		l := New(Options{Callers: 1, Rate: 100, Late: time.Second, Each: 2, Call: func(context.Context, int) []error {
			sent++
			time.Sleep(time.Second) // until its timeout
			return []error{context.DeadlineExceeded, context.DeadlineExceeded}
		}})
		l.Run(t.Context(), 2*time.Second)
		if e := l.Errors(); l.Calls() != 400 || sent != 4 || e["timeout"] != 8 || e["unsent"] != 392 {
			t.Errorf("%d calls, %d sent, %v", l.Calls(), sent, e)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if p := l.Times.Quantile(0.5); p < 2*time.Second {
			t.Errorf("p50 is %v", p)
		}
	})
}

// TestRamp checks that the rate rises, and that calls of the ramp do not count.
func TestRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := 0
		l := New(Options{Callers: 1, Rate: 100, Ramp: 2 * time.Second, Call: func(context.Context, int) []error { all++; return []error{nil} }})
		l.Run(t.Context(), time.Second)
		if all != 200 || l.Calls() != 100 {
			t.Errorf("%d calls, of which %d count; want 200 and 100", all, l.Calls())
		}
	})
}
