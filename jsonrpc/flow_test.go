package jsonrpc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFlow checks that each function of the tree in receive.go is declared in the file that the
// tree names.
func TestFlow(t *testing.T) {
	text, err := os.ReadFile("receive.go")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^//\t[│├└ ]*([A-Za-z]+) +([a-z]+\.go)(?: |$)`)
	files := make(map[string]map[string]bool)
	rows := 0
	for row := range strings.Lines(string(text)) {
		m := line.FindStringSubmatch(strings.TrimRight(row, "\n"))
		if m == nil {
			continue
		}
		rows++
		if files[m[2]] == nil {
			files[m[2]] = functionsOf(t, m[2])
		}
		if !files[m[2]][m[1]] {
			t.Errorf("%s has no function %s", m[2], m[1])
		}
	}
	if rows < 30 {
		t.Errorf("the tree has %d rows", rows)
	}
}

// functionsOf returns the names of the functions and methods that a file declares.
func functionsOf(t *testing.T, file string) map[string]bool {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}
