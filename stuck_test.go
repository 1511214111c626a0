package parley

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestShutdownLeavesAHandlerThatDoesNotStop checks that Shutdown returns a second after the end of
// its context, on every transport.
func TestShutdownLeavesAHandlerThatDoesNotStop(t *testing.T) {
	for _, target := range []string{"http://127.0.0.1:0", "ws://127.0.0.1:0", "tcp://127.0.0.1:0", "unix:" + t.TempDir() + "/s", "sse+http://127.0.0.1:0"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			entered, release, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
			mux := new(jsonrpc.Mux)
			mux.Add("stuck", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
				defer close(left)
				close(entered)
				<-release
				return "late", nil
			}))
			s := serve(t, &Listener{Handler: mux}, target)
			c := dial(t, &Dialer{}, s.Targets()[0])
			answers := make(chan error, 1)
			go func() { answers <- c.Call(context.Background(), "stuck", nil, nil) }()
			<-entered
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ended := make(chan error, 1)
			go func() { ended <- s.Shutdown(ctx) }()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Shutdown = %v, want context.Canceled", err)
				}
			case <-time.After(time.Minute):
				t.Error("Shutdown does not end")
			}
			close(release)
			<-left
			if err := <-answers; err == nil {
				t.Error("the call that was cut off has a result")
			}
		})
	}
}
