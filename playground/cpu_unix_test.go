//go:build unix

package playground_test

import (
	"syscall"
	"time"
)

// spent is the processor time of this process so far: what other work on the machine does not change.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
