//go:build !unix

package parley

import (
	"errors"
	"math"
	"syscall"
)

// openFiles returns the number of files that this process may have open; there is no such limit
// here.
func openFiles() int { return math.MaxInt }

// winAddressInUse is WSAEADDRINUSE of Windows Sockets 2, which package syscall does not name.
const winAddressInUse = syscall.Errno(10048)

// isInUse reports whether listening failed because the address is in use.
func isInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, winAddressInUse)
}
