package parley_test

import (
	"os"
	"strings"
	"testing"
)

// The Go code of the README stands in the examples, word for word, so that it compiles and runs.
func TestReadmeShowsExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range []string{"examples/server/main.go", "examples/client/main.go", "examples/mcpserver/main.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the README shows no Go")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(code.String(), block) {
			t.Errorf("the README shows what no example has:\n%s", block)
		}
	}
}
