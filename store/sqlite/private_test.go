//go:build unix

package sqlite_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/da1ed7bb/parley/store/sqlite"
)

// TestFilesArePrivate checks that other users cannot read the stored data, whatever the mode of the
// directory and the umask are, and that the modes of existing files are corrected.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		s, err := sqlite.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), fmt.Sprint(round), 0, []byte("v"), 0); err != nil {
			t.Error(err)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) < 4 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = os.Chmod(name, 0o644)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLinksAreRefused checks that a database is not written through a link.
func TestLinksAreRefused(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(other, filepath.Join(dir, "parley.db")); err != nil {
		t.Fatal(err)
	}
	if s, err := sqlite.Open(dir, nil); err == nil {
		t.Error("it is open", s.Close())
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("the link was followed")
	}
}
