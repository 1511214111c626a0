package stdio

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/transport/stream"
)

// Options configure New and Start. The zero value is ready for use.
type Options struct {
	// Options bound messages and their time. FrameTimeout is not used: a person may type slowly,
	// and the deadline of the call detects a child that stops in the middle of a message. On lines,
	// MaxSkip zero means 64 MiB for a child and no bound for this process's stdin, and MaxGarbage
	// zero means 1 MiB for a child.
	stream.Options

	// Framing delimits payloads: stream.Line, the zero value, or stream.Header for language
	// servers.
	Framing stream.Framer

	// The fields below are for Start.

	// Dir is the working directory of the child. If empty, it is the directory of this process.
	Dir string

	// Env is the whole environment of the child, as "NAME=value" each. If nil, the child inherits
	// the environment of this process, as under a shell: right for a command that a user typed. For
	// a command from a file, use [CleanEnv].
	Env []string

	// Stderr is called for each line that the child writes to its stderr, without the newline,
	// control characters escaped, cut at 8 KiB. It runs on a separate goroutine. Lines that arrive
	// faster than 1,000 in a second, or faster than it returns, are dropped, and a line reports
	// their number. If nil, the lines are only stored, see [Child.Stderr].
	Stderr func(line string)

	// Patience is how long Close waits in each of its steps.
	Patience Patience

	// MaxFiles bounds the files that the child may have open, where the system supports it (Linux).
	// Zero means 4,096, negative means no bound beyond the bound of this process.
	MaxFiles int
}

// Patience is how long a child may take to end. In each field zero means the default.
type Patience struct {
	Stdin     time.Duration // after its stdin was closed; default 5 s
	Terminate time.Duration // after SIGTERM to its group; default 5 s
	Kill      time.Duration // after SIGKILL to its group; default 2 s
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

// streamOptions returns the options for the framing.
func (o *Options) streamOptions() *stream.Options {
	s := o.Options
	s.FrameTimeout = -1
	if o.Framing == stream.Line && s.MaxSkip == 0 {
		s.MaxSkip = -1
	}
	return &s
}

// ofChild returns the options for the framing of a child: it may print data that is not a message,
// up to a bound.
func (o *Options) ofChild() *stream.Options {
	c := *o
	if c.MaxSkip == 0 {
		c.MaxSkip = maxSkip
	}
	if c.MaxGarbage == 0 {
		c.MaxGarbage = maxGarbage
	}
	return c.streamOptions()
}

// Default bounds of data from a child that is not a message, in bytes.
const (
	maxSkip    = 64 << 20 // of a line that begins as a message and is over the limit
	maxGarbage = 1 << 20  // of any other line
)

// New returns a Transport on this program's stdin and stdout; the program must not use either from
// then on. Close ends this side, including a waiting Read. The peer detects the end when the
// process exits.
func New(o *Options) *stream.Transport {
	if o == nil {
		o = &Options{}
	}
	return newOwn(os.Stdin, os.Stdout, o)
}

func newOwn(stdin, stdout *os.File, o *Options) *stream.Transport {
	in, out := ownInput(stdin), ownOutput(stdout)
	both := stream.Join(in, out, func() error { return errors.Join(in.Close(), out.Close()) })
	return stream.New(both, o.Framing, o.streamOptions())
}

// A pump reads from a file that Close cannot interrupt, on a goroutine that may outlive Close until
// some input arrives. It is for terminals and pipes that cannot be polled without blocking.
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

func (p *pump) runPump() {
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
	p.start.Do(func() { go p.runPump() })
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

// Close ends a waiting Read.
func (p *pump) Close() error {
	p.stop.Do(func() { close(p.done) })
	return nil
}

// keep is a file that must not be closed.
type keep struct{ *os.File }

func (keep) Close() error { return nil }
