package stdio

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ownInput returns stdin so that Close unblocks a Read. A pipe and a terminal are opened a second
// time: the blocking mode belongs to the open file, which stdin shares with the parent process.
func ownInput(f *os.File) io.ReadCloser {
	if again, ok := reopen(f, syscall.O_RDONLY); ok {
		return again
	}
	if regular(f) {
		return keep{f} // never blocks
	}
	return newPump(f)
}

// ownOutput returns stdout so that Close ends a Write to a peer that does not read.
func ownOutput(f *os.File) io.WriteCloser {
	if again, ok := reopen(f, syscall.O_WRONLY); ok {
		return again
	}
	return keep{f}
}

func reopen(f *os.File, flag int) (io.ReadWriteCloser, bool) {
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	switch info.Mode().Type() {
	case fs.ModeSocket:
		return unblock(f)
	case fs.ModeNamedPipe, fs.ModeDevice | fs.ModeCharDevice:
		fd, err := syscall.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flag|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
		if err != nil {
			return nil, false // owned by another user, or no /proc
		}
		return os.NewFile(uintptr(fd), f.Name()), true
	}
	return nil, false
}

func regular(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}
