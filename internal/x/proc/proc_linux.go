package proc

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// prepare gives the child its own process group, and SIGKILL when the thread that starts it ends
// (prctl(2), PR_SET_PDEATHSIG).
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended without reaping it (waitid(2)). Until it is reaped, its
// PID and that of its group cannot be reused.
func awaitExit(pid int) bool {
	const (
		pPID    = 1
		wExited = 0x4
		wNoWait = 0x1000000
	)
	var info [128]byte // siginfo_t, which is not used
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}

// limit sets the limits of a running process (prlimit(2)).
func limit(pid int, l Options) error {
	if l.Files > 0 {
		limit := syscall.Rlimit{Cur: l.Files, Max: l.Files}
		var ours syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &ours); err == nil && ours.Max < l.Files {
			limit = syscall.Rlimit{Cur: ours.Max, Max: ours.Max} // never more than our own maximum
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
	if errno != 0 && errno != syscall.ESRCH { // if it has ended already, no limit is needed
		return os.NewSyscallError("prlimit", errno)
	}
	return nil
}
