package mcpagent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/bounded"
)

// TestStepsThatWaitAreWeighed: the progress of a run that waits to be sent is bounded by its bytes
// too; the run waits.
func TestStepsThatWaitAreWeighed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{steps: bounded.New(waitingSteps, waitingBytes, stepCost)}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for n := 1; ctx.Err() == nil; n++ {
				say := &agent.Progress{Message: strings.Repeat("x", 100<<10), Done: float64(n)}
				_ = w.Tell(ctx, agent.Event{Kind: agent.EventProgress, Progress: say}) // ctx ends the loop
			}
		}()
		synctest.Wait()
		if n := len(w.steps.C); n != 10 {
			t.Errorf("%d steps of 100 KiB wait", n)
		}
		cancel()
	})
}
