package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/proc"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A Child is a program that uses its stdin and stdout as a transport. It is a [jsonrpc.Transport].
type Child struct {
	t       *stream.Transport
	process *proc.Process
	journal *journal

	stdin, stdout, stderr *os.File // this process's ends
	patience              Patience

	exited chan struct{} // closed when the child has ended and its stderr was read
	ended  chan struct{} // closed when everything that Start started has ended
	exit   *ExitError    // nil for code 0; valid after exited is closed

	closing chan struct{} // closed by Close
	over    atomic.Bool   // the end of stdout was read
	unread  chan struct{} // closed with over
	reading sync.Mutex    // held by Read, so that Close can wait until it has returned
	close   sync.Once
	err     error // of Close; guarded by close
}

// An ExitError reports how a child ended if it did not end with code 0. After the end of the child,
// Read returns it, wrapped, so that every call in flight fails with it.
type ExitError struct {
	Code   int    // the exit code; -1 if a signal ended the child
	Signal string // the name of that signal, such as "killed"; "" if there was none
	// LastStderr is the last kilobyte that the child wrote to its stderr, control characters
	// escaped.
	LastStderr string
}

// Error returns how the child ended. It omits LastStderr, which may be private.
func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "the program was ended by a signal: " + e.Signal
	}
	return "the program exited with code " + strconv.Itoa(e.Code)
}

// Bounds of what a child may hold, and of the waits for it.
const (
	defaultFiles = 4096
	lastStderr   = 1 << 10 // bytes of stderr in an ExitError
	// for output after the end of the child, which only other processes can still write
	drainTime  = 2 * time.Second
	lastOutput = 16 << 20    // bytes that a child may write after Close
	exitTime   = time.Second // for a child that has closed its stdout to exit
)

// Start runs argv, whose first word is looked up in this process's PATH, and connects to its stdin
// and stdout. There is no shell. The end of ctx has no effect once Start has returned.
//
// The child gets its own process group. What it leaves in its group is killed when it ends. If this
// process dies without Close, even by SIGKILL, the group is ended within 5 s: on Unix by a watcher,
// which is a process that runs /bin/sh while there are children; on Windows by a job object. On
// Linux the child itself gets SIGKILL at once. A process that leaves its group is not reached.
// Every child must be closed; otherwise the wait for its end may never complete.
func Start(ctx context.Context, argv []string, o *Options) (*Child, error) {
	if o == nil {
		o = &Options{}
	}
	if len(argv) == 0 {
		return nil, errors.New("stdio: no command")
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stdio: start %s: %w", argv[0], context.Cause(ctx))
	}
	c := &Child{
		journal:  newJournal(o.Stderr),
		patience: o.Patience.orDefault(),
		exited:   make(chan struct{}),
		ended:    make(chan struct{}),
		closing:  make(chan struct{}),
		unread:   make(chan struct{}),
	}
	if err := c.startProcess(argv, o); err != nil {
		return nil, fmt.Errorf("stdio: start %s: %w", argv[0], err)
	}
	c.t = stream.New(stream.Join(c.stdout, c.stdin, c.hangUp), o.Framing, o.ofChild())
	go c.watch()
	return c, nil
}

// startProcess creates the pipes and the process. It closes what it opened if that fails.
func (c *Child) startProcess(argv []string, o *Options) (err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil { // the path would otherwise be relative to Dir
		return err
	}
	var opened []*os.File
	pipe := func() (r, w *os.File) {
		if err != nil {
			return nil, nil
		}
		if r, w, err = os.Pipe(); err == nil {
			opened = append(opened, r, w)
		}
		return r, w
	}
	defer func() {
		for _, f := range opened {
			if err != nil || f != c.stdin && f != c.stdout && f != c.stderr {
				_ = f.Close() // the child has its own copy by now, or does not exist
			}
		}
	}()
	cmd := &exec.Cmd{Path: path, Args: argv, Env: o.Env, Dir: o.Dir}
	var in, out, errs *os.File
	in, c.stdin = pipe()
	c.stdout, out = pipe()
	c.stderr, errs = pipe()
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs

	files := uint64(defaultFiles)
	if o.MaxFiles != 0 {
		files = uint64(max(o.MaxFiles, 0))
	}
	c.process, err = proc.Start(cmd, proc.Options{Files: files})
	return err
}

// watch waits for everything that runs because of the child, and stores how it ended.
func (c *Child) watch() {
	defer close(c.ended)
	var wg sync.WaitGroup
	if c.journal.tell != nil {
		wg.Go(c.journal.runJournal)
	}
	heard := make(chan struct{})
	wg.Go(func() {
		defer close(heard)
		_, _ = io.Copy(c.journal, c.stderr) // ends with the child, or by the Close below
	})

	<-c.process.Done()
	drained, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	closeAfter(drained, c.stderr, heard)
	c.journal.closeJournal()
	if err := c.process.Wait(); err != nil {
		c.exit = &ExitError{
			Code:       c.process.Code(),
			Signal:     c.process.Signal(),
			LastStderr: harmless.Text(string(c.journal.last(lastStderr))),
		}
	}
	close(c.exited)
	closeAfter(drained, c.stdout, c.unread)
	_ = c.stdin.Close() // it is no longer used, and Close may have closed it
	wg.Wait()
}

// closeAfter closes f when it was read to its end, or when that takes too long because another
// process holds it open.
func closeAfter(drained context.Context, f *os.File, read <-chan struct{}) {
	select {
	case <-read:
	case <-drained.Done():
	}
	_ = f.Close() // reading has ended in either case
}

// PID returns the process ID of the child, which is also the ID of its group.
func (c *Child) PID() int { return c.process.PID() }

// Exited returns a channel that is closed when the child has ended, for any reason.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Wait waits for the end of the child and returns how it ended: nil for exit code 0, otherwise an
// *[ExitError].
func (c *Child) Wait() error {
	<-c.exited
	return c.failure()
}

// failure returns exit as an error. The child has ended.
func (c *Child) failure() error {
	if c.exit == nil {
		return nil
	}
	return c.exit
}

// Stderr returns what the child wrote to its stderr last, at most 256 KiB, unchanged.
func (c *Child) Stderr() []byte { return c.journal.last(keptStderr) }

// Read returns the next payload. After a child that ended with an error it returns an error that
// wraps an *[ExitError]; after one that exited with code 0, io.EOF.
func (c *Child) Read() (payload []byte, more bool, err error) {
	if !c.reading.TryLock() { // there is one reader, so Close holds it, until the child has ended
		return nil, false, fmt.Errorf("stdio: read: %w", jsonrpc.ErrClosed)
	}
	defer c.reading.Unlock()
	if c.isClosing() {
		return nil, false, fmt.Errorf("stdio: read: %w", jsonrpc.ErrClosed)
	}
	payload, more, err = c.t.Read()
	if err == nil {
		return payload, more, nil
	}
	if f, ok := errors.AsType[*jsonrpc.FrameError](err); ok && (!f.Final || f.Answer != nil || errors.Is(err, jsonrpc.ErrGarbage)) {
		return nil, false, err // the child still runs; a response is sent if the error permits it
	}
	if !c.over.Swap(true) {
		close(c.unread)
	}
	return nil, false, c.why(err)
}

// TryWrite sends a burst to the child as far as its pipe has room.
func (c *Child) TryWrite(b jsonrpc.Burst) bool { return c.t.TryWrite(b) }

// WrittenBytes implements [jsonrpc.WriteCounter].
func (c *Child) WrittenBytes() uint64 { return c.t.WrittenBytes() }

// Write sends a burst to the child. If the child has closed its stdin, it returns when the last of
// its stdout was read, or after a second: a program that exits at once may have printed why.
func (c *Child) Write(b jsonrpc.Burst) error {
	err := c.t.Write(b)
	if err == nil {
		return nil
	}
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-c.unread:
	case <-c.closing:
	case <-timer.C:
	}
	return c.why(err)
}

// why returns the reason for the end of a pipe: Close of this side, or how the child ended.
func (c *Child) why(err error) error {
	if c.isClosing() {
		return fmt.Errorf("stdio: %w", jsonrpc.ErrClosed)
	}
	timer := time.NewTimer(exitTime)
	defer timer.Stop()
	select {
	case <-c.exited: // usually at once: a process closes its pipes when it ends
	case <-c.closing:
		return fmt.Errorf("stdio: %w", jsonrpc.ErrClosed)
	case <-timer.C:
		return err
	}
	if exit := c.failure(); exit != nil {
		return fmt.Errorf("stdio: %w", exit)
	}
	return err
}

func (c *Child) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// hangUp ends this side of the pipes, and a waiting Read: at once by Close, otherwise after a
// second. The child may continue to write for a while.
func (c *Child) hangUp() error {
	err := c.stdin.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil // the child closed first
	}
	end := time.Unix(1, 0)
	if !c.isClosing() { // a write has failed: what the child has written is still read
		end = time.Now().Add(exitTime)
	}
	if c.stdout.SetReadDeadline(end) != nil {
		_ = c.stdout.Close() // it has no deadlines: what the child still writes is lost
	}
	return err
}

// Close ends the child and waits for it: its stdin is closed, then its group gets SIGTERM, then
// SIGKILL, each after the time of [Options.Patience]. A waiting Read or Write returns at once. What
// the child writes meanwhile is dropped, up to 16 MiB; above that its stdout is closed. Close
// returns an error only if the child still runs; [Child.Wait] returns how it ended.
func (c *Child) Close() error {
	c.close.Do(func() {
		close(c.closing)
		_ = c.t.Close() // if it is closed already, its pipes are closed too

		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(c.drain)
		if c.err = c.stopProcess(); c.err != nil {
			_ = c.stdout.Close() // unblocks drain
			return
		}
		if !within(drainTime+exitTime, c.ended) {
			c.err = fmt.Errorf("stdio: process %d has ended, but Options.Stderr does not return", c.PID())
		}
	})
	return c.err
}

// drain reads and drops output, so that a child that writes can end.
func (c *Child) drain() {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.stdout.SetReadDeadline(time.Time{}) == nil {
		// ends with the child, or when watch closes it
		_, err := io.CopyN(io.Discard, c.stdout, lastOutput)
		if err == nil {
			// this child writes without end: its next write ends it, unless it ignores the error
			_ = c.stdout.Close()
		}
	}
	if !c.over.Swap(true) {
		close(c.unread)
	}
}

// stopProcess ends the child in steps: end of stdin, SIGTERM, SIGKILL.
func (c *Child) stopProcess() error {
	for _, step := range []struct {
		wait time.Duration
		next func() error
	}{
		{c.patience.Stdin, c.process.Terminate},
		{c.patience.Terminate, c.process.Kill},
		{c.patience.Kill, func() error { return nil }},
	} {
		if within(step.wait, c.process.Done()) {
			return nil
		}
		if err := step.next(); err != nil {
			return fmt.Errorf("stdio: end process %d: %w", c.PID(), err)
		}
	}
	return fmt.Errorf("stdio: process %d is still alive after SIGKILL", c.PID())
}

// within reports whether done is closed within d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
