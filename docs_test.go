package parley_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestReadmeShowsExamples checks that the Go code of the README is in the examples verbatim, so
// that it compiles and runs.
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

// testFolders are the packages whose tests docs/mcp.md names.
var testFolders = map[string]string{
	"mcp": "mcp", "mcphttp": "mcp/mcphttp", "oauth": "mcp/oauth", "streamable": "transport/streamable", "sse": "transport/sse",
	"interop": "interop/mcp", "demo": "internal/demo", "parley": "cmd/parley",
}

// TestTheTableOfMCPNamesTests checks that every test and case in the table of MCP's features
// exists, and that each row names one.
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

// pages returns the Markdown pages of the repository by their path, without code blocks.
func pages(t *testing.T) map[string]string {
	t.Helper()
	code := regexp.MustCompile("(?s)\n```.*?\n```")
	all := make(map[string]string)
	read := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(name)] = code.ReplaceAllString(string(text), "\n")
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"} {
		read(name)
	}
	err := filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			read(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors returns the fragments that a page defines: its headings, as GitHub names them, and IDs.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	drop := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		heading := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		found[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")] = true
	}
	for _, m := range regexp.MustCompile(`id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		found[m[1]] = true
	}
	return found
}

// TestLinks checks that the relative links of all pages lead to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for name, page := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			file, fragment, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if text, ok := all[target]; ok && fragment != "" && !anchors(text)[fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", name, m[1], target)
			}
		}
	}
	if links < 100 {
		t.Errorf("the pages have %d links", links)
	}
}

// TestIndex checks that docs/README.md links every page of docs; docs/decisions has its own index.
func TestIndex(t *testing.T) {
	all := pages(t)
	for name := range all {
		file, inDocs := strings.CutPrefix(name, "docs/")
		index := "docs/README.md"
		if decision, ok := strings.CutPrefix(file, "decisions/"); ok && decision != "README.md" {
			index, file = "docs/decisions/README.md", decision
		}
		if inDocs && name != index && !strings.Contains(all[index], "]("+file+")") {
			t.Errorf("%s does not link %s", index, file)
		}
	}
}
