package a2aagent_test

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/agenttest"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves an agent over a pipe to a client of one version.
func serve(t *testing.T, a *agent.Agent, v a2a.Version) *a2a.Client {
	t.Helper()
	s := a2a.NewServer(a2aagent.Card(&a.Card), a2aagent.New(a), nil)
	t.Cleanup(s.Close)
	return dial(t, s, v)
}

// connect returns a client of a server.
func connect(t *testing.T, s *a2a.Server) *a2a.Client { return dial(t, s, a2a.V10) }

func dial(t *testing.T, s *a2a.Server, v a2a.Version) *a2a.Client {
	t.Helper()
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(context.WithoutCancel(t.Context()), there) })
	c := a2a.Connect(t.Context(), here, &a2a.ClientOptions{Version: v})
	t.Cleanup(func() {
		c.Close()
		s.Close()
		serving.Wait()
	})
	return c
}

func TestSeam(t *testing.T) {
	for _, v := range a2a.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			agenttest.Run(t, agenttest.Abilities{Sessions: true, Attach: true, Later: true, IDs: true, Streams: true}, func(t *testing.T, a *agent.Agent) *agent.Client {
				var about *a2a.AgentCard
				if v == a2a.V03 { // v0.3 offers the card only over HTTP
					card := a2aagent.Card(&a.Card)
					var err error
					if about, err = a2a.ParseCard(a2a.EncodeCard(&card, true)); err != nil {
						t.Fatal(err)
					}
				}
				return a2aagent.Client(serve(t, a, v), about)
			})
		})
	}
}
