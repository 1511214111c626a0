package proc

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Not verified: this file compiles for macOS and has not run there.

// seconds is one second in the unit of start times: microseconds since 1970.
const seconds = 1_000_000

// ownPath returns the path of this program.
func ownPath() (string, error) { return os.Executable() }

// numbersOf returns the name of the boot in which the PIDs are valid.
var numbersOf = sync.OnceValue(func() string {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return digest(boot)
})

// now returns the current time in the unit of start times.
func now() uint64 { return uint64(time.Now().UnixMicro()) }

// startOf returns when a process was started, and whether a process with this PID exists.
func startOf(pid int) (start uint64, alive bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return 0, false
	}
	return started(p), true
}

// startsIn returns the start times of a group's members.
func startsIn(pgid int) []uint64 {
	members, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pgid)
	if err != nil {
		return nil
	}
	starts := make([]uint64, len(members))
	for i := range members {
		starts[i] = started(&members[i])
	}
	return starts
}

func started(p *unix.KinfoProc) uint64 {
	t := p.Proc.P_starttime
	return uint64(t.Sec)*seconds + uint64(t.Usec)
}

// holders is not available here: a child that is being started when this process dies is not
// detected.
func holders([]uint64, uint64) []int { return nil }
