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
)

// drainTime is how long a child's output may be held open by others after its end.
const drainTime = 5 * time.Second

// maxStderr is how long a recorded line of stderr may be.
const maxStderr = 8 << 10

// A Child is a server on stdio between a host and us.
type Child struct {
	Argv []string
	Dir  string   // where it runs; "" is our own folder
	Env  []string // nil: ours

	Stdin  io.Reader // what the host sends
	Stdout io.Writer // what the host reads
	Stderr io.Writer // where the child's stderr goes; nil: it is only recorded

	Framing Framing
	Record  *capture.Recorder
	Title   string // of the wire

	// Signals are passed on to the child. Closing it is not needed.
	Signals <-chan os.Signal
}

// Run starts the child and passes bytes on until it has ended and all it wrote is passed on. The end of Stdin closes the
// child's stdin, and nothing else. The code is the child's exit code; a child that a signal ended has 128 and the signal's number, as in shells.
// An error means that it could not be started. When ctx ends the child is killed.
//
// A Read of Stdin may still wait when Run returns, since not every reader can be interrupted.
func (c *Child) Run(ctx context.Context) (code int, err error) {
	if len(c.Argv) == 0 {
		return 0, errors.New("tap: no command")
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
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
	// It stays in our process group: what the host does to the group it does to the child, too.
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("tap: %w", err)
	}
	ends.closeTheirs()
	w := c.Record.Wire(capture.WireInfo{Target: strings.Join(c.Argv, " "), Carrier: "stdio", Title: c.Title})

	var words, logs turn // what is said, and stderr
	go func() {          // it may wait in Stdin for ever
		_ = pass(in, c.Stdin, newReader(c.Framing, wireSink{w, capture.Out}), &words) // a child that reads no more ends by itself
		_ = in.Close()                                                                // half a close: the child may still answer
	}()
	var outputs sync.WaitGroup
	outputs.Go(func() {
		if err := pass(c.Stdout, out, newReader(c.Framing, wireSink{w, capture.In}), &words); err != nil {
			_ = out.Close() // the host is gone: the child learns it as without us
		}
	})
	outputs.Go(func() {
		to := c.Stderr
		if to == nil {
			to = io.Discard
		}
		_ = pass(to, log, &stderrLines{w: w}, &logs) // nobody reads it: the child goes on
		_, _ = io.Copy(io.Discard, log)
	})
	ended := make(chan struct{})
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case s := <-c.Signals:
				_ = cmd.Process.Signal(s) // it may have ended already
			case <-ended:
				return
			}
		}
	})
	failure := cmd.Wait()
	close(ended)
	signals.Wait()
	late := time.AfterFunc(drainTime, func() { _, _ = out.Close(), log.Close() })
	outputs.Wait()
	late.Stop()

	code = cmd.ProcessState.ExitCode()
	if code < 0 {
		code = bySignal(cmd.ProcessState)
	}
	if code != 0 {
		w.Close(failure)
	} else {
		w.Close(nil)
	}
	return code, nil
}

// pipes are the ends of a child's standard files: exec's own copy where a Writer is no file, and then wait for it.
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
		_ = f.Close() // all was passed on
	}
}

// stderrLines records each line of stderr.
type stderrLines struct {
	w    *capture.Wire
	line []byte
}

func (s *stderrLines) take(p []byte) {
	for line := range bytes.Lines(p) {
		room := max(0, maxStderr-len(s.line))
		whole := line[len(line)-1] == '\n'
		s.line = append(s.line, line[:min(room, len(line))]...)
		if whole {
			s.end()
		}
	}
}

func (s *stderrLines) end() {
	if line := bytes.TrimRight(s.line, "\r\n"); len(line) > 0 {
		s.w.Stderr(line)
	}
	s.line = s.line[:0]
}
