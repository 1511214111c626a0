//go:build unix

package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/config"
)

func write(t *testing.T, name, text string, mode fs.FileMode) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode)); err != nil {
		t.Fatal(err)
	}
	return name
}

const oneServer = `{"mcpServers":{"a":{"command":"a","envFile":"vars.env"}}}`

// TestFilesOfOthersAreRefused checks that a configuration is rejected if other users may write or
// replace it, because they could choose the programs that run.
func TestFilesOfOthersAreRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "vars.env"), "A=b\n", 0o600)
	good := write(t, filepath.Join(dir, "good.json"), oneServer, 0o644)
	if f, err := config.Read(good, nil); err != nil || len(f.Problems) > 0 || f.Entries[0].Problem != "" {
		t.Errorf("%+v, %v", f, err)
	}
	open := filepath.Join(dir, "open")
	for _, name := range []string{write(t, filepath.Join(dir, "bad.json"), oneServer, 0o666), write(t, filepath.Join(open, "mcp.json"), oneServer, 0o600)} {
		if filepath.Dir(name) == open {
			if err := os.Chmod(open, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := config.Read(name, nil); err == nil || !strings.Contains(err.Error(), "chmod ") {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}

	// Its variables also influence what programs do.
	write(t, filepath.Join(dir, "vars.env"), "A=b\n", 0o606)
	f, err := config.Read(good, nil)
	if err != nil || len(f.Problems) != 1 || !strings.Contains(f.Entries[0].Problem, "chmod o-w ") || len(f.Entries[0].Env) > 3 && strings.Contains(strings.Join(f.Entries[0].Env, " "), "A=b") {
		t.Errorf("%+v, %v", f, err)
	}

	// Detected files must belong to this user or root; others are omitted with a problem.
	home := filepath.Join(dir, "home")
	name := write(t, filepath.Join(home, ".cursor", "mcp.json"), oneServer, 0o666)
	found := config.Detect(config.Places{Home: home, Dir: filepath.Join(dir, "none"), OS: "linux"}, nil)
	if len(found) != 1 || len(found[0].Entries) > 0 || len(found[0].Problems) != 1 || !strings.Contains(found[0].Problems[0].Text, "chmod go-w ") {
		t.Errorf("found %+v", found)
	}
	if os.Getuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(name, 0o644), os.Chown(name, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if f, err := config.Read(name, nil); err != nil || len(f.Entries) != 1 {
		t.Errorf("a file of somebody else that was named: %+v, %v", f, err)
	}
	found = config.Detect(config.Places{Home: home, Dir: filepath.Join(dir, "none"), OS: "linux"}, nil)
	if len(found) != 1 || len(found[0].Entries) > 0 || !strings.Contains(found[0].Problems[0].Text, "belongs to user 65534") {
		t.Errorf("found %+v", found)
	}
}
