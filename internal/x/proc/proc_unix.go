//go:build unix

package proc

import (
	"errors"
	"os"
	"syscall"
)

func terminateGroup(p *os.Process) error { return signalGroup(p.Pid, syscall.SIGTERM) }
func killGroup(p *os.Process) error      { return signalGroup(p.Pid, syscall.SIGKILL) }
func killRest(pid int)                   { _ = signalGroup(pid, syscall.SIGKILL) }

// signalGroup signals the group that the child leads. That nobody is in it any more is what was wanted.
func signalGroup(pid int, sig syscall.Signal) error {
	err := syscall.Kill(-pid, sig)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) { // macOS: EPERM for a zombie alone
		return nil
	}
	return os.NewSyscallError("kill", err)
}

func signalOf(s *os.ProcessState) string {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
