//go:build unix

package playground_test

import (
	"syscall"
	"time"
)

// spent returns the processor time that this process has used, independent of other processes.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
