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
)

// A socketFile is the file of a Unix socket that we made.
type socketFile struct {
	path string
	info fs.FileInfo
}

// listenUnix makes the socket at path. Starts at the same time take turns, by a lock on the directory: between bind and
// listen a socket looks as if nobody were behind it.
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
	// Until here the file may have been open to others; checkUser refuses them all the same.
	err = os.Chmod(path, 0o600)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Lstat(path); err == nil {
			l.(*net.UnixListener).SetUnlinkOnClose(false) // it would not look whose file that is by then
			return l, &socketFile{path, info}, nil
		}
	}
	return nil, nil, errors.Join(err, l.Close())
}

// ErrInUse says that another process is listening on a Unix socket.
var ErrInUse = errors.New("another process is listening there")

// removeStale removes a socket that nobody listens on. Everything else that is in the way is an error.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s: %w, and is no socket", path, fs.ErrExist)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // it answered, that was the question
		return ErrInUse
	case errors.Is(err, syscall.EAGAIN): // it is too busy to answer
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("is somebody listening: %w", err)
}

// remove removes the file, unless it is another's by now.
func (f *socketFile) remove() error {
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

// checkUser lets this user and root connect.
func checkUser(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("no Unix socket: %T", conn)
	}
	uid, known, err := peerUser(c)
	switch {
	case err != nil:
		return fmt.Errorf("who is the peer: %w", err)
	case known && !trusted(uid, os.Geteuid()):
		return fmt.Errorf("the peer is user %d", uid)
	}
	return nil
}

// trusted reports whether the user uid may talk to a process of the user ours.
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
