//go:build !unix

package proc

import (
	"os"
	"os/exec"
)

// Not verified: this file compiles for Windows and has not run there.

func prepare(*exec.Cmd)        {}
func awaitExit(int) bool       { return false }
func limit(int, Options) error { return nil }

func killRest(int) {} // the job did it

// terminateGroup does nothing: the system has no such signal. stdin was closed before.
func terminateGroup(*os.Process) error { return nil }

// killGroup kills only the child; its job ends the rest.
func killGroup(p *os.Process) error { return p.Kill() }

func passToGroup(p *os.Process, s os.Signal) error { return p.Signal(s) }

func signalOf(*os.ProcessState) string { return "" }

// A guard is empty here, because jobs end with this process.
type guard struct{}

var watched guard

func (guard) hold(*exec.Cmd) int { return 0 }
func (guard) release()           {}
func (guard) failed(int)         {}
func (guard) add(int, int)       {}
func (guard) remove(int)         {}

// UseSelf has no effect here: a job ends the children.
func UseSelf(...string) {}

// Watch returns at once: no watcher is started here.
func Watch(*os.File, string) {}

// Keep has no effect here: a job ends the children.
func Keep(...string) {}

// CleanUp has no effect here.
func CleanUp() {}
