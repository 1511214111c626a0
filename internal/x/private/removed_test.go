//go:build unix

package private

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRemovedBeforeTheLock checks that a file that another process removes between opening and
// locking is not written, because what is written would be lost.
func TestRemovedBeforeTheLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "session.jsonl")
	for what, between := range map[string]func() error{
		"removed":  func() error { return RemoveUnused(name) },
		"replaced": func() error { return errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600)) },
	} {
		f, err := openFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := between(); err != nil {
			t.Fatal(err)
		}
		if _, err := admit(name, f); !errors.Is(err, errRemoved) {
			t.Errorf("%s: %v, want %v", what, err, errRemoved)
		}
		_ = f.Close() // it is open or not
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
