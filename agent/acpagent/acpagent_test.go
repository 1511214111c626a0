package acpagent_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves agents over a pipe.
func serve(t *testing.T, agents ...*agent.Agent) *acp.Client {
	t.Helper()
	s := acp.NewServer(nil)
	for _, a := range agents {
		s.Add(acpagent.New(a))
	}
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(t.Context(), there) })
	c := acp.Connect(t.Context(), here, nil)
	t.Cleanup(func() {
		c.Close()
		s.Close()
		serving.Wait()
	})
	return c
}

func TestSeam(t *testing.T) {
	agenttest.Run(t, agenttest.Abilities{Sessions: true, Attach: true, Later: true, IDs: true, Streams: true}, func(t *testing.T, a *agent.Agent) *agent.Client {
		return acpagent.Client(serve(t, a))
	})
}
