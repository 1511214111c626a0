//go:build unix && !linux

package stdio

import (
	"io"
	"io/fs"
	"os"
)

// Untested: this compiles for macOS, but was not run there yet.

// ownInput returns stdin so that Close unblocks a Read. A terminal shares its blocking mode with
// stdout and the shell, and is not changed.
func ownInput(f *os.File) io.ReadCloser {
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode().IsRegular():
		return keep{f} // never blocks
	case info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		if again, ok := unblock(f); ok {
			return again
		}
	}
	return newPump(f)
}

// ownOutput returns stdout so that Close ends a Write to a peer that does not read.
func ownOutput(f *os.File) io.WriteCloser {
	if info, err := f.Stat(); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		if again, ok := unblock(f); ok {
			return again
		}
	}
	return keep{f}
}
