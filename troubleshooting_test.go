package parley_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// textsOfOthers matches the error texts in docs/troubleshooting.md that the system, a library or
// another program writes.
var textsOfOthers = regexp.MustCompile(`^(HTTP \d+|status \d+|executable file not found in \$PATH|unknown flag: …|STEP: KIND: …)$`)

// exportedErrors matches the errors of Go programs on that page.
var exportedErrors = regexp.MustCompile(`^\*?(jsonrpc|parley|mcp|oauth)\.[A-Z]`)

// TestTroubleshootingHasRealTexts checks that the error texts in docs/troubleshooting.md are in the
// code. "…" in a text stands for a value.
func TestTroubleshootingHasRealTexts(t *testing.T) {
	page, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && name != ".") {
			return cmp.Or(err, filepath.SkipDir)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		code.WriteString(strings.ReplaceAll(string(text), `\"`, `"`))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	texts := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			if textsOfOthers.MatchString(m[1]) || exportedErrors.MatchString(m[1]) {
				continue
			}
			texts++
			for part := range strings.SplitSeq(m[1], "…") {
				if part = strings.Trim(part, " :;"); !strings.Contains(code.String(), part) {
					t.Errorf("%q of %q is in no error text", part, m[1])
				}
			}
		}
	}
	if texts < 60 {
		t.Errorf("the page has %d texts", texts)
	}
}
