//go:build unix

package socket_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/transport/socket"
)

// TestFolderOfOthers checks that a socket is not created where another user may replace it.
func TestFolderOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		mode  fs.FileMode
		owner int
		ok    bool
	}{
		"ours": {0o755, os.Getuid(), true}, "sticky": {0o777 | fs.ModeSticky, os.Getuid(), true}, "open": {0o777, os.Getuid(), false}, "theirs": {0o755, 65534, false},
		"theirs, sticky": {0o777 | fs.ModeSticky, 65534, false},
	} {
		if c.owner != os.Getuid() && os.Getuid() != 0 {
			continue // only root can create a folder of another user
		}
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, c.owner, -1); err != nil {
			t.Fatal(err)
		}
		l, err := socket.Listen(t.Context(), "unix", filepath.Join(dir, "s"), nil)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = l.Close() // it has no connections
		} else if c.owner == os.Getuid() && !strings.Contains(err.Error(), "chmod ") {
			t.Errorf("%s: %v names nothing that mends it", name, err)
		}
	}
}
