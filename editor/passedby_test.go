package editor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestAnUpdateMayPassByItsCall covers an agent that sends an update about a new session while the
// first prompt is being sent. The update is counted for the prompt, whose call is not in the table
// yet, but is passed to the handler. The agent's next request must not wait for it.
func TestAnUpdateMayPassByItsCall(t *testing.T) {
	update := &jsonrpc.Request{Method: NotifyUpdate, Params: jsonrpc.Raw(`{"sessionId":"s","update":{"sessionUpdate":"available_commands_update","availableCommands":[]}}`)}
	for name, early := range map[string]bool{"while the prompt goes out": false, "before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{sessions: map[string]*conversation{}, opened: make(chan struct{})}
				c.mu.Lock()
				v := c.conversation("s")
				c.mu.Unlock()
				if early {
					if _, ok := c.related(update); ok {
						t.Fatal("it is about a call, and there is none")
					}
				}
				v.id = jsonrpc.IntID(9)
				if !early {
					if _, ok := c.related(update); !ok {
						t.Fatal("it is about no call")
					}
				}
				if _, err := c.handle(t.Context(), update); err != nil {
					t.Fatal(err)
				}
				if v.taken != v.seen {
					t.Errorf("%d updates were taken, %d seen", v.taken, v.seen)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if c.awaitUpdates(ctx, "s"); ctx.Err() != nil {
					t.Error("a question behind it waits for ever")
				}
			})
		})
	}
}
