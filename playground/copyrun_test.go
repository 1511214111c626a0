//go:build unix

package playground

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/playground/internal/shelltest"
)

// TestShellPath checks that a file name refers to the same file from any folder, and the shell
// expands the home folder.
func TestShellPath(t *testing.T) {
	run := shelltest.New(t)
	for name, want := range map[string]string{
		"~/.config/Claude/claude_desktop_config.json":          "/home/guest/.config/Claude/claude_desktop_config.json",
		"~/Library/Application Support/Claude/it's $(id).json": "/home/guest/Library/Application Support/Claude/it's $(id).json",
		"/a b/~/c.json": "/a b/~/c.json",
		"~root/x":       "~root/x",
		"-c.json":       "./-c.json",
	} {
		c := Config{Path: name}
		if argv, _, _ := run(c.start()); !slices.Equal(argv, []string{"up", "-c", want}) {
			t.Errorf("%s is %q, want %s", name, argv, want)
		}
	}
	c := Config{Path: ".mcp.json", File: "/work in/.mcp.json"}
	if argv, _, _ := run(c.start()); !slices.Equal(argv, []string{"up", "-c", "/work in/.mcp.json"}) {
		t.Errorf("a file of the project is %q", argv)
	}
}

// onePasted reads any text as a configuration with one program.
type onePasted struct{}

func (onePasted) Found() []Config { return nil }
func (onePasted) Read(name, _ string) Config {
	return Config{Path: orDefault(name, "mcp.json"), Entries: []ConfigEntry{{Target: Target{Name: "p", Command: []string{"sh"}}}}}
}

// TestPastedConfigIsSaved checks that the command shown for a pasted configuration names a file
// that exists after saving, is private and contains the pasted text.
func TestPastedConfigIsSaved(t *testing.T) {
	p, err := New(&Options{Configs: onePasted{}, Folder: filepath.Join(t.TempDir(), "my calls")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	run := shelltest.New(t)
	for _, name := range []string{"", "mcp.json", "../../etc/passwd.yaml", "-x;$(id).json"} {
		text := `{"mcpServers": {}} ` + name
		v, err := p.configRead(t.Context(), configParams{Text: text, Name: name})
		if err != nil || v.Save == "" {
			t.Fatalf("%q: %+v, %v", name, v, err)
		}
		after, err := p.configSave(t.Context(), configSaveParams{v.Config})
		if err != nil || after.Save != "" {
			t.Fatalf("%q: %+v, %v", name, after, err)
		}
		argv, _, _ := run(after.Entries[0].Command)
		if len(argv) != 3 || argv[2] != v.Save || filepath.Base(filepath.Dir(v.Save)) != "configs" {
			t.Fatalf("%q: the command is %q", name, argv)
		}
		if got, err := os.ReadFile(argv[2]); err != nil || string(got) != text {
			t.Errorf("%q: %s, %v", name, got, err)
		}
		if info, err := os.Stat(argv[2]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v, %v", name, info, err)
		}
		if again, err := p.configRead(t.Context(), configParams{Text: text, Name: name}); err != nil || again.Save != "" {
			t.Errorf("%q: it is to be saved again: %+v, %v", name, again, err)
		}
	}
	if _, err := p.configSave(t.Context(), configSaveParams{"p99"}); err == nil {
		t.Error("what was never pasted is saved")
	}
}
