package sqlite

import (
	"os"
	"syscall"
)

// datasync syncs written data, without the file's timestamps.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
