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

	"github.com/da1ed7bb/parley/internal/x/proc"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A Child is a program that is spoken to on its stdin and stdout. It is a [jsonrpc.Transport].
type Child struct {
	t       *stream.Transport
	process *proc.Process
	journal *journal

	stdin, stdout, stderr *os.File // our ends
	patience              Patience

	exited chan struct{} // closed when the child has ended and its stderr was read
	ended  chan struct{} // closed when nothing runs any more that Start started
	exit   *ExitError    // nil for code 0; settled when exited is closed

	closing chan struct{} // closed by Close
	over    atomic.Bool   // the end of stdout was read
	unread  chan struct{} // closed with over
	reading sync.Mutex    // held by Read, so that Close can wait until it has left
	close   sync.Once
	err     error // of Close; guarded by close
}

// An ExitError is how a child ended that did not end well. A Read returns it, wrapped, when the child is gone, so that
// every call in flight fails with it.
type ExitError struct {
	Code       int    // the exit code; -1 if a signal ended the child
	Signal     string // the name of that signal, such as "killed"; "" if there was none
	LastStderr string // the last kilobyte that the child wrote to its stderr, control characters escaped
}

// Error says how the child ended. Its last words may be private, and are left out.
func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "the program was ended by a signal: " + e.Signal
	}
	return "the program exited with code " + strconv.Itoa(e.Code)
}

// Bounds of what a child may hold on to, and of how long we do.
const (
	defaultFiles = 4096
	lastWords    = 1 << 10         // bytes of stderr in an ExitError
	drainTime    = 2 * time.Second // for output behind the end of the child, which only others can still write
	exitTime     = time.Second     // for a child that has closed its stdout to exit
)

// Start runs argv, whose first word is looked for in our PATH, and speaks with it. There is no shell. The end of ctx has no
// effect once Start has returned.
//
// The child gets a process group of its own, and on Linux the signal KILL if this process dies. What it left in its group
// is killed when it ends. Whoever starts a child closes it, or it is never waited for to the end.
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
	if err := c.start(argv, o); err != nil {
		return nil, fmt.Errorf("stdio: start %s: %w", argv[0], err)
	}
	c.t = stream.New(stream.Join(c.stdout, c.stdin, c.hangUp), o.Framing, o.stream())
	go c.watch()
	return c, nil
}

// start makes the pipes and the process. It closes what it opened if that fails.
func (c *Child) start(argv []string, o *Options) (err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil { // Dir would be taken into account otherwise
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
				_ = f.Close() // the child has its own by now, or there is none
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
	c.process, err = proc.Start(cmd, proc.Limits{Files: files})
	return err
}

// watch waits for everything that runs because of the child, and settles how it ended.
func (c *Child) watch() {
	defer close(c.ended)
	var wg sync.WaitGroup
	if c.journal.tell != nil {
		wg.Go(c.journal.run)
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
	c.journal.close()
	if err := c.process.Wait(); err != nil {
		c.exit = &ExitError{
			Code:       c.process.Code(),
			Signal:     c.process.Signal(),
			LastStderr: escapeText(c.journal.last(lastWords)),
		}
	}
	close(c.exited)
	closeAfter(drained, c.stdout, c.unread)
	_ = c.stdin.Close() // nobody reads it, and Close may have been first
	wg.Wait()
}

// closeAfter closes f when it was read to its end, or when that takes too long because somebody else holds it open.
func closeAfter(drained context.Context, f *os.File, read <-chan struct{}) {
	select {
	case <-read:
	case <-drained.Done():
	}
	_ = f.Close() // reading it is over either way
}

// PID is the process id of the child, which is also that of its group.
func (c *Child) PID() int { return c.process.PID() }

// Exited is closed when the child has ended, by itself or not.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Wait waits for the end of the child and returns how it ended: nil for exit code 0, else an *[ExitError].
func (c *Child) Wait() error {
	<-c.exited
	return c.failure()
}

// failure is exit as an error. The child has ended.
func (c *Child) failure() error {
	if c.exit == nil {
		return nil
	}
	return c.exit
}

// Stderr returns what the child wrote to its stderr last, at most 256 KiB, as it came.
func (c *Child) Stderr() []byte { return c.journal.last(keptStderr) }

// Read returns the next payload. After a child that ended badly it returns an error that wraps an *[ExitError]; after
// one that exited with code 0, io.EOF.
func (c *Child) Read() (payload []byte, more bool, err error) {
	c.reading.Lock() // never waited for by another Read: there is one reader
	defer c.reading.Unlock()
	if c.isClosing() {
		return nil, false, fmt.Errorf("stdio: read: %w", jsonrpc.ErrClosed)
	}
	payload, more, err = c.t.Read()
	if err == nil {
		return payload, more, nil
	}
	if f, ok := errors.AsType[*jsonrpc.FrameError](err); ok && (!f.Final || f.Answer != nil) {
		return nil, false, err // the child is there and is told
	}
	if !c.over.Swap(true) {
		close(c.unread)
	}
	return nil, false, c.why(err)
}

// TryWrite sends a burst to the child as far as its pipe has room.
func (c *Child) TryWrite(b jsonrpc.Burst) bool { return c.t.TryWrite(b) }

// Write sends a burst to the child.
func (c *Child) Write(b jsonrpc.Burst) error {
	err := c.t.Write(b)
	if err == nil {
		return nil
	}
	return c.why(err)
}

// why says what stands behind the end of a pipe: our Close, or how the child ended.
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

// hangUp ends our side of the pipes, and a Read that waits. The child may go on writing for a while.
func (c *Child) hangUp() error {
	err := c.stdin.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil // the child was first
	}
	if c.stdout.SetReadDeadline(time.Unix(1, 0)) != nil {
		_ = c.stdout.Close() // has no deadlines: what the child still writes is lost
	}
	return err
}

// Close ends the child and waits for it: its stdin ends, then its group gets SIGTERM, then SIGKILL, each after the time
// of [Options.Patience]. A Read or Write that waits returns at once. What the child writes meanwhile is dropped. Close
// returns an error only if the child lives on; how it ended is for [Child.Wait].
func (c *Child) Close() error {
	c.close.Do(func() {
		close(c.closing)
		_ = c.t.Close() // it may be closed already, and its pipes are by then

		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(c.drain)
		if c.err = c.stop(); c.err != nil {
			_ = c.stdout.Close() // lets drain go
			return
		}
		<-c.ended
	})
	return c.err
}

// drain reads what nobody wants any more, so that a child that writes can end.
func (c *Child) drain() {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.stdout.SetReadDeadline(time.Time{}) == nil {
		_, _ = io.Copy(io.Discard, c.stdout) // ends with the child, or when watch closes it
	}
	if !c.over.Swap(true) {
		close(c.unread)
	}
}

// stop goes down the ladder.
func (c *Child) stop() error {
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
	return fmt.Errorf("stdio: process %d lives on after SIGKILL", c.PID())
}

// within reports whether done is closed in time.
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
