//go:build !unix

package stdio

import (
	"io"
	"os"
)

// Unproven: this compiles for Windows, and was not run there yet.

// ownInput returns stdin so that Close unblocks a Read, though the input that ends the wait of its goroutine is lost.
func ownInput(f *os.File) io.ReadCloser { return newPump(f) }

// ownOutput returns stdout. A Write to a peer that does not read ends with it.
func ownOutput(f *os.File) io.WriteCloser { return keep{f} }
