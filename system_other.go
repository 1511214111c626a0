//go:build !unix

package parley

import (
	"errors"
	"math"
	"syscall"
)

// openFiles is how many files this process may have open; there is no such limit here.
func openFiles() int { return math.MaxInt }

// winAddressInUse is WSAEADDRINUSE of Windows Sockets 2, which package syscall does not name.
const winAddressInUse = syscall.Errno(10048)

// isInUse reports whether listening failed because somebody else listens there.
func isInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, winAddressInUse)
}
