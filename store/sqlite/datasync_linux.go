package sqlite

import (
	"os"
	"syscall"
)

// datasync syncs what was written, without the times of the file.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
