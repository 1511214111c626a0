package gateway

import (
	"context"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestParkedCallHasARequest checks that the request of the client is known before the call starts:
// a server may report progress at once. The same holds after the client has answered a question.
func TestParkedCallHasARequest(t *testing.T) {
	var p parking
	first, second, third := new(mcp.Request), new(mcp.Request), new(mcp.Request)
	c, err := p.begin(t.Context(), "ada", first, func(run func()) bool { run(); return true }, func(_ context.Context, c *parkedCall) (jsonrpc.Raw, error) {
		if c.request.Load() != first {
			t.Error("the call runs without the request that started it")
		}
		if p.find(c.id, "ada", second) != nil {
			t.Error("two requests wait for the call")
		}
		c.leave()
		if p.find(c.id, "eve", second) != nil || c.request.Load() != nil {
			t.Error("another principal waits for the call")
		}
		if p.find("other", "ada", second) != nil {
			t.Error("a call that does not exist")
		}
		if p.find(c.id, "ada", third) != c || c.request.Load() != third {
			t.Error("the client cannot continue")
		}
		return jsonrpc.Raw("1"), nil
	})
	if err != nil || string(c.raw) != "1" || c.err != nil {
		t.Errorf("%s, %v, %v", c.raw, c.err, err)
	}
	if p.find(c.id, "ada", second) != nil {
		t.Error("the call is over and still there")
	}
}
