package private

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"unsafe"
)

const hasModes = false

func self() int                           { return -1 }
func owner(fs.FileInfo) (int, bool)       { return 0, false }
func groupOf(fs.FileInfo) (int, bool)     { return 0, false }
func openFile(n string) (*os.File, error) { return os.OpenFile(n, os.O_CREATE|os.O_RDWR, 0o600) }

var lockFile = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// Parameters and errors of LockFileEx.
const (
	lockExclusively  = 2
	lockImmediately  = 1
	errLockViolation = syscall.Errno(33)
	// Upper half of the lock's offset: beyond all content, which stays readable.
	lockedFar = 0x40000000
)

// lock locks a file. The lock ends with the process.
func lock(f *os.File) error {
	at := syscall.Overlapped{OffsetHigh: lockedFar}
	ok, _, err := lockFile.Call(f.Fd(), lockExclusively|lockImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errLockViolation):
		return ErrLocked
	}
	return err
}
