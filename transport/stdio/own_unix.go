//go:build unix

package stdio

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// unblock makes the open file of f non-blocking, until Close. A socket or a pipe is rarely shared
// with a process that depends on the mode; a second open file is preferable where possible.
func unblock(f *os.File) (io.ReadWriteCloser, bool) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, false
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd) // err decides
		return nil, false
	}
	return &unblocked{os.NewFile(uintptr(fd), f.Name()), f}, true
}

// unblocked is a file whose blocking mode is restored for its other holders by Close.
type unblocked struct {
	*os.File
	origin *os.File
}

func (u *unblocked) Close() error {
	return errors.Join(u.File.Close(), syscall.SetNonblock(int(u.origin.Fd()), false))
}
