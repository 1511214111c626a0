// Package grace waits for goroutines that may never end, such as handlers that ignore their
// context.
package grace

import (
	"context"
	"sync"
	"time"
)

// Time is the default time that a Close waits for the goroutines that it has cancelled.
const Time = 5 * time.Second

// Wait waits for wg, at most d, and reports whether all goroutines have ended. The others continue
// to run. While Wait runs, nothing may be added to wg that could keep it above zero for longer than
// its current members.
func Wait(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Closed waits until done is closed, at most d, and reports whether it is.
func Closed(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// After returns a channel that is closed d after ctx has ended, and a function that releases it.
// The channel is not closed before ctx ends.
func After(ctx context.Context, d time.Duration) (over <-chan struct{}, release func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var mu sync.Mutex // guards timer
	var timer *time.Timer
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(d, cancel)
	})
	return late.Done(), func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
	}
}
