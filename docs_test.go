package parley_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// testFolders are the packages that docs/mcp.md names tests of.
var testFolders = map[string]string{
	"mcp": "mcp", "mcphttp": "mcp/mcphttp", "oauth": "mcp/oauth", "streamable": "transport/streamable", "sse": "transport/sse",
	"interop": "interop/mcp", "demo": "internal/demo", "parley": "cmd/parley",
}

// Every test that the table of MCP's features names is there, with the case that it names, and each row has one.
func TestTheTableOfMCPNamesTests(t *testing.T) {
	page, err := os.ReadFile("docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]string)
	for name, folder := range testFolders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no tests: %v", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources[name] += string(text)
		}
	}
	named := regexp.MustCompile("`([a-z]+)\\.(Test\\w+)(?:/([^`]+))?`")
	rows := 0
	for line := range strings.Lines(string(page)) {
		found := named.FindAllStringSubmatch(line, -1)
		for _, m := range found {
			source, ok := sources[m[1]]
			switch {
			case !ok:
				t.Errorf("%s: there is no package %s in the table of this test", m[0], m[1])
			case !strings.Contains(source, "func "+m[2]+"(t *testing.T)"):
				t.Errorf("%s: there is no such test", m[0])
			case m[3] != "" && !strings.Contains(source, strconv.Quote(m[3])):
				t.Errorf("%s: there is no such case", m[0])
			}
		}
		cells := strings.Split(line, "|")
		if len(cells) != 9 || strings.HasPrefix(line, "| feature") || strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		if len(found) == 0 {
			t.Errorf("no test shows this: %s", line)
		}
		for _, cell := range cells[2:7] {
			if !strings.Contains("●–MX", strings.TrimSpace(cell)) || strings.TrimSpace(cell) == "" {
				t.Errorf("what is %q: %s", cell, line)
			}
		}
	}
	if rows < 60 {
		t.Errorf("the table has %d rows", rows)
	}
}
