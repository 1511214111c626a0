package capture_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/da1ed7bb/parley/capture"
)

// TestGaveUp checks that if the client ends an exchange, the missing response is not reported as
// the server's fault.
func TestGaveUp(t *testing.T) {
	for _, c := range []struct {
		end      error
		state    string
		findings int
	}{
		{capture.ErrGaveUp, capture.StateCancelled, 0},
		{http.ErrHandlerTimeout, capture.StateUnanswered, 1},
		// No rule is broken.
		{errors.New("dial tcp 127.0.0.1:1: connect: connection refused"), capture.StateUnanswered, 0},
	} {
		rec, err := capture.New(&capture.Options{MaxDisk: -1})
		if err != nil {
			t.Fatal(err)
		}
		w := rec.Wire(capture.WireInfo{Target: "http://127.0.0.1/rpc"})
		x := w.Exchange(capture.Out, http.MethodPost, "/rpc", nil)
		x.Request([]byte(`{"jsonrpc":"2.0","id":1,"method":"sleep"}`))
		x.End(c.end)
		var state string
		findings := -1
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		for _, r := range rec.Since(0, 100).Rows {
			if r.Method == "sleep" {
				state, findings = r.State, len(r.Findings)
			}
		}
		if state != c.state || findings != c.findings {
			t.Errorf("after %v the call is %q with %d findings, want %q with %d", c.end, state, findings, c.state, c.findings)
		}
	}
}
