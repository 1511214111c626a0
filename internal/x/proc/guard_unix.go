//go:build unix

package proc

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// watched is the guard of this process. One watcher handles all children of a process.
var watched guard

// A guard runs a watcher while there are children. The watcher reads the groups from a pipe, which
// closes when this process ends. The lines on the pipe are
//
//   - PID START     a child was started: the group PID is ours
//   - PID           the child has ended
//
// Failing to start a watcher is not an error, because the child is not at fault. The remaining
// protection is the death signal of Linux and the end of stdin.
type guard struct {
	// Guards the fields below; held while the watcher starts and during a write to its pipe (at
	// most pipeTime)
	mu      sync.Mutex
	users   int // children, from before their start until after their end
	starts  int // number of announced children
	groups  []group
	watcher *watcher // nil if no watcher runs
	flops   int      // consecutive watchers that ended at once

	self []string // arguments that run this program as a watcher; if nil, a script for sh is used
	book book     // the recorded children
}

// A group is the process group of a child.
type group struct {
	pid   int
	start uint64 // start time of the child, in units of the system; 0 if unknown
}

// A watcher is a running watcher process.
type watcher struct {
	cmd   *exec.Cmd
	pipe  *os.File
	since time.Time
	done  chan struct{} // closed when it has ended
}

const (
	pipeTime = 500 * time.Millisecond // for a write to a watcher, whose pipe is usually empty
	// Watchers that may end at once before no more are started for these children.
	maxFlops = 5
)

// UseSelf makes this program its own watcher: when run with words and usually one more argument, it
// must call [Watch] at once.
func UseSelf(words ...string) {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	watched.self = words
}

// hold starts the watcher before the first child, and announces cmd. It returns the number of the
// announcement.
func (g *guard) hold(cmd *exec.Cmd) (start int) {
	line := fmt.Sprint(now())
	for _, inode := range inodesOf(cmd.Stdin, cmd.Stdout, cmd.Stderr) {
		line += fmt.Sprint(" ", inode)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
	if g.watcher == nil {
		g.flops = 0
		g.startLocked()
	}
	g.starts++
	g.sayLocked("? %d %s\n", g.starts, line)
	return g.starts
}

// inodesOf returns the inodes of the pipes among a child's files.
func inodesOf(files ...any) (inodes []uint64) {
	for _, f := range files {
		f, ok := f.(*os.File)
		if !ok || f == nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				inodes = append(inodes, stat.Ino)
			}
		}
	}
	return inodes
}

// failed withdraws an announcement.
func (g *guard) failed(start int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sayLocked("! %d\n", start)
}

// release ends the watcher after the last child.
func (g *guard) release() {
	g.mu.Lock()
	g.users--
	if g.users > 0 {
		g.mu.Unlock()
		return
	}
	w := g.watcher
	g.watcher = nil
	g.book.close()
	g.mu.Unlock()
	if w != nil {
		_ = w.cmd.Process.Kill() // the fastest way, since it has nothing to clean up
		<-w.done
	}
}

func (g *guard) add(pid, announced int) {
	start, _ := startOf(pid)
	one := group{pid, start}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups = append(g.groups, one)
	g.sayLocked("+ %d %d\n! %d\n", one.pid, one.start, announced)
	g.book.write(g.groups)
}

func (g *guard) remove(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups = slices.DeleteFunc(g.groups, func(one group) bool { return one.pid == pid })
	g.sayLocked("- %d\n", pid)
	g.book.write(g.groups)
}

// sayLocked writes one line to the watcher. If the watcher does not read, awaitEnd replaces it.
func (g *guard) sayLocked(format string, args ...any) {
	w := g.watcher
	if w == nil {
		return
	}
	_ = w.pipe.SetWriteDeadline(time.Now().Add(pipeTime)) // our pipes support deadlines
	if _, err := fmt.Fprintf(w.pipe, format, args...); err != nil {
		_ = w.cmd.Process.Kill() // it has usually ended already
	}
}

// startLocked starts a watcher and sends it the current groups.
func (g *guard) startLocked() {
	w, err := newWatcher(g.self, g.book.path())
	if err != nil {
		return
	}
	g.watcher = w
	for _, one := range g.groups {
		g.sayLocked("+ %d %d\n", one.pid, one.start)
	}
	go g.awaitEnd(w)
}

// awaitEnd waits for a watcher to end, and replaces it if there are still children.
func (g *guard) awaitEnd(w *watcher) {
	defer close(w.done)
	_ = w.cmd.Wait() // the exit status does not matter
	_ = w.pipe.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watcher != w {
		return // it was no longer needed
	}
	g.watcher = nil
	if g.flops++; time.Since(w.since) > time.Second {
		g.flops = 0
	}
	if g.flops < maxFlops {
		g.startLocked()
	}
}

// newWatcher starts a watcher in its own session, so that signals of a terminal or for our group do
// not end it. It inherits no file of ours except the reading end of its pipe.
func newWatcher(self []string, book string) (*watcher, error) {
	r, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", watchScript, "parley-watcher"}}
	if self != nil {
		if cmd.Path, err = ownPath(); err == nil {
			cmd.Args = append(append(os.Args[:1:1], self...), book)
		}
	}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=1"}
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = pipe.Close() // err is returned
		return nil, err
	}
	return &watcher{cmd: cmd, pipe: pipe, since: time.Now(), done: make(chan struct{})}, nil
}
