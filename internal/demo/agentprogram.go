package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/proc"
)

// Bounds of a program that runs as an agent.
const (
	programTime   = 10 * time.Minute
	programOutput = 1 << 20 // maximum bytes of output
	programStderr = 8 << 10 // bytes of stderr that are retained, the last ones
	programsAtOne = 16      // per agent, concurrently
	programPolite = 2 * time.Second
)

// Program returns an agent that runs a program: the text of a request is its stdin, its stdout is
// streamed as the response, and an exit code other than 0 is a failure. Cancellation ends the
// program and all processes it has started. It runs with the privileges of the demo, without a
// shell, for at most 10 min and with at most 1 MiB of output. Up to 16 run concurrently, and
// further requests wait.
func Program(name, version string, argv []string, report func(what string, err error)) *agent.Agent {
	p := &program{argv: argv, room: make(chan struct{}, programsAtOne), report: report}
	return &agent.Agent{Card: agent.Card{
		Name: name, Version: version, Description: "The program " + argv[0] + ": it reads the prompt on stdin and writes its answer to stdout.",
		Skills: []agent.Skill{{ID: name, Name: name, Description: "Runs " + argv[0] + ".", Tags: []string{"program"}}},
	}, Run: p.runProgram, Report: report}
}

type program struct {
	argv   []string
	room   chan struct{}
	report func(what string, err error)
}

var (
	errLongProgram  = errors.New("the program took too long")
	errMuchToSay    = errors.New("the output of the program is too long")
	errProgramStart = errors.New("cannot start the program")
)

func (p *program) runProgram(ctx context.Context, r *agent.Run) error {
	select {
	case p.room <- struct{}{}:
		defer func() { <-p.room }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, programTime, errLongProgram)
	defer cancel()
	run, err := p.startProgram()
	if err != nil {
		return fmt.Errorf("%w: %w", errProgramStart, err)
	}
	unhook := context.AfterFunc(ctx, run.endProgram)
	defer unhook()
	var side sync.WaitGroup
	side.Go(func() { run.feedInput(r.Text()) })
	side.Go(run.listen)
	side.Go(func() { // processes that left the group may hold our pipes open
		<-run.process.Done()
		late := time.Now().Add(programPolite)
		// Closed pipes need no deadline.
		_, _ = run.stdout.SetReadDeadline(late), run.errors.SetReadDeadline(late)
	})
	said := run.relay(ctx, r)
	if said != nil {
		run.endProgram()
	}
	ended := run.process.Wait()
	_ = run.stdin.Close() // otherwise feed would wait for a reader that is gone
	side.Wait()
	return p.outcome(ctx, run, said, ended)
}

// outcome returns the error of the run, by priority of the possible causes.
func (p *program) outcome(ctx context.Context, run *running, said, ended error) error {
	if text := run.stderr.String(); text != "" {
		p.report(reportStderr, fmt.Errorf("%s: %s", p.argv[0], text))
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLongProgram):
		return agent.Errorf("The program did not end within %s.", programTime)
	case cause != nil:
		return cause
	case errors.Is(said, errMuchToSay):
		return agent.Errorf("The program wrote more than %d bytes.", programOutput)
	case said != nil:
		return said
	case ended == nil:
		return nil
	case run.process.Signal() != "":
		return agent.Errorf("The program was ended by a signal: %s.", run.process.Signal())
	}
	return agent.Errorf("The program ended with exit code %d.", run.process.Code())
}

// A running is one process with our ends of its pipes.
type running struct {
	process *proc.Process
	stdin   *os.File
	stdout  *os.File
	errors  *os.File
	stderr  tail
	once    sync.Once
}

func (p *program) startProgram() (_ *running, err error) {
	run := &running{}
	var theirs, ours []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	in, stdin := pipe()
	stdout, out := pipe()
	stderr, bad := pipe()
	theirs, ours = []*os.File{in, out, bad}, []*os.File{stdin, stdout, stderr}
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own copy; closing a missing file fails harmlessly
		}
		if err != nil {
			for _, f := range ours {
				_ = f.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	run.stdin, run.stdout, run.errors = stdin, stdout, stderr
	cmd := exec.Command(p.argv[0], p.argv[1:]...) //nolint:noctx // ended by its group, with what it has started
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, bad
	run.process, err = proc.Start(cmd, proc.Options{})
	return run, err
}

// endProgram terminates the process and its children, and kills them if they do not end.
func (run *running) endProgram() {
	run.once.Do(func() {
		_ = run.process.Terminate() // it may have ended
		go func() {
			late := time.NewTimer(programPolite)
			defer late.Stop()
			select {
			case <-run.process.Done():
			case <-late.C:
				_ = run.process.Kill() // likewise
			}
		}()
	})
}

// feedInput writes the program's input. The program does not have to read it.
func (run *running) feedInput(text string) {
	_, _ = io.WriteString(run.stdin, text)
	_ = run.stdin.Close()
}

// listen retains the end of the program's stderr.
func (run *running) listen() {
	_, _ = io.Copy(&run.stderr, run.errors)
	_ = run.errors.Close()
}

// relay sends the program's output to r until it ends. It does not split characters, and replaces
// invalid UTF-8.
func (run *running) relay(ctx context.Context, r *agent.Run) error {
	defer run.stdout.Close()
	var held []byte // the beginning of a character
	buf := make([]byte, 16<<10)
	total := 0
	for {
		n, err := run.stdout.Read(buf)
		if total += n; total > programOutput {
			return errMuchToSay
		}
		text := append(held, buf[:n]...)
		whole := len(text)
		if err == nil {
			whole = wholeLetters(text)
		}
		if whole > 0 {
			if e := r.Say(ctx, strings.ToValidUTF8(string(text[:whole]), "\uFFFD")); e != nil {
				return e
			}
		}
		held = append([]byte(nil), text[whole:]...)
		if err != nil {
			return nil // the exit of the program reports it
		}
	}
}

// wholeLetters returns the length of text without an incomplete character at its end.
func wholeLetters(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if i := len(text) - back; utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// A tail retains the last bytes written to it.
type tail struct{ last []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.last = append(t.last, b...)
	if extra := len(t.last) - programStderr; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(t.last), "\uFFFD"))
}
