package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// seconds is one second in the unit of start times: ticks of 10 ms since the boot (proc(5),
// starttime).
const seconds = 100

// ownPath returns the path of this program, which is valid even if its file was replaced or
// removed.
func ownPath() (string, error) { return "/proc/self/exe", nil }

// numbersOf returns the name of the boot and the PID namespace in which the PIDs are valid.
var numbersOf = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return digest(string(boot) + space)
})

// now returns the current time in the unit of start times.
func now() uint64 {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0
	}
	var sec, ticks uint64
	if _, err := fmt.Sscanf(string(text), "%d.%d", &sec, &ticks); err != nil {
		return 0
	}
	return sec*seconds + ticks
}

// startOf returns when a process was started, and whether a process with this PID exists.
func startOf(pid int) (start uint64, alive bool) {
	_, start, alive = stat(pid)
	return start, alive
}

// startsIn returns the start times of a group's members.
func startsIn(pgid int) []uint64 {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var starts []uint64
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if of, start, alive := stat(pid); alive && of == pgid {
			starts = append(starts, start)
		}
	}
	return starts
}

// holders returns the groups of processes that have one of the pipes open and were started at since
// or later.
func holders(inodes []uint64, since uint64) (groups []int) {
	want := make(map[string]bool)
	for _, inode := range inodes {
		want[fmt.Sprintf("pipe:[%d]", inode)] = true
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, dir := range procs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		pgid, start, alive := stat(pid)
		if !alive || start < since || pid == os.Getpid() {
			continue
		}
		files, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue // another user's process, or it has ended
		}
		for _, f := range files {
			if to, err := os.Readlink(dir + "/fd/" + f.Name()); err == nil && want[to] {
				groups = append(groups, pgid)
				break
			}
		}
	}
	return groups
}

// stat returns the group and the start time of a process (proc(5), /proc/pid/stat, fields 5 and
// 22).
func stat(pid int) (pgid int, start uint64, alive bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // the fields from the third on
	if len(fields) < 20 {
		return 0, 0, false
	}
	pgid, err = strconv.Atoi(string(fields[2]))
	if err != nil {
		return 0, 0, false
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return pgid, start, err == nil
}
