//go:build !windows

package proc

import "os"

// A job is empty here: the process group takes its place.
type job struct{}

func (*job) take(*os.Process) {}
func (*job) kill()            {}
func (*job) close()           {}
