//go:build unix

package proc_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/internal/x/proc"
)

// TestMain runs this binary in one of its roles: a watcher; a program that starts a child and is
// then killed; a program that is started later.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "watch":
			proc.Watch(os.Stdin, os.Args[2])
			os.Exit(0)
		case "start": // sh|self DIR SCRIPT…
			settle(os.Args[2:])
			for _, script := range os.Args[4:] {
				if _, err := proc.Start(shell(script), proc.Options{}); err != nil {
					fmt.Println(err)
				}
			}
			fmt.Println("ready")
			select {}
		case "gap": // the remains of a process that dies in the middle of a start
			proc.UseSelf("watch")
			proc.Announce(shell(os.Args[2]))
			select {}
		case "clean": // sh|self DIR
			settle(os.Args[2:])
			proc.CleanUp()
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

func settle(args []string) {
	if args[0] == "self" {
		proc.UseSelf("watch")
	}
	if args[1] != "" {
		proc.Keep(args[1])
	}
}

func role(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// A starter is a process with its own children. All of them hold the pipe that lines reads.
type starter struct {
	*testing.T
	cmd   *exec.Cmd
	pipe  *os.File
	lines *bufio.Reader
}

// startRole starts this program in a role, and waits until it and its children have printed that
// they are ready.
func startRole(t *testing.T, ready int, args ...string) *starter {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &starter{T: t, cmd: role(args...), pipe: r, lines: bufio.NewReader(r)}
	s.cmd.Stdout = w
	err = s.cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill(); _ = r.Close() })
	for range ready {
		if line, err := s.lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("the child printed %q, %v", line, err)
		}
	}
	return s
}

func (s *starter) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
}

// awaitEmpty returns the lines that arrive until no process holds the pipe.
func (s *starter) awaitEmpty() string {
	s.Helper()
	_ = s.pipe.SetReadDeadline(time.Now().Add(time.Minute))
	var all strings.Builder
	if _, err := s.lines.WriteTo(&all); err != nil {
		s.Errorf("processes are left: %v", err)
	}
	return all.String()
}

// processes lists all processes: pid, ppid, state, words.
func processes(t *testing.T) string {
	t.Helper()
	text, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// watcher returns the PID of the process that watches s.
func (s *starter) watcher() int {
	s.Helper()
	for line := range strings.Lines(processes(s.T)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && fields[1] == strconv.Itoa(s.cmd.Process.Pid) && (strings.Contains(line, " watch") || strings.Contains(line, "parley-watcher")) {
			pid, _ := strconv.Atoi(fields[0])
			return pid
		}
	}
	return 0 // no other watcher runs yet
}

// trees are children that do not end by themselves. Each prints a line when all of its processes
// run.
var trees = map[string]string{
	"two":       `sleep 345 & echo ready; sleep 346`,
	"one":       `echo ready; exec sleep 345`,
	"launcher":  `sh -c 'sh -c "sleep 345; true" & sleep 346 | sleep 347' & sleep 348 & echo ready; wait`,
	"gone":      `sh -c 'trap "" TERM; sleep 345; true' & trap "" TERM; echo ready; wait; sleep 346`,
	"deaf":      `trap "" TERM INT HUP; sleep 345 & echo ready; while :; do sleep 1; done`,
	"stopped":   `sleep 345 & kill -STOP $!; echo ready; sleep 346`,
	"no leader": `(trap "" HUP; sleep 345; true) & echo ready; sleep 346 & wait`,
}

// kills returns the number of repetitions of each death.
func kills() int {
	n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS"))
	if err != nil {
		return 10
	}
	return n
}

// TestDeath checks that the children of a process end soon after it was killed, without another
// start.
func TestDeath(t *testing.T) {
	for _, watcher := range []string{"self", "sh"} {
		for name, tree := range trees {
			t.Run(watcher+" "+name, func(t *testing.T) {
				t.Parallel()
				for range max(1, kills()/len(trees)) {
					s := startRole(t, 2, "start", watcher, "", tree)
					s.kill()
					s.awaitEmpty()
				}
			})
		}
	}
}

// TestGap checks that a child is found if its starter died before it could record the PID.
func TestGap(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // pipes of other processes are not visible here
	}
	for range 3 {
		s := startRole(t, 1, "gap", `trap "" HUP; sleep 345 & echo ready; sleep 346 & wait`)
		s.kill()
		s.awaitEmpty()
	}
}

// TestPolite checks that a process can clean up before it is killed.
func TestPolite(t *testing.T) {
	for _, watcher := range []string{"self", "sh"} {
		s := startRole(t, 2, "start", watcher, "", `sh -c 'trap "echo bye; exit" TERM; echo ready; while :; do sleep 1; done' & wait`)
		s.kill()
		if got := s.awaitEmpty(); got != "bye\n" {
			t.Errorf("%s: the group wrote %q, want bye: it had no time", watcher, got)
		}
	}
}

// TestWatcherDies checks that another watcher replaces it.
func TestWatcherDies(t *testing.T) {
	for _, watcher := range []string{"self", "sh"} {
		s := startRole(t, 3, "start", watcher, "", trees["two"], trees["deaf"])
		first := s.watcher()
		if first == 0 {
			t.Fatal("there is no watcher")
		}
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for late := time.Now().Add(time.Minute); ; {
			if second := s.watcher(); second != 0 && second != first {
				break
			}
			if time.Now().After(late) {
				t.Fatalf("%s: there is no other watcher", watcher)
			}
		}
		s.kill()
		s.awaitEmpty()
	}
}

// TestBothDie checks that the next start ends the remaining children, and removes the files that it
// needs.
func TestBothDie(t *testing.T) {
	for _, watcher := range []string{"self", "sh"} {
		for name, tree := range trees {
			t.Run(watcher+" "+name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "children")
				s := startRole(t, 2, "start", watcher, dir, tree)
				watch := s.watcher()
				if watch == 0 {
					t.Fatal("there is no watcher")
				}
				// Otherwise it would start another watcher.
				if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(watch, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				s.kill()
				info, err := os.Stat(dir)
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the folder: %v, %v", info, err)
				}
				files, _ := filepath.Glob(filepath.Join(dir, "*"))
				if len(files) != 1 {
					t.Fatalf("files: %q", files)
				}
				if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the file: %v, %v", info, err)
				}
				if err := role("clean", watcher, dir).Run(); err != nil {
					t.Fatal(err)
				}
				s.awaitEmpty()
				for late := time.Now().Add(time.Minute); ; {
					if files, _ = filepath.Glob(filepath.Join(dir, "*")); len(files) == 0 {
						break
					}
					if time.Now().After(late) {
						t.Fatalf("files are left: %q", files)
					}
				}
			})
		}
	}
}
