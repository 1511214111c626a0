//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// prepare gives the child a group of its own. There is no signal of our death here: a child notices the end of its stdin.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit cannot be had here: the group is signalled right after its number was given back.
func awaitExit(int) bool { return false }

// limit: the limits of another process cannot be set here.
func limit(int, Limits) error { return nil }
