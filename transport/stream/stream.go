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

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Framer is the way in which payloads are delimited on a byte stream.
type Framer int

const (
	// Line ends each payload with a newline. Blank lines are ignored, and so is a carriage return
	// before the newline. The last line of a stream needs no newline.
	Line Framer = iota

	// Header puts a block of fields before each payload, whose Content-Length is the payload's size
	// in bytes (Language Server Protocol 3.17, Base Protocol).
	Header
)

// errBusy is the response to a message that found no room in memory.
var errBusy = jsonrpc.NewError(jsonrpc.CodeBusy, "Busy").WithData(jsonrpc.FaultData{Reason: "busy", Retryable: true, RetryAfterMs: 1000})

// ErrHTTP means that the peer uses HTTP: see [Options.RefuseHTTP].
var ErrHTTP = errors.New("stream: the first line is an HTTP request")

// Options configure New. The zero value is ready for use.
type Options struct {
	// MaxMessage bounds one incoming message, in bytes. Zero means 4 MiB, negative means no bound.
	// A longer one is a *jsonrpc.FrameError with response -32600, and is then skipped.
	MaxMessage int64

	// MaxSkip bounds how much of a message over the limit is skipped, in bytes; more ends the
	// Transport. Zero means 1 GiB on lines and 64 MiB with headers, negative means no bound.
	MaxSkip int64

	// MaxGarbage bounds, in bytes, an unfinished line that cannot be a message because it begins
	// with neither {, [ nor a quote. More ends the Transport with jsonrpc.ErrGarbage. Zero means
	// only the bounds above. It is for programs that also print other things; see
	// jsonrpc.Conn.Quiet for lines that end.
	MaxGarbage int64

	// FrameTimeout bounds the time from the first byte of a message to its last. Zero means 30 s,
	// negative means no bound. A message that takes longer ends the Transport.
	FrameTimeout time.Duration

	// WriteTimeout bounds the time in which a peer takes nothing of a Write. On a stream that is
	// neither a socket nor a pipe of the system, each piece of the Write has that time: 16 KiB over
	// TLS, otherwise at most 256 KiB. Zero means 10 s, negative means no bound. A Write that takes
	// longer ends the Transport with jsonrpc.ErrSlowPeer.
	WriteTimeout time.Duration

	// RefuseHTTP closes the Transport if the first line is an HTTP request line. Listeners set it,
	// since a web page can post to any local port, and each line of its body would be a call.
	RefuseHTTP bool
}

// A Transport is a [jsonrpc.Transport] over a byte stream. It starts no goroutine.
type Transport struct {
	rwc     io.ReadWriteCloser
	in      source
	out     sink
	framing framing

	begun int   // how much of a burst TryWrite has sent; Write sends the rest
	ahead frame // what follows the payload that Read returned last
	end   error // the error that ended reading; all later reads return it

	final  atomic.Bool // the peer may still be sending data that is not read
	closed atomic.Bool
	close  sync.Once
	err    error // of Close; guarded by close
}

// A framing delimits payloads: a small state machine for incoming bytes, and an encoder for
// outgoing ones.
type framing interface {
	// scan looks for the next payload in the bytes from where the last scan stopped. eof reports
	// that no more bytes follow.
	scan(in []byte, eof bool) frame

	// within reports whether the last scan ended inside a message after using some of its bytes.
	within() bool

	// encode returns the bytes of b on the wire, and a buffer to free once they are written. It may
	// change white space in b.
	encode(b jsonrpc.Burst) ([]byte, *buffer)
}

// A frame is the result of one scan.
type frame struct {
	used    int                 // number of used bytes, including those of the payload
	payload []byte              // nil if no payload is complete
	fault   *jsonrpc.FrameError // set if there is no payload because of an error
}

// New returns a Transport that reads from and writes to rwc, and closes it. If rwc has deadlines,
// as a net.Conn and most files do, they enforce the timeouts of o; any other rwc is closed when a
// timeout expires.
func New(rwc io.ReadWriteCloser, f Framer, o *Options) *Transport {
	if o == nil {
		o = &Options{}
	}
	t := &Transport{rwc: rwc}
	limits := limits{
		message: orInf(o.MaxMessage, 4<<20),
		garbage: o.MaxGarbage,
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
	t.in.room.From(rwc)
	t.in.init(r, or(o.FrameTimeout, 30*time.Second), t.abort)
	t.out.init(w, or(o.WriteTimeout, 10*time.Second), t.abort)
	return t
}

// limits are the bounds of both framings, in bytes.
type limits struct {
	message, skip int64
	garbage       int64 // of a line that is not a message and does not end; 0 means no bound
	http          bool  // the first line must not be an HTTP request
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

// await reads until a payload is ahead. It uses little stack: the stack is most of the memory of an
// idle connection.
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
			if errors.Is(err, budget.ErrNoRoom) {
				t.final.Store(true)
			}
		}
		t.scan()
	}
	return nil
}

// scan looks for the next payload in the buffered bytes.
func (t *Transport) scan() {
	t.ahead = t.framing.scan(t.in.bytes(), t.end == io.EOF) //nolint:errorlint // ending returns the value itself
	t.in.use(t.ahead.used)
}

// fault handles an unusable payload, which may end the Transport or be skipped.
func (t *Transport) fault(f *jsonrpc.FrameError) error {
	t.in.passed()
	if !f.Final {
		t.scan() // the next payload may be buffered already
		return f
	}
	t.end = f
	t.final.Store(f.Answer != nil)
	if errors.Is(f, ErrHTTP) {
		_ = t.Close() // f has more detail
	}
	return f
}

// ending maps a failed read to the error of Read.
func (t *Transport) ending(err error) error {
	switch {
	case t.closed.Load():
		return fmt.Errorf("stream: read: %w", jsonrpc.ErrClosed)
	case t.in.late(err):
		return &jsonrpc.FrameError{Final: true, Err: fmt.Errorf("stream: a message took longer than %v: %w", t.in.timeout, os.ErrDeadlineExceeded)}
	case errors.Is(err, io.EOF):
		t.out.last.Store(true)
		return io.EOF
	case errors.Is(err, budget.ErrNoRoom):
		return &jsonrpc.FrameError{Answer: errBusy, Final: true, Err: fmt.Errorf("stream: a message found no room: %w", err)}
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
	_ = t.Close() // half a message may be sent: nothing can follow it
	switch {
	case t.out.late(err):
		return fmt.Errorf("stream: write: %w after %v", jsonrpc.ErrSlowPeer, t.out.timeout)
	case closed:
		return fmt.Errorf("stream: write: %w", jsonrpc.ErrClosed)
	}
	return fmt.Errorf("stream: write: %w", err)
}

// TryWrite sends as much of b as possible without waiting, and nothing on a stream that does not
// support that. See [jsonrpc.Transport].
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

// WrittenBytes grows whenever the peer has taken something that a Write waited for. It implements
// [jsonrpc.WriteCounter].
func (t *Transport) WrittenBytes() uint64 { return t.out.taken.Load() }

// Close closes the underlying stream, and returns the same error each time. If a reason was sent to
// the peer, the peer gets up to a second to read it.
func (t *Transport) Close() error {
	t.close.Do(func() {
		t.closed.Store(true)
		t.in.stop()
		if t.final.Load() {
			linger(t.rwc)
		}
		t.err = t.rwc.Close()
	})
	return t.err
}

// Linger makes Close end this side first, and read until the peer has ended its own, for at most a
// second. Use it for a peer that may still be sending after all its responses were written: a
// connection that is closed with unread bytes is reset, and the last responses may be lost. It may
// be called at any time before Close.
func (t *Transport) Linger() { t.final.Store(true) }

// abort ends a Transport without deadlines whose timeout has expired.
func (t *Transport) abort() {
	_ = t.rwc.Close() // the waiting read or write reports why
}

// Bounds of linger.
const (
	lingerTime  = time.Second
	lingerBytes = 64 << 20
)

// linger ends this side and reads on for a while. Closing a TCP connection with unread bytes resets
// it, and the peer may then never receive the response that was sent before.
func linger(rwc io.ReadWriteCloser) {
	c, ok := rwc.(interface {
		CloseWrite() error
		SetReadDeadline(time.Time) error
	})
	if !ok || c.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, rwc, lingerBytes) // content and error are irrelevant
}

// Join makes one stream of two, such as the pipes of a child process. Close calls close; it must
// unblock both.
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
