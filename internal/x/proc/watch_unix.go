//go:build unix

package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How long groups have to end after the death of their starter.
const (
	politeTime = 2 * time.Second // after SIGTERM
	killTime   = 2 * time.Second // after SIGKILL
	pollTime   = 20 * time.Millisecond
)

// watchScript is the watcher for programs that do not call UseSelf. It compares the child's start
// time if /proc provides it. It also sends SIGCONT, because a stopped process does not end.
const watchScript = `trap '' INT TERM HUP QUIT PIPE TSTP TTIN TTOU
groups=' '
while read -r op pid start; do
	case $op in
	+) groups="$groups$pid:$start " ;;
	-) case $groups in *" $pid:"*)
		rest=${groups#*" $pid:"}
		groups="${groups%%" $pid:"*} ${rest#* }" ;;
	esac ;;
	esac
done
ours() {
	[ "$2" = 0 ] && return 0
	read -r line 2>/dev/null <"/proc/$1/stat" || return 0
	line=${line##*) }
	set -- "$2" $line
	[ "$1" = "${21}" ]
}
signal() {
	for group in $groups; do
		ours "${group%:*}" "${group#*:}" && kill -s "$1" -- "-${group%:*}" 2>/dev/null
	done
}
alive() {
	for group in $groups; do
		kill -s 0 -- "-${group%:*}" 2>/dev/null && return 0
	done
	return 1
}
signal TERM
signal CONT
for wait in 1 1 0; do
	alive || exit 0
	sleep "$wait"
done
signal KILL
`

// Watch is the main function of a watcher. It reads groups from pipe until the other end is closed,
// which means that its starter has died. It then ends the groups, removes the file that book names,
// if any, and returns after at most 5 s.
func Watch(pipe *os.File, book string) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	groups, strays := readGroups(pipe)
	endGroups(append(groups, groupsOf(strays)...))
	if len(strays) > 0 {
		endGroups(groupsOf(strays)) // processes that were started meanwhile
	}
	if book != "" {
		_ = os.Remove(book) // an entry that remains matches no process at the next start
	}
}

// A stray is a child that was being started: its earliest start time and its pipes.
type stray struct {
	number int
	since  uint64
	inodes []uint64
}

// readGroups returns the remaining groups at the end of the pipe, and the children that were being
// started then.
func readGroups(r io.Reader) (groups []group, strays []stray) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var one group
		var number int
		switch line := lines.Text(); {
		case scan(line, "+ %d %d", &one.pid, &one.start) && one.pid > 1:
			groups = append(groups, one)
		case scan(line, "- %d", &one.pid):
			groups = slices.DeleteFunc(groups, func(g group) bool { return g.pid == one.pid })
		case scan(line, "! %d", &number):
			strays = slices.DeleteFunc(strays, func(s stray) bool { return s.number == number })
		case strings.HasPrefix(line, "? "):
			if s, ok := strayOf(strings.Fields(line)[1:]); ok {
				strays = append(strays, s)
			}
		}
	}
	return groups, strays
}

func strayOf(words []string) (s stray, ok bool) {
	if len(words) < 3 {
		return s, false // without a pipe it cannot be found
	}
	numbers := make([]uint64, len(words))
	for i, w := range words {
		n, err := strconv.ParseUint(w, 10, 64)
		if err != nil {
			return s, false
		}
		numbers[i] = n
	}
	return stray{int(numbers[0]), numbers[1], numbers[2:]}, true
}

// groupsOf returns the groups of processes that hold a pipe of a stray and were started after it
// was announced. A group counts only if its first process was started then too, or is gone. This
// excludes our own group, a shell's, and the group of the process at the other end.
func groupsOf(strays []stray) (groups []group) {
	for _, s := range strays {
		for _, pgid := range holders(s.inodes, s.since) {
			start, alive := startOf(pgid)
			if pgid > 1 && (!alive || start >= s.since) && !slices.ContainsFunc(groups, func(g group) bool { return g.pid == pgid }) {
				groups = append(groups, group{pgid, start})
			}
		}
	}
	return groups
}

func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// endGroups terminates groups, first with SIGTERM, and returns when they are empty or all attempts
// have failed.
func endGroups(groups []group) {
	send := func(sig syscall.Signal) {
		for _, g := range groups {
			if g.ours() {
				_ = syscall.Kill(-g.pid, sig) // an error means that the group is empty
			}
		}
	}
	send(syscall.SIGTERM)
	send(syscall.SIGCONT) // a stopped process does not end
	if emptyWithin(groups, politeTime) {
		return
	}
	send(syscall.SIGKILL)
	emptyWithin(groups, killTime)
}

func emptyWithin(groups []group, d time.Duration) bool {
	for late := time.Now().Add(d); ; time.Sleep(pollTime) {
		if !slices.ContainsFunc(groups, group.peopled) {
			return true
		}
		if time.Now().After(late) {
			return false
		}
	}
}

// ours reports whether the group may be signalled: if a process with its PID exists, it must be the
// child itself. As long as a group has members, the system does not reuse its PID.
func (g group) ours() bool {
	start, alive := startOf(g.pid)
	return !alive || g.start == 0 || start == g.start
}

// peopled reports whether the group has members.
func (g group) peopled() bool {
	return g.ours() && !errors.Is(syscall.Kill(-g.pid, 0), syscall.ESRCH)
}
