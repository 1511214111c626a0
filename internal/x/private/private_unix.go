//go:build unix && !solaris && !illumos && !aix

package private

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// hasModes reports whether owners and modes control access.
const hasModes = true

func self() int { return os.Geteuid() }

func owner(info fs.FileInfo) (uid int, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

func groupOf(info fs.FileInfo) (gid int, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Gid), true
}

// openFile opens or creates a file and does not follow a link in the last element of the path.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NOCTTY, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EMLINK): // FreeBSD returns EMLINK
		return nil, refuse(name, "", "it is a symbolic link, which is not followed; use the file itself")
	case errors.Is(err, fs.ErrPermission): // a file of ours with write permission only, or a device
		if again, retry := os.OpenFile(name, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NOCTTY, 0o600); retry == nil {
			return again, nil
		}
	}
	return f, err
}

// lock locks a file. The lock ends with the process.
func lock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS):
			return nil // the file system has no locks
		default:
			return err
		}
	}
}
