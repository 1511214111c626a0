//go:build unix

package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestBookOfOthers checks that no process is killed because of a reused PID, and that only books
// that are private to this user and no longer in use are trusted.
func TestBookOfOthers(t *testing.T) {
	if numbersOf() == "" {
		return // the system has no books
	}
	bystander := exec.Command("sleep", "1000")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	pid := bystander.Process.Pid
	start, _ := startOf(pid)
	self, _ := startOf(os.Getpid())
	const gone = 1 << 30 // not a valid PID
	for _, c := range []struct {
		name, file, text string
		mode             os.FileMode
		link, stays      bool
	}{
		{"another start", "", fmt.Sprintf("parley %d 1\nseen %d\n+ %d %d\n", gone, now(), pid, start+1), 0o600, false, false},
		{"no start", "", fmt.Sprintf("parley %d 1\nseen %d\n+ %d 0\n", gone, now(), pid), 0o600, false, false},
		{"of one that runs", "", fmt.Sprintf("parley %d %d\nseen %d\n+ %d %d\n", os.Getpid(), self, now(), pid, start), 0o600, false, true},
		{"that others may read", "", fmt.Sprintf("parley %d 1\nseen %d\n+ %d %d\n", gone, now(), pid, start), 0o644, false, true},
		{"a link", "", fmt.Sprintf("parley %d 1\nseen %d\n+ %d %d\n", gone, now(), pid, start), 0o600, true, true},
		{"another boot", "children-0123456789abcdef-1-1", fmt.Sprintf("parley %d 1\nseen %d\n+ %d %d\n", gone, now(), pid, start), 0o600, false, true},
		{"nonsense", "", "hello\n", 0o600, false, true},
		{"everybody", "", fmt.Sprintf("parley %d 1\nseen %d\n+ 1 0\n+ 0 0\n+ -1 0\n", gone, now()), 0o600, false, false},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.file == "" {
			c.file = fmt.Sprintf(bookName, numbersOf(), gone, 1)
		}
		name := filepath.Join(dir, c.file)
		at := name
		if c.link {
			at = filepath.Join(dir, "other")
			if err := os.Symlink(at, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(at, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		cleanBook(name, numbersOf(), nil)
		if _, err := os.Lstat(name); (err == nil) != c.stays {
			t.Errorf("%s: the file: %v, want it to stay: %t", c.name, err, c.stays)
		}
	}
	// If another process had ended it, its exit status would differ.
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Error(err)
	}
	if err := bystander.Wait(); signalOf(bystander.ProcessState) != syscall.SIGUSR1.String() {
		t.Errorf("somebody was ended whose number was in a book: %v", err)
	}
}

// TestProven checks that a group without its child counts as ours only if a member is as old as the
// last time when it was ours.
func TestProven(t *testing.T) {
	if numbersOf() == "" {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	leader := exec.Command("sh", "-c", "sleep 1000 & echo")
	leader.Stdout = w
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	pid := leader.Process.Pid
	start, _ := startOf(pid)
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := leader.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		start, seen uint64
		want        bool
	}{
		{"seen now", start, now(), true},
		{"seen at the start", start, start, true},
		{"seen long ago", start, 0, now() < seenSlack},
		{"of a child that is younger", now() + 1, now() + 1, false},
		{"without a start", 0, now(), false},
	} {
		if got := (group{pid, c.start}).provenAt(c.seen); got != c.want {
			t.Errorf("%s: proven = %t, want %t", c.name, got, c.want)
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_, _ = r.Read(make([]byte, 1)) // blocks until it has ended
	_ = r.Close()
}
