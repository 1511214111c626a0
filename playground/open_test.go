package playground_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/playground"
)

// TestTargetChangesWhileItOpens checks that a target that changes in the file while it is being
// opened is not opened in its old form, and the page receives the reason.
func TestTargetChangesWhileItOpens(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(text), `"initialize"`) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		close(asked)
		<-goOn
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"slow","version":"1"}}}`)
	}))
	t.Cleanup(server.Close)
	slow := playground.Target{Name: "@slow", Address: server.URL + "/mcp", Protocol: playground.ProtocolMCP}
	b := open(t, &playground.Options{Targets: []playground.Target{slow}})
	go func() {
		<-asked
		other := slow
		other.Token = "another"
		b.page.SetTargets([]playground.Target{other})
		close(goOn)
	}()
	if fault := b.try("targets/open", map[string]any{"target": "@slow"}, nil); fault == nil || !strings.Contains(fault.Message, "has changed in the file") {
		t.Errorf("got %v", fault)
	}
}
