//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSocketFolder checks that a folder created or linked by another user is not used.
func TestSocketFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	a := &app{getenv: func(string) string { return "" }}
	usual := filepath.Dir(a.socketPath("s"))
	if info, err := os.Lstat(usual); err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(usual) != tmp {
		t.Fatalf("%s: %v, %v", usual, info, err)
	}
	if again := filepath.Dir(a.socketPath("s")); again != usual {
		t.Errorf("again it is %s", again)
	}
	if err := os.Remove(usual); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), usual); err != nil {
		t.Fatal(err)
	}
	if other := filepath.Dir(a.socketPath("s")); other != usual+"-2" {
		t.Errorf("beside a link it is %s", other)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(usual+"-2", 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if other := filepath.Dir(a.socketPath("s")); other != usual+"-3" {
			t.Errorf("beside a folder of somebody else it is %s", other)
		}
	}
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	a = &app{stdin: strings.NewReader(""), stdout: &strings.Builder{}, stderr: &strings.Builder{}, getenv: os.Getenv}
	if err := a.main(t.Context(), []string{"tap", "--target", "tcp://127.0.0.1:1", "--listen", "unix:" + filepath.Join(tmp, "s")}); err != exitUsage {
		t.Errorf("a tap in a folder that others may write: exit code %d", err)
	}
}

// TestPlansOfOthersAreRefused checks plans, which can start programs like a configuration.
func TestPlansOfOthersAreRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(name, []byte("plan: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o666); err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &strings.Builder{}, stderr: &errs, getenv: os.Getenv}
	if code := a.main(t.Context(), []string{"run", name}); code != exitUsage || !strings.Contains(errs.String(), "chmod go-w "+name) {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}
