//go:build unix

package parley

import (
	"errors"
	"math"
	"syscall"
)

// openFiles returns the number of files that this process may have open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	return int(min(uint64(limit.Cur), math.MaxInt)) //nolint:unconvert // FreeBSD counts in int64
}

// isInUse reports whether listening failed because the address is in use.
func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
