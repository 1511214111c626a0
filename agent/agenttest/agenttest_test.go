package agenttest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The contract is tested with calls inside one process, without a protocol.
func TestLocal(t *testing.T) {
	agenttest.Run(t, agenttest.Abilities{Sessions: true, IDs: true, Streams: true}, func(_ *testing.T, a *agent.Agent) *agent.Client { return agent.Local(a) })
}
