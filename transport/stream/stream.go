package stream

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Framer is how payloads are told apart on a byte stream.
type Framer int

const (
	// Line ends each payload with a newline. Blank lines are ignored, and so is a carriage return before the
	// newline. The last line of a stream needs none.
	Line Framer = iota

	// Header puts a block of fields before each payload, of which Content-Length tells its bytes (Language
	// Server Protocol 3.17, Base Protocol).
	Header
)

// ErrHTTP says that the peer speaks HTTP: see [Options.RefuseHTTP].
var ErrHTTP = errors.New("stream: the first line is an HTTP request")

// Options tune New. The zero value is ready for use.
type Options struct {
	// MaxMessage bounds one incoming message, in bytes. Zero means 4 MiB, negative means no bound. A longer one
	// is a *jsonrpc.FrameError with answer -32600, and is then read past.
	MaxMessage int64

	// MaxSkip bounds how much of a message over the limit is read past, in bytes; more ends the Transport. Zero
	// means 1 GiB on lines and 64 MiB behind headers, negative means no bound.
	MaxSkip int64

	// FrameTimeout bounds the time from the first byte of a message to its last. Zero means 30 s, negative means no
	// bound. A message that takes longer ends the Transport.
	FrameTimeout time.Duration

	// WriteTimeout bounds one Write. Zero means 10 s, negative means no bound. A Write that takes longer ends
	// the Transport with jsonrpc.ErrSlowPeer.
	WriteTimeout time.Duration

	// RefuseHTTP closes the Transport when the first line is an HTTP request line. Listeners set it, since a web
	// page can post to any local port, and each line of its body would be a call.
	RefuseHTTP bool
}

// A Transport is a [jsonrpc.Transport] over a byte stream. It starts no goroutine.
type Transport struct {
	rwc     io.ReadWriteCloser
	in      source
	out     sink
	framing framing

	begun int   // how much of a burst TryWrite has sent, for Write to go on
	ahead frame // what stands behind the payload that Read returned last
	end   error // what ended reading; all later reads return it

	final  atomic.Bool // the peer may still be sending what nobody reads
	closed atomic.Bool
	close  sync.Once
	err    error // of Close; guarded by close
}

// A framing is one way to tell payloads apart: a small state machine for the way in, and the bytes for the way out.
type framing interface {
	// scan looks for the next payload in the bytes from where the last scan left off. eof: no more will come.
	scan(in []byte, eof bool) frame

	// within reports whether the last scan ended inside of a message, of which it used up some bytes.
	within() bool

	// encode returns the bytes that carry b, and a buffer to free once they are written. It may change white space in b.
	encode(b jsonrpc.Burst) ([]byte, *buffer)
}

// A frame is what one scan found.
type frame struct {
	used    int                 // how many bytes are done with, those of the payload included
	payload []byte              // nil: none is whole yet
	fault   *jsonrpc.FrameError // instead of a payload
}

// New makes a Transport that reads from and writes to rwc, and closes it. What has deadlines, as a net.Conn and most
// files do, keeps the timeouts of o by them; anything else is closed when time is up.
func New(rwc io.ReadWriteCloser, f Framer, o *Options) *Transport {
	if o == nil {
		o = &Options{}
	}
	t := &Transport{rwc: rwc}
	limits := limits{
		message: orInf(o.MaxMessage, 4<<20),
		http:    o.RefuseHTTP,
	}
	switch f {
	case Header:
		limits.skip = orInf(o.MaxSkip, 64<<20)
		t.framing = newHeaders(limits)
	default:
		limits.skip = orInf(o.MaxSkip, 1<<30)
		t.framing = &lines{limits: limits}
	}

	r, w := io.Reader(rwc), io.Writer(rwc)
	if d, ok := rwc.(*joined); ok {
		r, w = d.r, d.w
	}
	t.in.init(r, or(o.FrameTimeout, 30*time.Second), t.abort)
	t.out.init(w, or(o.WriteTimeout, 10*time.Second), t.abort)
	return t
}

// limits are what both framings are bound by, in bytes.
type limits struct {
	message, skip int64
	http          bool // the first line must not be an HTTP request
}

func or(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return max(d, 0)
}

func orInf(n, standard int64) int64 {
	switch {
	case n == 0:
		return standard
	case n < 0:
		return math.MaxInt64
	}
	return n
}

// Read returns the next payload, without the white space that framed it. See [jsonrpc.Transport].
func (t *Transport) Read() (payload []byte, more bool, err error) {
	if t.ahead.payload == nil {
		if err := t.await(); err != nil {
			return nil, false, err
		}
	}
	payload = t.ahead.payload
	t.in.passed()
	t.scan()
	return payload, t.ahead.payload != nil, nil
}

// await reads until a payload is ahead. It has little on the stack: that is most of an idle connection.
func (t *Transport) await() error {
	for t.ahead.payload == nil {
		if f := t.ahead.fault; f != nil {
			t.ahead.fault = nil
			return t.fault(f)
		}
		if t.end != nil {
			return t.end
		}
		if err := t.in.fill(t.framing.within()); err != nil {
			t.end = t.ending(err)
		}
		t.scan()
	}
	return nil
}

// scan looks for what comes next in the bytes that are here.
func (t *Transport) scan() {
	t.ahead = t.framing.scan(t.in.bytes(), t.end == io.EOF) //nolint:errorlint // ending returns the value itself
	t.in.use(t.ahead.used)
}

// fault notes what an unusable payload means for those behind it.
func (t *Transport) fault(f *jsonrpc.FrameError) error {
	t.in.passed()
	if !f.Final {
		t.scan() // the next payload may be here already
		return f
	}
	t.end = f
	t.final.Store(f.Answer != nil)
	if errors.Is(f, ErrHTTP) {
		_ = t.Close() // f says more
	}
	return f
}

// ending says what a failed read means for the conversation.
func (t *Transport) ending(err error) error {
	switch {
	case t.closed.Load():
		return fmt.Errorf("stream: read: %w", jsonrpc.ErrClosed)
	case t.in.late(err):
		return &jsonrpc.FrameError{Final: true, Err: fmt.Errorf("stream: a message took longer than %v: %w", t.in.timeout, os.ErrDeadlineExceeded)}
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("stream: read: %w", err)
}

// Write sends all payloads of b in one system call. See [jsonrpc.Transport].
func (t *Transport) Write(b jsonrpc.Burst) error {
	if len(b.Ends) == 0 {
		return nil
	}
	p, own := t.framing.encode(b)
	err := t.out.send(p[t.begun:])
	t.begun = 0
	own.free()
	if err == nil {
		return nil
	}
	closed := t.closed.Load()
	_ = t.Close() // half a message may be out: nothing can follow it
	switch {
	case t.out.late(err):
		return fmt.Errorf("stream: write: %w after %v", jsonrpc.ErrSlowPeer, t.out.timeout)
	case closed:
		return fmt.Errorf("stream: write: %w", jsonrpc.ErrClosed)
	}
	return fmt.Errorf("stream: write: %w", err)
}

// TryWrite sends b as far as that goes without waiting, and nothing on what cannot be asked. See [jsonrpc.Transport].
func (t *Transport) TryWrite(b jsonrpc.Burst) bool {
	if t.out.raw == nil {
		return false
	}
	p, own := t.framing.encode(b)
	defer own.free()
	n, err := t.out.raw.write(p)
	if err != nil || n < len(p) {
		t.begun = n
		return false
	}
	return true
}

// Close closes the stream below. It returns what that returned, each time. A peer that was told why it is hung up on gets
// up to a second to read it.
func (t *Transport) Close() error {
	t.close.Do(func() {
		t.closed.Store(true)
		if t.final.Load() {
			linger(t.rwc)
		}
		t.err = t.rwc.Close()
		t.in.stop()
	})
	return t.err
}

// abort ends a Transport whose time is up and which has no deadlines.
func (t *Transport) abort() {
	_ = t.rwc.Close() // the read or write that waits reports why
}

// lingering bounds a farewell.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 20
)

// linger ends our side and reads on for a while. Whoever closes a TCP connection with unread bytes in it resets it, and the
// peer may then never see the answer that was sent before.
func linger(rwc io.ReadWriteCloser) {
	c, ok := rwc.(interface {
		CloseWrite() error
		SetReadDeadline(time.Time) error
	})
	if !ok || c.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, rwc, lingerBytes) // whatever it is, nobody wants it
}

// Join makes one stream of two, such as the pipes of a child process. Close calls close; it must unblock both.
func Join(r io.Reader, w io.Writer, close func() error) io.ReadWriteCloser {
	return &joined{r, w, close}
}

type joined struct {
	r     io.Reader
	w     io.Writer
	close func() error
}

func (j *joined) Read(p []byte) (int, error)  { return j.r.Read(p) }
func (j *joined) Write(p []byte) (int, error) { return j.w.Write(p) }
func (j *joined) Close() error                { return j.close() }
