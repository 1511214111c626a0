package proc

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// prepare gives the child a group of its own, and the signal KILL when the thread that starts it ends (prctl(2),
// PR_SET_PDEATHSIG).
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended, and leaves it to be waited for (waitid(2)): until then its number, and that
// of its group, is nobody else's.
func awaitExit(pid int) bool {
	const (
		pPID    = 1
		wExited = 0x4
		wNoWait = 0x1000000
	)
	var info [128]byte // siginfo_t, which nobody reads
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}

// limit sets the limits of a process that runs already (prlimit(2)).
func limit(pid int, l Limits) error {
	if l.Files > 0 {
		limit := syscall.Rlimit{Cur: l.Files, Max: l.Files}
		var ours syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &ours); err == nil && ours.Max < l.Files {
			limit = syscall.Rlimit{Cur: ours.Max, Max: ours.Max} // never more than we may give
		}
		if err := prlimit(pid, syscall.RLIMIT_NOFILE, limit); err != nil {
			return err
		}
	}
	if !l.Core {
		return prlimit(pid, syscall.RLIMIT_CORE, syscall.Rlimit{})
	}
	return nil
}

func prlimit(pid, resource int, l syscall.Rlimit) error {
	_, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), uintptr(unsafe.Pointer(&l)), 0, 0, 0)
	if errno != 0 && errno != syscall.ESRCH { // ended already: it takes nothing
		return os.NewSyscallError("prlimit", errno)
	}
	return nil
}
