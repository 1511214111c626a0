package a2a_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestDemo calls the agents of parley demo with the official SDK.
func TestDemo(t *testing.T) {
	for _, transport := range []string{"JSONRPC", "HTTP+JSON"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ended")
			mark := `mark=sh -c 'trap "date +%s%3N >` + file + `; exit" TERM; echo up; sleep 60 & wait'`
			base := harness.DemoWith(t, []string{"--agent", mark}, "http://127.0.0.1:0")[0]
			harness.Checks(t, harness.Node(t, "demo.mjs", strings.TrimSuffix(base, "/rpc"), transport, file))
		})
	}
}
