package editor_test

import (
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestGuideRunsAsItStands(t *testing.T) {
	g := harness.Guide{
		Page: "editor.md", Code: "examples/agenteditor/main.go", Tests: "editor/*_test.go",
		Programs: map[string]string{"agenteditor": "./examples/agenteditor"},
		Commands: 2, Snippets: 5,
	}
	g.Check(t)
}
