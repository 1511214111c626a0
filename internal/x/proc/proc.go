// Package proc starts child processes and ensures that they and their descendants end.
//
// A child gets its own process group. While children run, an additional process watches this one:
// if this process dies without a chance to clean up, the watcher ends the groups of its children
// within 5 s (Unix). It is not the parent of the children. On Linux a child also gets SIGKILL when
// this process dies, and on Windows it is in a job that ends with this process. A process that
// leaves its group (setsid, setpgid) is out of reach.
//
// By default the watcher is a short script for /bin/sh, because a package must not start its
// program a second time. A program that calls [UseSelf] is its own watcher. A program that calls
// [Keep] also records its children, so that [CleanUp] can end them if the watcher was killed as
// well.
package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// A Process is a running child. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	job  job
	done chan struct{}
	err  error // result of Wait; final when done is closed

	// Guards reaped and keep, and ensures that the child's PID is not reused while it is signalled.
	mu     sync.Mutex
	reaped bool
	keep   bool // do not kill the remaining processes of the child's group
}

// Options configure Start. The zero value is ready for use.
type Options struct {
	// RLIMIT_NOFILE of the child, where the system supports it (Linux); 0 means our own limit.
	Files uint64
	Core  bool // whether the child may write core dumps (Linux)

	// KeepRest spares the remaining processes of the child's group if the child ends by itself:
	// without a call of Terminate, Kill or Pass.
	KeepRest bool
}

// Start starts cmd, whose files must be *os.File or nil. The thread that starts the child waits for
// it, and therefore lives as long as the child: on Linux the death signal of a child is bound to
// the thread that started it.
func Start(cmd *exec.Cmd, o Options) (*Process, error) {
	p := &Process{cmd: cmd, keep: o.KeepRest, done: make(chan struct{})}
	prepare(cmd)
	start := watched.hold(cmd)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		if err == nil {
			watched.add(cmd.Process.Pid, start)
			p.job.take(cmd.Process)
		}
		started <- err
		if err != nil {
			watched.failed(start)
			watched.release()
			return
		}
		p.wait()
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	if err := limit(cmd.Process.Pid, o); err != nil {
		_ = p.Kill()
		<-p.done
		return nil, fmt.Errorf("limit the child: %w", err)
	}
	return p, nil
}

// wait returns when the child has ended and the rest of its group was killed.
func (p *Process) wait() {
	pid := p.cmd.Process.Pid
	exact := awaitExit(pid)
	if !exact {
		p.err = p.cmd.Wait()
	}
	p.mu.Lock()
	if !p.keep {
		p.job.kill()
		killRest(pid) // the group is usually empty
	}
	watched.remove(pid) // before the PID can be reused
	if exact {
		p.err = p.cmd.Wait() // returns at once, and releases the PID
	}
	p.reaped = true
	p.mu.Unlock()
	p.job.close()
	watched.release()
}

// Done returns a channel that is closed when the child has ended and was waited for, and everything
// else in its group was killed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the child. It returns nil for exit code 0, else usually an
// *exec.ExitError.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Code returns the exit code of a child that has ended, or -1 if a signal ended it.
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// State describes how a child that has ended did so.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Signal returns the name of the signal that ended the child, such as "killed", or "". The child
// must have ended.
func (p *Process) Signal() string { return signalOf(p.cmd.ProcessState) }

// PID returns the process ID of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Terminate sends SIGTERM to the child and its group. Windows has no such signal.
func (p *Process) Terminate() error {
	return p.unlessDone(func(c *os.Process) error { return terminateGroup(c) })
}

// Kill kills the child and its group.
func (p *Process) Kill() error {
	return p.unlessDone(func(c *os.Process) error {
		p.job.kill()
		return killGroup(c)
	})
}

// Pass sends s to the child, and if group is true to its whole group.
func (p *Process) Pass(s os.Signal, group bool) error {
	return p.unlessDone(func(c *os.Process) error {
		if group {
			return passToGroup(c, s)
		}
		return c.Signal(s)
	})
}

// unlessDone calls f unless the child has ended, when its PID may belong to another process.
func (p *Process) unlessDone(f func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	p.keep = false // the caller requested its end
	return f(p.cmd.Process)
}
