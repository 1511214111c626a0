package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Guide is a page of docs/guides that is checked against the code: its commands are run as
// written and must print the documented output, its Go code must be that of an example, and the
// tests that it names must exist.
type Guide struct {
	Page string // its file in docs/guides
	// Code is a pattern, from the root of the repository, for the files that contain the Go code
	// shown in the guide.
	Code string
	// Tests is a pattern, likewise, for the files of the tests that the guide names; empty if it
	// names none.
	Tests string
	// Reference is a page, from the root of the repository, whose tests are checked too; may be
	// empty.
	Reference string
	// Programs maps the names of the programs in its commands to their packages.
	Programs map[string]string

	// Address is the address that its commands call, such as "localhost:8000". At replaces it in
	// the test.
	Address, At string

	// Commands is the number of command blocks. The block after each is its output.
	Commands int
	Snippets int // number of Go blocks
}

// Patterns for output that differs each time. A guide shows it as UUID and TIME.
var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z`)
)

// testName matches the names of tests in a guide.
var testName = regexp.MustCompile("`(Test[A-Z]\\w+)")

// Check runs the commands and compares everything.
func (g *Guide) Check(t *testing.T) {
	t.Helper()
	page, code := Read(t, "docs/guides/"+g.Page), Read(t, g.Code)
	dir := t.TempDir()
	for name, pkg := range g.Programs {
		if err := os.Symlink(Program(t, pkg), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	blocks := strings.Split(page, "```")
	commands, snippets := 0, 0
	for i := 1; i < len(blocks); i += 2 {
		kind, body, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "go":
			if !strings.Contains(code, body) {
				t.Errorf("not in %s:\n%s", g.Code, body)
			}
			snippets++
		case "sh":
			_, want, _ := strings.Cut(blocks[i+2], "\n")
			g.run(t, dir, body, want)
			commands++
		}
	}
	if commands != g.Commands || snippets != g.Snippets {
		t.Errorf("%d blocks of commands ran, and %d of code were compared; %d and %d should be there", commands, snippets, g.Commands, g.Snippets)
	}
	if g.Tests == "" {
		return
	}
	if g.Reference != "" {
		page += Read(t, g.Reference)
	}
	tests, named := Read(t, g.Tests), testName.FindAllStringSubmatch(page, -1)
	for _, name := range named {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("there is no %s", name[1])
		}
	}
	if len(named) == 0 {
		t.Error("it names no test")
	}
}

// run runs one block of commands and compares its output.
func (g *Guide) run(t *testing.T, dir, commands, want string) {
	t.Helper()
	here := commands
	if g.Address != "" {
		here = strings.ReplaceAll(commands, g.Address, g.At)
	}
	cmd := Command(t.Context(), t, []string{"bash", "-c", here})
	cmd.Dir = dir
	KeepStderr(t, cmd)
	out, err := cmd.Output()
	got := anyTime.ReplaceAllString(anyUUID.ReplaceAllString(string(out), "UUID"), "TIME")
	if g.At != "" {
		got = strings.ReplaceAll(got, g.At, g.Address)
	}
	if err != nil || strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("%v\n%s\ngot\n%s\nwant\n%s", err, commands, got, want)
	}
}

// Read returns the text of all files that match a pattern, from the root of the repository, and
// fails the test if no file matches.
func Read(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root(t), pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no file is %s: %v", pattern, err)
	}
	var b strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
