package interop

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestGuideRunsAsItStands runs the programs of the guide unchanged, against the demo at its default
// addresses, and compares their output with the guide.
func TestGuideRunsAsItStands(t *testing.T) {
	guide, err := os.ReadFile("../docs/guides/json-rpc-from-anywhere.md")
	if err != nil {
		t.Fatal(err)
	}
	at := harness.Demo(t, "http://127.0.0.1:0", "tcp://127.0.0.1:0")
	web, lines := portOf(t, at[0]), portOf(t, at[1])
	rewrite := strings.NewReplacer("localhost:3000", "localhost:"+web, `("localhost", 3001)`, `("localhost", `+lines+`)`, "connect(3001", "connect("+lines)
	runs := map[string]func(file string) *exec.Cmd{
		"sh":     func(file string) *exec.Cmd { return exec.CommandContext(t.Context(), "bash", file) },
		"python": func(file string) *exec.Cmd { return exec.CommandContext(t.Context(), "/usr/bin/python3", file) },
		"js":     func(file string) *exec.Cmd { return exec.CommandContext(t.Context(), "node", file) },
	}
	names := map[string]string{"sh": "run.sh", "python": "run.py", "js": "run.mjs"}
	blocks := strings.Split(string(guide), "```")
	ran := 0
	for i := 1; i+2 < len(blocks); i += 2 {
		language, program, _ := strings.Cut(blocks[i], "\n")
		command, ok := runs[language]
		if !ok {
			continue
		}
		_, want, _ := strings.Cut(blocks[i+2], "\n")
		program = rewrite.Replace(program)
		file := filepath.Join(t.TempDir(), names[language])
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := command(file).CombinedOutput()
		if err != nil || !bytes.Equal(bytes.TrimSpace(got), []byte(strings.TrimSpace(want))) {
			t.Errorf("%s program: %v\n%s\ngot\n%s\nwant\n%s", language, err, program, got, want)
		}
		ran++
	}
	if ran != 5 {
		t.Errorf("%d programs ran, the guide has 5", ran)
	}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}
