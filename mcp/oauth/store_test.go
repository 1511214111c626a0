package oauth_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

func TestFiles(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "a", "b")
	f := &oauth.Files{Dir: dir}
	if _, err := f.Load(ctx, "key"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	if err := f.Save(ctx, "key", nil); err != nil {
		t.Errorf("take away what is not there: %v", err)
	}
	for _, text := range []string{"one", "two"} {
		if err := f.Save(ctx, "key /with: odd?", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(ctx, "key /with: odd?"); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := f.Load(ctx, "another"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key: %v", err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 || strings.Contains(list[0].Name(), "key") {
		t.Fatalf("%v, %v", list, err)
	}
	path := filepath.Join(dir, list[0].Name())
	if runtime.GOOS != "windows" {
		for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600} {
			if about, err := os.Stat(name); err != nil || about.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", name, about.Mode(), err)
			}
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(ctx, "key /with: odd?"); err == nil {
			t.Errorf("a file that others may read was taken: %q", got)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		elsewhere := filepath.Join(t.TempDir(), "planted")
		if err := errors.Join(os.WriteFile(elsewhere, []byte("planted"), 0o600), os.Rename(path, path+".own"), os.Symlink(elsewhere, path)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(ctx, "key /with: odd?"); err == nil {
			t.Errorf("a link was followed: %q", got)
		}
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(ctx, "key /with: odd?"); err == nil {
			t.Errorf("a folder was read: %q", got)
		}
		if err := errors.Join(os.Remove(path), os.WriteFile(path, make([]byte, 256<<10+1), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(ctx, "key /with: odd?"); err == nil {
			t.Errorf("%d bytes were read", len(got))
		}
		if os.Getuid() == 0 { // only root can give a file away
			if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Truncate(path, 1), os.Chown(path, 12345, -1)); err != nil {
				t.Fatal(err)
			}
			if got, err := f.Load(ctx, "key /with: odd?"); err == nil {
				t.Errorf("a file of another user was read: %q", got)
			}
		}
		if err := errors.Join(os.Remove(path), os.Rename(path+".own", path)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o770); err != nil {
			t.Fatal(err)
		}
		if err := f.Save(ctx, "key /with: odd?", []byte("x")); err == nil {
			t.Error("wrote into a folder that others may write to")
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Save(ctx, "key /with: odd?", nil); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", filepath.FromSlash("/state"))
	if runtime.GOOS == "windows" {
		t.Setenv("XDG_STATE_HOME", `C:\state`)
	}
	if got, err := oauth.DefaultDir(); err != nil || got != filepath.Join(os.Getenv("XDG_STATE_HOME"), "parley", "oauth") {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := oauth.DefaultDir(); err != nil || got != filepath.Join(home, ".local", "state", "parley", "oauth") {
		t.Errorf("%s, %v", got, err)
	}
}
