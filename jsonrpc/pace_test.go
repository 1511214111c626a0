package jsonrpc

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// paced makes calls of 128 KiB at a pacer whose peer handles one after the other in the given time,
// or all at once, and returns the most bytes that were open, and the time until all had begun.
func paced(p *pacer, calls int, each time.Duration, atOnce bool) (most int64, took time.Duration) {
	const size = 128 << 10
	start := time.Now()
	var mu sync.Mutex
	handler := make(chan struct{}, 1)
	var wait sync.WaitGroup
	for range calls {
		wait.Go(func() {
			_ = p.enter(context.Background(), size)
			mu.Lock()
			p.mu.Lock()
			most, took = max(most, p.open), time.Since(start)
			p.mu.Unlock()
			mu.Unlock()
			if !atOnce {
				handler <- struct{}{}
				defer func() { <-handler }()
			}
			time.Sleep(each)
			p.leave(size)
		})
	}
	wait.Wait()
	return most, took
}

// TestABusyPeerIsNotFlooded checks that calls to a peer that handles them steadily, and takes 20 s
// for all, are not sent all at once after ten seconds.
func TestABusyPeerIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most, took := paced(&pacer{base: connWindow}, 1000, 20*time.Millisecond, false)
		if most > 4*connWindow {
			t.Errorf("%d bytes were open", most)
		}
		if took < 15*time.Second || took > 20*time.Second {
			t.Errorf("the last call began after %v", took)
		}
	})
}

// TestASlowPeerGetsMoreCalls checks that calls to a peer whose handlers take long do not wait for
// each other: for a peer that ends a call now and then no longer than the window takes to double,
// and for one that ends none ten seconds.
func TestASlowPeerGetsMoreCalls(t *testing.T) {
	for _, row := range []struct {
		each   time.Duration
		atOnce bool
		took   time.Duration
	}{
		{900 * time.Millisecond, false, 75 * time.Second}, // a call ends each second: 1 MiB doubles seven times
		{5 * time.Second, true, 11 * time.Second},
		{time.Hour, true, 11 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			if _, took := paced(&pacer{base: connWindow}, 1000, row.each, row.atOnce); took > row.took {
				t.Errorf("handlers that take %v: the last call began after %v, want at most %v", row.each, took, row.took)
			}
		})
	}
}

// TestAStuckPeerDelaysACallForTenSeconds checks that a call whose bytes no window permits begins
// once no other has ended for ten seconds.
func TestAStuckPeerDelaysACallForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pacer{base: connWindow}
		_ = p.enter(context.Background(), 1)
		start := time.Now()
		_ = p.enter(context.Background(), 1<<40)
		if took := time.Since(start); took < paceTime || took > paceTime+paceTick {
			t.Errorf("the call began after %v", took)
		}
	})
}
