package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A queueRun records the order in which calls run.
type queueRun struct {
	t     *testing.T
	q     *queue
	calls sync.WaitGroup

	mu   sync.Mutex
	ran  []string
	errs []string
}

// call enters the queue on another goroutine and leaves it after took. It returns once the call
// runs or waits.
func (r *queueRun) call(ctx context.Context, principal string, weight int, bytes int64, took time.Duration) {
	r.calls.Go(func() {
		_, err := r.q.enter(ctx, principal, weight, bytes)
		r.mu.Lock()
		if err != nil {
			r.errs = append(r.errs, principal+": "+err.Error())
		} else {
			r.ran = append(r.ran, principal)
		}
		r.mu.Unlock()
		if err == nil {
			time.Sleep(took) // in a synctest bubble
			r.q.leave(weight)
		}
	})
	synctest.Wait()
}

func (r *queueRun) end() {
	r.t.Helper()
	r.calls.Wait()
	if s := r.q.status(); s.Inflight != 0 || s.Waiting != 0 || s.Bytes != 0 || s.Principals != 0 || r.q.next != nil {
		r.t.Errorf("at the end: %+v", s)
	}
}

func TestQueueServesPrincipalsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 1, Wait: time.Hour})}
		r.call(t.Context(), "first", 1, 1, time.Second)
		for range 100 {
			r.call(t.Context(), "many", 1, 1, time.Second)
		}
		for range 2 {
			r.call(t.Context(), "b", 1, 1, time.Second)
			r.call(t.Context(), "c", 1, 1, time.Second)
		}
		if s := r.q.status(); s.Inflight != 1 || s.Waiting != 104 || s.Principals != 3 || s.Bytes != 104 {
			t.Fatalf("%+v", s)
		}
		r.end()
		if got := strings.Join(r.ran[:8], " "); got != "first many b c many b c many" {
			t.Errorf("order: %s", got)
		}
		if len(r.ran) != 105 || len(r.errs) != 0 {
			t.Errorf("%d ran, errors %q", len(r.ran), r.errs)
		}
	})
}

func TestQueueBoundsRunningCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{Inflight: 7, Queue: 1000, Wait: time.Hour})
		var mu sync.Mutex
		var calls sync.WaitGroup
		running, most := 0, 0
		for i := range 500 {
			calls.Go(func() {
				if _, err := q.enter(t.Context(), fmt.Sprint("p", i%13), 1, 1); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				running--
				mu.Unlock()
				q.leave(1)
			})
		}
		calls.Wait()
		if most != 7 {
			t.Errorf("%d ran at once, want 7", most)
		}
	})
}

// TestQueueKeepsTheOrderOfAPrincipal also covers calls that found the queue empty.
func TestQueueKeepsTheOrderOfAPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(queueOptions{Inflight: 1, Wait: time.Hour})
		var order []int
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() {
				if _, err := q.enter(t.Context(), "p", 1, 1); err != nil {
					t.Error(err)
				}
				order = append(order, i)
				time.Sleep(time.Millisecond)
				q.leave(1)
			})
			synctest.Wait()
		}
		calls.Wait()
		if !slices.IsSorted(order) || len(order) != 50 {
			t.Errorf("order: %v", order)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	full := func(err error) bool {
		e, ok := errors.AsType[*callError](err)
		return ok && e.reason == reasonQueueFull && e.retryAfter >= retryQueueFloor
	}
	for _, c := range []struct {
		name  string
		o     queueOptions
		bytes int64
		wait  int // calls that may wait
	}{
		{"by number", queueOptions{Inflight: 1, Queue: 10}, 1, 10},
		{"by bytes", queueOptions{Inflight: 1, Bytes: 1000}, 300, 3},
		{"one of any size", queueOptions{Inflight: 1, Bytes: 1000}, 5000, 1},
		{"without a queue", queueOptions{Inflight: 1, Queue: -1}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &queueRun{t: t, q: newQueue(c.o)}
				r.call(t.Context(), "p", 1, c.bytes, time.Second)
				for range c.wait {
					r.call(t.Context(), "p", 1, c.bytes, 0)
				}
				if len(r.errs) != 0 {
					t.Fatalf("refused: %q", r.errs)
				}
				before := time.Now()
				_, err := r.q.enter(t.Context(), "p", 1, c.bytes)
				if !full(err) || time.Since(before) != 0 {
					t.Errorf("one more: %v", err)
				}
				r.end()
				if len(r.ran) != c.wait+1 || r.q.status().Refused != 1 {
					t.Errorf("%d ran, %+v", len(r.ran), r.q.status())
				}
			})
		})
	}
}

// TestQueueFloodOfOnePrincipal: a principal that fills the queue does not take the places of
// others.
func TestQueueFloodOfOnePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 1, Queue: 100, Wait: time.Hour})}
		for range 300 {
			r.call(t.Context(), "flood", 1, 1, time.Millisecond)
		}
		if len(r.errs) != 199 { // one runs, 100 wait
			t.Fatalf("%d were refused", len(r.errs))
		}
		for i := range 49 {
			r.call(t.Context(), fmt.Sprint("p", i), 1, 1, time.Millisecond)
		}
		for _, e := range r.errs {
			if !strings.HasPrefix(e, "flood: ") {
				t.Errorf("refused: %s", e)
			}
		}
		r.end()
		if got := r.ran[1:50]; slices.Contains(got[1:], "flood") {
			t.Errorf("of the first 50 calls the flood has more than its turn: %q", got)
		}
		if len(r.ran) != 101 {
			t.Errorf("%d ran", len(r.ran))
		}
	})
}

func TestQueueFloodOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 1, Bytes: 1000, Wait: time.Hour})}
		for range 3 {
			r.call(t.Context(), "large", 1, 500, time.Millisecond)
		}
		r.call(t.Context(), "small", 1, 10, time.Millisecond)
		r.call(t.Context(), "large", 1, 900, time.Millisecond) // refused: it would be the largest itself
		r.end()
		if !slices.Equal(r.ran, []string{"large", "large", "small"}) || len(r.errs) != 2 {
			t.Errorf("ran %q, refused %q", r.ran, r.errs)
		}
	})
}

func TestQueueWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 1, Wait: 5 * time.Second})}
		r.call(t.Context(), "a", 1, 1, time.Minute)
		before := time.Now()
		_, err := r.q.enter(t.Context(), "b", 1, 1)
		e, ok := errors.AsType[*callError](err)
		if !ok || e.reason != reasonQueueFull || time.Since(before) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(before))
		}
		r.end()
	})
}

// TestQueueCancelledCallLeaves: it is never sent, its place is free, and its error is the cause.
func TestQueueCancelledCallLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 1, Queue: 2, Wait: time.Hour})}
		r.call(t.Context(), "a", 1, 1, time.Minute)
		ctx, cancel := context.WithCancelCause(t.Context())
		r.call(ctx, "b", 1, 1, 0)
		r.call(t.Context(), "c", 1, 1, 0)
		cancel(why)
		synctest.Wait()
		if s := r.q.status(); s.Waiting != 1 || s.Principals != 1 {
			t.Errorf("after the cancel: %+v", s)
		}
		r.call(t.Context(), "d", 1, 1, 0) // gets its place
		if _, err := r.q.enter(ctx, "b", 1, 1); !errors.Is(err, why) {
			t.Errorf("cancelled before: %v", err)
		}
		r.end()
		if !slices.Equal(r.ran, []string{"a", "c", "d"}) || !slices.Equal(r.errs, []string{"b: enough"}) {
			t.Errorf("ran %q, errors %q", r.ran, r.errs)
		}
	})
}

// TestQueueCancelAtTheMomentOfItsTurn: whatever wins, no place is lost.
func TestQueueCancelAtTheMomentOfItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 1, Wait: time.Second})}
			r.call(t.Context(), "a", 1, 1, time.Second) // ends at the same time as the wait and the context
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r.call(ctx, "b", 1, 1, 0)
			r.call(t.Context(), "c", 1, 1, 0)
			r.end()
			cancel()
			if len(r.ran)+len(r.errs) != 3 {
				t.Fatalf("ran %q, errors %q", r.ran, r.errs)
			}
		}
	})
}

func TestQueueWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &queueRun{t: t, q: newQueue(queueOptions{Inflight: 10, Wait: time.Hour})}
		r.call(t.Context(), "a", 6, 1, 2*time.Second)
		r.call(t.Context(), "b", 4, 1, time.Second)
		r.call(t.Context(), "heavy", 100, 1, time.Second) // runs alone
		r.call(t.Context(), "c", 1, 1, time.Second)       // not before the heavy one
		time.Sleep(1500 * time.Millisecond)
		if s := r.q.status(); s.Inflight != 6 || s.Waiting != 2 {
			t.Errorf("at 1.5 s: %+v", s)
		}
		time.Sleep(time.Second)
		if s := r.q.status(); s.Inflight != 100 || s.Waiting != 1 {
			t.Errorf("at 2.5 s: %+v", s)
		}
		r.end()
	})
}

func BenchmarkQueue(b *testing.B) {
	q := newQueue(queueOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.enter(b.Context(), "p", 1, 100); err != nil {
			b.Fatal(err)
		}
		q.leave(1)
	}
}

func BenchmarkQueueThatWaits(b *testing.B) {
	q := newQueue(queueOptions{Inflight: 1, Queue: 100_000})
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := q.enter(b.Context(), "p", 1, 100); err == nil {
				q.leave(1)
			}
		}
	})
}
