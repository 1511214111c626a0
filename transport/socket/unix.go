package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley/internal/x/private"
)

// A socketFile is the file of a Unix socket that this process created.
type socketFile struct {
	path string
	info fs.FileInfo
}

// listenUnix creates the socket at path. Concurrent starts take turns, by a lock on the directory:
// between bind and listen a socket looks as if it had no listener.
func listenUnix(ctx context.Context, path string) (net.Listener, *socketFile, error) {
	var lc net.ListenConfig
	if strings.HasPrefix(path, "@") { // Linux: a name without a file
		l, err := lc.Listen(ctx, "unix", path)
		return l, &socketFile{}, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if err := private.Place(dir); err != nil {
		return nil, nil, err
	}
	unlock, err := lockDir(ctx, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	defer unlock()
	if err := removeStale(ctx, path); err != nil {
		return nil, nil, err
	}

	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, nil, err
	}
	// Until here other users may have been able to connect; checkUser refuses them in any case.
	err = os.Chmod(path, 0o600)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(path); err == nil {
			// it would remove the file even if another process has replaced it
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			return l, &socketFile{path, info}, nil
		}
	}
	return nil, nil, errors.Join(err, l.Close())
}

// ErrInUse means that another process is listening on a Unix socket.
var ErrInUse = errors.New("another process is already listening")

// removeStale removes a socket without a listener. Any other file at path is an error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: %w, and is not a socket", path, fs.ErrExist)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // the connection only shows that there is a listener
		return ErrInUse
	case errors.Is(err, syscall.EAGAIN): // the listener is too busy to accept
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("check for a listener: %w", err)
}

// removeSocket removes the file, unless another process has replaced it.
func (f *socketFile) removeSocket() error {
	if f.path == "" {
		return nil
	}
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !os.SameFile(info, f.info):
		return nil
	}
	return os.Remove(f.path)
}

// checkUser refuses connections of users other than this user and root.
func checkUser(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("not a Unix socket: %T", conn)
	}
	uid, known, err := peerUser(c)
	switch {
	case err != nil:
		return fmt.Errorf("get the peer's user: %w", err)
	case known && !trusted(uid, os.Geteuid()):
		return fmt.Errorf("the peer is user %d", uid)
	}
	return nil
}

// trusted reports whether the user uid may connect to a process of the user ours.
func trusted(uid, ours int) bool { return uid == ours || uid == 0 }

// onFile runs f on the descriptor of c.
func onFile(c *net.UnixConn, f func(fd uintptr) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(fd) }); err != nil {
		return err
	}
	return inner
}
