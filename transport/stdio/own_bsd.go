//go:build unix && !linux

package stdio

import (
	"io"
	"io/fs"
	"os"
)

// Unproven: this compiles for macOS, and was not run there yet.

// ownInput returns stdin so that Close unblocks a Read. A terminal shares whether it blocks with stdout and the shell,
// and is left as it is.
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

// ownOutput returns stdout so that a Write to a peer that does not read can be ended.
func ownOutput(f *os.File) io.WriteCloser {
	if info, err := f.Stat(); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		if again, ok := unblock(f); ok {
			return again
		}
	}
	return keep{f}
}
