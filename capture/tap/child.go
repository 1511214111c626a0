package tap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/proc"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// drainTime is how long other processes may hold a child's output open after it has exited.
const drainTime = 5 * time.Second

// maxStderr is the maximum length of a recorded stderr line.
const maxStderr = 8 << 10

// A Child is a server on stdio that runs between a host and this process.
type Child struct {
	Argv []string
	Dir  string   // the working directory; if "", ours
	Env  []string // if nil, ours

	Stdin  io.Reader // input from the host
	Stdout io.Writer // output to the host
	Stderr io.Writer // receives the child's stderr; if nil, it is only recorded

	Framing Framing
	Record  *capture.Recorder
	Title   string // title of the wire

	// Signals are forwarded to the child. The channel need not be closed.
	Signals <-chan os.Signal

	// Terminal forwards os.Interrupt to everything that the child has started, as a terminal does.
	// The child has its own process group, which signals of a terminal do not reach.
	Terminal bool
}

// Run starts the child and forwards bytes until the child has exited and all its output is
// forwarded. The end of Stdin closes the child's stdin, and nothing else. code is the child's exit
// code; for a child that was terminated by a signal it is 128 plus the signal's number, as in
// shells. An error means that the child could not be started. When ctx ends, the child and its
// process group are killed.
//
// Processes that the child leaves in its group continue to run, as without a tap, unless a signal
// was forwarded. If this process dies, a watcher terminates the group within 5 s (Unix); on
// Windows, a job does.
//
// A Read of Stdin may still be blocked when Run returns, because not every reader can be
// interrupted.
func (c *Child) Run(ctx context.Context) (code int, err error) {
	if len(c.Argv) == 0 {
		return 0, errors.New("tap: no command")
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...) //nolint:noctx // ended with its group below
	cmd.Dir, cmd.Env = c.Dir, c.Env
	var ends pipes
	defer ends.close()
	in, err := ends.towards(&cmd.Stdin)
	if err != nil {
		return 0, err
	}
	out, err := ends.from(&cmd.Stdout)
	if err != nil {
		return 0, err
	}
	log, err := ends.from(&cmd.Stderr)
	if err != nil {
		return 0, err
	}
	child, err := proc.Start(cmd, proc.Options{Core: true, KeepRest: true})
	if err != nil {
		return 0, fmt.Errorf("tap: %w", err)
	}
	ends.closeTheirs()
	w := c.Record.Wire(capture.WireInfo{Target: strings.Join(c.Argv, " "), Carrier: "stdio", Title: c.Title})

	var words, logs turn // of the messages, and of stderr
	go func() {          // may block in Stdin indefinitely
		defer rescue.Catch(nil, func(error) { _ = in.Close() }) // of Stdin
		// A child that stops reading exits by itself.
		_ = pass(in, c.Stdin, newReader(c.Framing, wireSink{w, capture.Out}), &words)
		// This is a half-close: the child may still respond.
		_ = in.Close()
	}()
	var outputs sync.WaitGroup
	outputs.Go(func() {
		defer rescue.Catch(nil, func(error) { _ = out.Close() }) // of Stdout
		if err := pass(c.Stdout, out, newReader(c.Framing, wireSink{w, capture.In}), &words); err != nil {
			_ = out.Close() // the host is gone: the child detects it as without a tap
		}
	})
	outputs.Go(func() {
		defer rescue.Catch(nil, func(error) { _ = log.Close() }) // of Stderr
		to := c.Stderr
		if to == nil {
			to = io.Discard
		}
		// If the writer fails, the child must not block.
		_ = pass(to, log, &stderrLines{w: w}, &logs)
		_, _ = io.Copy(io.Discard, log)
	})
	ended := make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		over := ctx.Done()
		for {
			select {
			case s := <-c.Signals:
				// The child may have exited already.
				_ = child.Pass(s, s == os.Interrupt && c.Terminal)
			case <-over:
				_ = child.Kill() // likewise
				over = nil
			case <-ended:
				return
			}
		}
	})
	failure := child.Wait()
	close(ended)
	signals.Wait()
	late := time.AfterFunc(drainTime, func() { _, _ = out.Close(), log.Close() })
	awaitOutputs(ctx, &outputs)
	late.Stop()

	code = child.Code()
	if code < 0 {
		code = bySignal(child.State())
	}
	if code != 0 {
		w.Close(failure)
	} else {
		w.Close(nil)
	}
	return code, nil
}

// pipes are our ends and the child's ends of its standard files. With a Writer that is not a file,
// package exec would copy the data itself and wait for it.
type pipes struct{ ours, theirs []*os.File }

func (p *pipes) towards(to *io.Reader) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*to = r
	p.ours, p.theirs = append(p.ours, w), append(p.theirs, r)
	return w, nil
}

func (p *pipes) from(to *io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*to = w
	p.ours, p.theirs = append(p.ours, r), append(p.theirs, w)
	return r, nil
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close() // the child has its own
	}
	p.theirs = nil
}

func (p *pipes) close() {
	p.closeTheirs()
	for _, f := range p.ours {
		_ = f.Close() // everything was forwarded
	}
}

// stderrLines records each line of stderr.
type stderrLines struct {
	w    *capture.Wire
	line []byte
}

func (s *stderrLines) feed(p []byte) {
	for line := range bytes.Lines(p) {
		room := max(0, maxStderr-len(s.line))
		whole := line[len(line)-1] == '\n'
		s.line = append(s.line, line[:min(room, len(line))]...)
		if whole {
			s.endInput()
		}
	}
}

func (s *stderrLines) endInput() {
	if line := bytes.TrimRight(s.line, "\r\n"); len(line) > 0 {
		s.w.Stderr(line)
	}
	s.line = s.line[:0]
}

// awaitOutputs waits until the output of a child was passed on. Like any program in a pipe it waits
// for its reader, but for 5 s at most once ctx has ended.
func awaitOutputs(ctx context.Context, outputs *sync.WaitGroup) {
	passed := make(chan struct{})
	go func() {
		outputs.Wait()
		close(passed)
	}()
	stuck, release := grace.After(ctx, grace.Time)
	defer release()
	select {
	case <-passed:
	case <-stuck:
	}
}
