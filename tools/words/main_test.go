package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanted checks that each class is found in planted files, that exceptions apply, and that the
// exit code is 1 only above the limit.
func TestPlanted(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	files := []string{
		write("a.go", "package a\n\n// Close is told of whoever calls.\n// Nil: nothing.\n// "+strings.Repeat("wide ", 21)+"\nvar err = \"nobody answers\"\n"),
		write("a_test.go", "package a\n\nvar s = \"nobody answers\"\n"),
		write("a.md", "Whoever calls gets an answer.\nThe member `carrier` stays.\nPlain English.\n"),
	}
	rules, err := parseRules("# comment\nlimit texts 0\na.md | `carrier` | a member of the format\n")
	if err != nil {
		t.Fatal(err)
	}
	found, err := check(root, files, rules)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, f := range found {
		got[f.Class]++
	}
	for _, class := range []string{"comments", "strings", "texts", "verbless", "width"} {
		if got[class] != 1 {
			t.Errorf("%s: %d findings, want 1: %+v", class, got[class], found)
		}
	}
	var out strings.Builder
	if code := report(&out, found, rules); code != 1 || !strings.Contains(out.String(), "a.go:6: \"nobody answers\"") {
		t.Errorf("exit code %d, output\n%s", code, out.String())
	}
	for class := range got {
		rules.Limits[class] = 1
	}
	if code := report(&out, found, rules); code != 0 {
		t.Errorf("exit code %d at the limit, want 0", code)
	}
}

// TestAllowText checks that each exception has a reason, and that a malformed line is rejected.
func TestAllowText(t *testing.T) {
	if _, err := parseRules(allowText); err != nil {
		t.Error(err)
	}
	if _, err := parseRules("a.go | text\n"); err == nil {
		t.Error("an exception without a reason is accepted")
	}
}
