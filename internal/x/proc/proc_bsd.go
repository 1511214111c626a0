//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// prepare gives the child its own process group. These systems have no death signal: a child
// detects the end of its stdin.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit is not available here: the group is signalled right after its PID was released.
func awaitExit(int) bool { return false }

// limit does nothing: these systems cannot set the limits of another process.
func limit(int, Options) error { return nil }
