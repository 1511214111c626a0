package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/private"
)

// A Store stores secrets by key between runs of a program: tokens, registrations, private keys. It
// is the interface to a system's keychain; this package has [Files] and [Memory]. It is safe for
// concurrent use.
type Store interface {
	// Load returns the secret stored under key, or fs.ErrNotExist if key has no secret. Keys are
	// printable and up to a few hundred bytes long.
	Load(ctx context.Context, key string) ([]byte, error)

	// Save stores secret under key and replaces the previous one. If secret is nil, the entry is
	// deleted.
	Save(ctx context.Context, key string, secret []byte) error
}

// Memory is a [Store] in memory, lost when the program exits. The zero value is ready for use.
type Memory struct {
	mu sync.Mutex // guards the fields below
	by map[string][]byte
}

// Load returns the secret stored under key.
func (m *Memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, ok := m.by[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return append([]byte(nil), secret...), nil
}

// Save stores secret under key.
func (m *Memory) Save(_ context.Context, key string, secret []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if secret == nil {
		delete(m.by, key)
		return nil
	}
	if m.by == nil {
		m.by = make(map[string][]byte)
	}
	m.by[key] = append([]byte(nil), secret...)
	return nil
}

// Files is a [Store] of files in one directory, which is created with mode 0700. Each file has mode
// 0600 and a name that reveals nothing, and is replaced atomically. A file that other users can
// read, that another user owns, or that is a link is rejected. On Windows the directory's access
// list has the role of the modes: choose a directory in the user's profile.
type Files struct {
	Dir string
}

// maxSecret bounds one file, in bytes.
const maxSecret = 256 << 10

// DefaultDir returns the default directory for a user's tokens: "parley/oauth" in $XDG_STATE_HOME
// or in ~/.local/state.
func DefaultDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // relative paths are invalid (XDG Base Directory Specification)
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "parley", "oauth"), nil
}

func (f *Files) path(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(f.Dir, hex.EncodeToString(sum[:16])+".json")
}

// Load reads the file of key.
func (f *Files) Load(_ context.Context, key string) ([]byte, error) {
	return private.ReadSecret(f.path(key), maxSecret)
}

// Save replaces the file of key.
func (f *Files) Save(_ context.Context, key string, secret []byte) error {
	path := f.path(key)
	if secret == nil {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	if about, err := os.Stat(f.Dir); err != nil || runtime.GOOS != "windows" && about.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("oauth: other users can write to %s; to fix it, run: chmod 700 %[1]s", f.Dir)
	}
	return private.Write(path, secret)
}
