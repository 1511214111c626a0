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

func passToGroup(p *os.Process, s os.Signal) error {
	if sig, ok := s.(syscall.Signal); ok {
		return signalGroup(p.Pid, sig)
	}
	return p.Signal(s)
}

// signalGroup signals the process group that the child leads. An empty group is not an error.
func signalGroup(pid int, sig syscall.Signal) error {
	err := syscall.Kill(-pid, sig)
	// macOS returns EPERM for a group of a single zombie.
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
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
