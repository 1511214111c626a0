package editor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// The commands of the guide run as they stand and print what it says; its Go code is that of the example, and its tests are there.
func TestGuideRunsAsItStands(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/editor.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("../../examples/agenteditor/main.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(harness.Program(t, "./examples/agenteditor"), filepath.Join(dir, "agenteditor")); err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```")
	ran, shown := 0, 0
	for i := 1; i < len(blocks); i += 2 {
		kind, body, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "go":
			if !strings.Contains(string(code), body) {
				t.Errorf("not in examples/agenteditor:\n%s", body)
			}
			shown++
		case "sh":
			_, want, _ := strings.Cut(blocks[i+2], "\n")
			cmd := harness.Command(t.Context(), t, []string{"bash", "-c", body})
			cmd.Dir = dir
			harness.KeepStderr(t, cmd)
			got, err := cmd.Output()
			if err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
				t.Errorf("%v\n%s\ngot\n%s\nwant\n%s", err, body, got, want)
			}
			ran++
		}
	}
	if ran != 2 || shown != 5 {
		t.Errorf("%d blocks of commands ran, and %d of code were compared", ran, shown)
	}
	tests, err := filepath.Glob("../../editor/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range tests {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for i, word := range strings.Split(blocks[len(blocks)-1], "`") {
		if i%2 == 1 && strings.HasPrefix(word, "Test") && !strings.Contains(all.String(), "func "+word+"(") {
			t.Errorf("there is no %s", word)
		}
	}
}
