package mcpagent_test

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve offers an agent as a tool over a pipe, in one version of the protocol.
func serve(t *testing.T, a *agent.Agent, v mcp.Version) *agent.Client {
	t.Helper()
	s := mcp.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
	tools := mcpagent.Add(s, a)
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(context.WithoutCancel(t.Context()), there) })
	c, err := mcpagent.Connect(t.Context(), here, mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{v}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		serving.Wait()
		tools.Close()
		s.Close()
	})
	return c
}

func TestSeam(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618} {
		t.Run(v.String(), func(t *testing.T) {
			agenttest.Run(t, agenttest.Abilities{}, func(t *testing.T, a *agent.Agent) *agent.Client { return serve(t, a, v) })
		})
	}
}
