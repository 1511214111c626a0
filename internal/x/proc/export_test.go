//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// Announce starts cmd like Start, and stops at the point where the child's PID would be recorded.
func Announce(cmd *exec.Cmd) {
	watched.hold(cmd)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}
