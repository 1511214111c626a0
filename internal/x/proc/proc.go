// Package proc holds on to a child process and to all that it starts.
//
// A child gets a process group of its own, and on Linux a signal when we die. Both are lost on Windows, where a child is
// ended alone and may outlive us.
package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// A Process runs. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; settled when done is closed

	mu     sync.Mutex // guards reaped, and that the child's number is still its own while it is signalled
	reaped bool
}

// Limits bound what a child may take, where the system can do that to another process (Linux).
type Limits struct {
	Files uint64 // RLIMIT_NOFILE; 0: as ours
	Core  bool   // whether it may write core dumps
}

// Start starts cmd, whose files must be *os.File or nil. The thread that it is started from waits for it, and lives
// therefore as long as the child: on Linux the signal of our death is that of this thread.
func Start(cmd *exec.Cmd, l Limits) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	prepare(cmd)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.wait()
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	if err := limit(cmd.Process.Pid, l); err != nil {
		_ = p.Kill()
		<-p.done
		return nil, fmt.Errorf("limit the child: %w", err)
	}
	return p, nil
}

// wait returns when the child has ended, and its group was told to.
func (p *Process) wait() {
	pid := p.cmd.Process.Pid
	exact := awaitExit(pid)
	if !exact {
		p.err = p.cmd.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	killRest(pid) // usually there is nobody
	if exact {
		p.err = p.cmd.Wait() // returns at once, and gives the number back
	}
	p.reaped = true
}

// Done is closed when the child has ended and was waited for, and everything else in its group was killed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the child. It returns nil for code 0, else mostly an *exec.ExitError.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Code is the exit code, and Signal what ended the child instead, once it is done. One of both says nothing: -1 and "".
func (p *Process) Code() int { return p.cmd.ProcessState.ExitCode() }

// Signal is the name of the signal that ended the child, such as "killed".
func (p *Process) Signal() string { return signalOf(p.cmd.ProcessState) }

// PID is the number of the child.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Terminate asks the child and its group to end.
func (p *Process) Terminate() error { return p.unlessDone(terminateGroup) }

// Kill ends them.
func (p *Process) Kill() error { return p.unlessDone(killGroup) }

// unlessDone spares whoever has the number of the child now.
func (p *Process) unlessDone(f func(*os.Process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	return f(p.cmd.Process)
}
