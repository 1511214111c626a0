package agent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/agent"
)

// TestCancellationGetsItsResponse checks that the end of a run does not abort the request that
// cancels it: its response may arrive after the final events of the run. A server that never
// responds delays the end by LastWord.
func TestCancellationGetsItsResponse(t *testing.T) {
	for _, c := range []struct {
		name     string
		response time.Duration // after the end of the run
		want     time.Duration
		aborted  bool
	}{
		{"soon", 100 * time.Millisecond, 100 * time.Millisecond, false},
		{"never", time.Hour, agent.LastWord, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				aborted := false
				talk, release := agent.Outlive(ctx, func(ctx context.Context) {
					select {
					case <-time.After(c.response):
					case <-ctx.Done():
						aborted = true
					}
				})
				cancel()
				synctest.Wait()
				if talk.Err() != nil {
					t.Error("the communication ends with the caller's context")
				}
				begin := time.Now()
				release()
				if took := time.Since(begin); took != c.want || aborted != c.aborted {
					t.Errorf("the end took %v, want %v; the cancellation was aborted: %v", took, c.want, aborted)
				}
			})
		})
	}
}
