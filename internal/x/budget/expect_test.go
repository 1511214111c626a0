package budget

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecent checks that a long response is expected after one, and no longer after many short
// ones.
func TestRecent(t *testing.T) {
	var r Recent
	for _, step := range []struct {
		n     int
		times int
		want  int64
	}{{100, 5, 0}, {LongResponse, 1, LongResponse}, {1 << 20, 1, 1 << 20}, {1 << 19, 1, 1<<20 - 1<<16}, {100, 40, 0}} {
		for range step.times {
			r.Note(step.n)
		}
		if got := r.Get(); got != step.want {
			t.Errorf("after %d bytes, %d times: %d are expected, want %d", step.n, step.times, got, step.want)
		}
	}
	if first, again := RecentOf("text"), RecentOf(string([]byte("text"))); first != again {
		t.Error("a method has two of them")
	}
}

// TestOverdraftIsTakenOnce checks that one of several concurrent callers takes.
func TestOverdraftIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Overdraft
		for range 200 {
			if n := startAtOnce(func() time.Duration { return o.Take(overdraftRate) }); n != 1 {
				t.Fatalf("%d callers took, want 1", n)
			}
			if wait := o.Wait(); wait != time.Second {
				t.Fatalf("the next one waits %v, want 1 s", wait)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestFirstHandlersAreFew checks that mostFirst of the handlers that start at once may start, and
// the others after firstTime.
func TestFirstHandlersAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 {
			var r Recent
			if n := startAtOnce(r.StartNew); n != mostFirst {
				t.Fatalf("%d handlers started, want %d", n, mostFirst)
			}
			if wait := r.WaitNew(); wait != firstTime {
				t.Fatalf("the next one waits %v, want %v", wait, firstTime)
			}
			time.Sleep(firstTime)
			if n := startAtOnce(r.StartNew); n != 2*mostFirst {
				t.Fatalf("%d handlers started later, want all", n)
			}
		}
	})
}

// startAtOnce calls start from twice as many goroutines as mostFirst, and returns how many of them
// do not have to wait.
func startAtOnce(start func() time.Duration) (n int32) {
	var started atomic.Int32
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range 2 * mostFirst {
		all.Go(func() {
			<-begin
			if start() == 0 {
				started.Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	return started.Load()
}
