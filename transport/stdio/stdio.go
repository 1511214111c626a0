package stdio

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/transport/stream"
)

// Options tune New and Start. The zero value is ready for use.
type Options struct {
	// Options bound messages and their time. FrameTimeout is not used: a person may type slowly, and a child that
	// stops in the middle of a message is found by the deadline of the call. On lines, MaxSkip zero means no bound.
	stream.Options

	// Framing tells payloads apart: stream.Line, the zero value, or stream.Header for language servers.
	Framing stream.Framer

	// The rest is for Start.

	// Dir is where the child runs. Empty means where we do.
	Dir string

	// Env is the whole environment of the child, as "NAME=value" each. Nil inherits ours, as under any shell: right for
	// a command that somebody typed. A command out of a file gets [CleanEnv].
	Env []string

	// Stderr is called for each line that the child writes to its stderr, without the newline, control characters
	// escaped, cut at 8 KiB. It runs on a goroutine of its own; lines that come faster than 1,000 in a second or than it
	// takes them are dropped, and a line says how many. Nil: they are only kept, see [Child.Stderr].
	Stderr func(line string)

	// Patience is how long Close waits in each of its steps.
	Patience Patience

	// MaxFiles bounds the files that the child may have open, where the system can do that (Linux). Zero means 4,096,
	// negative means no bound beyond ours.
	MaxFiles int
}

// Patience is how long a child may take to end. In each field zero means the default.
type Patience struct {
	Stdin     time.Duration // after its stdin has ended; 5 s
	Terminate time.Duration // after SIGTERM to its group; 5 s
	Kill      time.Duration // after SIGKILL to its group; 2 s
}

func (p Patience) orDefault() Patience {
	or := func(d, standard time.Duration) time.Duration {
		if d == 0 {
			return standard
		}
		return d
	}
	return Patience{or(p.Stdin, 5*time.Second), or(p.Terminate, 5*time.Second), or(p.Kill, 2*time.Second)}
}

// stream returns the options for the framing.
func (o *Options) stream() *stream.Options {
	s := o.Options
	s.FrameTimeout = -1
	if o.Framing == stream.Line && s.MaxSkip == 0 {
		s.MaxSkip = -1
	}
	return &s
}

// New makes a Transport of this program's stdin and stdout; the program must leave both alone from then on. Close ends
// it on our side, a Read that waits included. The peer sees the end when the process exits.
func New(o *Options) *stream.Transport {
	if o == nil {
		o = &Options{}
	}
	return newOwn(os.Stdin, os.Stdout, o)
}

func newOwn(stdin, stdout *os.File, o *Options) *stream.Transport {
	in, out := ownInput(stdin), ownOutput(stdout)
	both := stream.Join(in, out, func() error { return errors.Join(in.Close(), out.Close()) })
	return stream.New(both, o.Framing, o.stream())
}

// A pump reads what a Close cannot interrupt, on a goroutine that may outlive Close until some input comes. It is for
// terminals and pipes that cannot be waited for without blocking.
type pump struct {
	from io.Reader
	ask  chan int // how much to read
	got  chan input
	done chan struct{}

	start, stop sync.Once
}

type input struct {
	p   []byte
	err error
}

func newPump(r io.Reader) *pump {
	return &pump{from: r, ask: make(chan int), got: make(chan input), done: make(chan struct{})}
}

func (p *pump) run() {
	for {
		var n int
		select {
		case n = <-p.ask:
		case <-p.done:
			return
		}
		b := make([]byte, n)
		n, err := p.from.Read(b)
		select {
		case p.got <- input{b[:n], err}:
		case <-p.done:
			return
		}
	}
}

// Read waits for input or Close. Only one Read may run at a time.
func (p *pump) Read(b []byte) (int, error) {
	p.start.Do(func() { go p.run() })
	select {
	case p.ask <- len(b):
	case <-p.done:
		return 0, os.ErrClosed
	}
	select {
	case in := <-p.got:
		return copy(b, in.p), in.err
	case <-p.done:
		return 0, os.ErrClosed
	}
}

// Close ends a Read that waits.
func (p *pump) Close() error {
	p.stop.Do(func() { close(p.done) })
	return nil
}

// keep is a file that is not ours to close.
type keep struct{ *os.File }

func (keep) Close() error { return nil }
