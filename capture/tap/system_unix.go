//go:build unix

package tap

import (
	"os"
	"syscall"
)

// bySignal is the exit code of a child that a signal ended, as shells count it.
func bySignal(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return 1
}
