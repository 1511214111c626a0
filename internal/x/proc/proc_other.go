//go:build !unix

package proc

import (
	"os"
	"os/exec"
)

// Unproven: this compiles for Windows, and was not run there yet.

func prepare(*exec.Cmd)       {}
func awaitExit(int) bool      { return false }
func limit(int, Limits) error { return nil }

func killRest(int) {}

// terminateGroup: there is no polite way but the end of stdin, which came before.
func terminateGroup(*os.Process) error { return nil }

// killGroup ends the child alone.
func killGroup(p *os.Process) error { return p.Kill() }

func signalOf(*os.ProcessState) string { return "" }
