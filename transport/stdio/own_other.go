//go:build !unix

package stdio

import (
	"io"
	"os"
)

// Untested: this compiles for Windows, but was not run there yet.

// ownInput returns stdin so that Close unblocks a Read. The input that ends the wait of its
// goroutine is lost.
func ownInput(f *os.File) io.ReadCloser { return newPump(f) }

// ownOutput returns stdout. A Write to a peer that does not read ends only when the peer does.
func ownOutput(f *os.File) io.WriteCloser { return keep{f} }
