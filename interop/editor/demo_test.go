package editor_test

import (
	"path/filepath"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestDemo calls the agents of parley demo with the official library as an editor.
func TestDemo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	mark := `mark=sh -c 'trap "date +%s%3N >` + file + `; exit" TERM; echo up; sleep 60 & wait'`
	harness.Checks(t, harness.Node(t, "demo.mjs", append([]string{file}, harness.StdioDemo(t, "--editor", "--agent", mark)...)...))
}
