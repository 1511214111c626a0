package editoragent_test

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves an agent over a pipe.
func serve(t *testing.T, a *agent.Agent, o *editoragent.ClientOptions) *agent.Client {
	t.Helper()
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = editoragent.New(a, nil).Serve(context.WithoutCancel(t.Context()), there) })
	c, err := editoragent.Connect(t.Context(), here, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		serving.Wait()
	})
	return c
}

func TestSeam(t *testing.T) {
	for name, o := range map[string]*editoragent.ClientOptions{
		"forms": nil,
		// For an editor without forms, a question ends the turn.
		"turns": {Editor: editor.ClientOptions{Capabilities: func(c *editor.ClientCapabilities) { c.Elicitation = nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, agenttest.Abilities{Sessions: true, Streams: true}, func(t *testing.T, a *agent.Agent) *agent.Client { return serve(t, a, o) })
		})
	}
}
