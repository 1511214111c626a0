package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/agent"
)

// TestAStopThatPanics: the function that cancels a remote run is the user's Link's; if it panics,
// the context of the run ends as after any other stop, and the process goes on.
func TestAStopThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := errors.New("own")
		ctx, cancel := context.WithCancelCause(t.Context())
		talk, release := agent.Outlive(ctx, func(context.Context) { panic("in stop") })
		cancel(own)
		<-talk.Done()
		if cause := context.Cause(talk); !errors.Is(cause, own) {
			t.Errorf("the cause is %v", cause)
		}
		release()
	})
}
