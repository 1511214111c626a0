package harness

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Guide is a page of docs/guides that is held against what it speaks of: its commands run as they stand and print what it says, its Go code is that
// of an example, and the tests that it names are there.
type Guide struct {
	Page     string            // its file in docs/guides
	Code     string            // the files whose code its blocks of Go show: a pattern, from the root of the repository
	Tests    string            // the files of the tests that it names, the same way; empty when it names none
	Programs map[string]string // the programs that its commands start: the package of each, by the name it has there

	// Address is what its commands call, such as "localhost:8000", and At what stands for that here.
	Address, At string

	Commands int // how many blocks of commands it has; what each prints is in the block behind it
	Snippets int // how many blocks of Go
}

// What differs each time is written as UUID and TIME in a guide.
var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z`)
)

// testName is where a guide names a test.
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

// run runs one block of commands and compares what they print.
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

// Read returns the text of all files that fit a pattern, from the root of the repository, and fails the test when there is none.
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
