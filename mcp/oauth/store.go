package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// A Store keeps secrets by key, between runs of a program: tokens, registrations, private keys. It is the seam for a system's keychain; [Files]
// and [Memory] are here. It is safe for concurrent use.
type Store interface {
	// Load returns what was saved under key, and fs.ErrNotExist if that is nothing. Keys are printable, up to a few hundred bytes.
	Load(ctx context.Context, key string) ([]byte, error)

	// Save keeps secret under key in place of what was there. nil takes it away.
	Save(ctx context.Context, key string, secret []byte) error
}

// Memory is a [Store] that ends with the program. The zero value is ready for use.
type Memory struct {
	mu sync.Mutex // guards what is below
	by map[string][]byte
}

// Load returns what was saved under key.
func (m *Memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, ok := m.by[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return append([]byte(nil), secret...), nil
}

// Save keeps secret under key.
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

// Files is a [Store] of files in one folder, which is made with mode 0700; each has mode 0600, a name that tells nothing, and is replaced as a
// whole. A file that others may read is not taken. On Windows the folder's access list does what the modes do elsewhere: choose one in the
// user's profile.
type Files struct {
	Dir string
}

// maxSecret bounds one file, in bytes.
const maxSecret = 256 << 10

// DefaultDir is where a user's tokens are kept when the program does not say: folder "parley/oauth" in $XDG_STATE_HOME, or in ~/.local/state.
func DefaultDir() (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) { // relative ones are invalid (XDG Base Directory Specification)
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
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && about.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("oauth: %s may be read by others (mode %04o): remove it, or chmod 600", file.Name(), about.Mode().Perm())
	}
	secret, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err == nil && len(secret) > maxSecret {
		return nil, fmt.Errorf("oauth: %s is too large", file.Name())
	}
	return secret, err
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
		return fmt.Errorf("oauth: others may write into %s: chmod 700", f.Dir)
	}
	temp, err := os.CreateTemp(f.Dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(secret)
	if err == nil {
		err = temp.Sync()
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // already failing with err
	}
	return err
}
