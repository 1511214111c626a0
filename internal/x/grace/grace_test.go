package grace

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		if !Wait(&wg, Time) {
			t.Error("nothing to wait for, and it did not end")
		}
		release := make(chan struct{})
		wg.Go(func() { <-release })
		start := time.Now()
		if Wait(&wg, Time) || time.Since(start) != Time {
			t.Errorf("it ended after %v, want %v", time.Since(start), Time)
		}
		close(release)
		if !Wait(&wg, Time) {
			t.Error("it did not end")
		}
	})
}
