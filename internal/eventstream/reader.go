package eventstream

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Event is one event of a stream.
type Event struct {
	// Type is the name of the event. A [Reader] sets "message" for an event without one; for
	// "message" a [Writer] writes no name.
	Type string

	// Data is the content of the event: its data lines, joined by "\n". A [Writer] starts a new
	// line for each of "\n", "\r\n" and "\r" in it; in JSON text they are all white space.
	Data []byte

	// ID is the last event ID that the stream has set so far. A [Writer] writes it if it is not
	// empty.
	ID string
}

// A Reader parses a stream into events, regardless of how the bytes are split. It is for one
// goroutine at a time.
//
// It accepts what the format permits: each of the three line ends, one byte order mark, comments,
// unknown fields. It does not check that the data is UTF-8; its user must do that. An event that
// the end of the stream cuts off is dropped.
type Reader struct {
	r     io.Reader
	limit int64

	buf        []byte // buf[start:end] is read and not used
	start, end int
	searched   int  // this many bytes after start have no line end
	begun      bool // the first line, which may have a byte order mark, has passed
	afterCR    bool // a "\n" that follows belongs to the previous line end
	long       bool // the rest of this line is dropped
	broken     bool // the rest of this event is dropped

	kind  []byte // of the event that is being read
	data  []byte // each line, followed by "\n"
	spare []byte // the previous data slice: of the last event
	newID string
	id    string
	retry time.Duration
	told  bool // retry was set
	err   error

	comments int // received, up to pulse
	silence  time.Duration
	quiet    *time.Timer // nil without OnSilence
}

// pulse is the number of comments after which a server is assumed to keep the stream alive with
// them. Some servers send one comment to open the stream.
const pulse = 2

const (
	startSize  = 4 << 10
	defaultMax = 16 << 20
)

// NewReader returns a Reader of r. maxEvent bounds the data of one event and the length of one
// line, in bytes: zero means 16 MiB, negative means no bound.
func NewReader(r io.Reader, maxEvent int64) *Reader {
	switch {
	case maxEvent == 0:
		maxEvent = defaultMax
	case maxEvent < 0:
		maxEvent = math.MaxInt64 / 2
	}
	return &Reader{r: r, limit: maxEvent}
}

// Next waits for an event. Its Data is valid until the second call of Next or Try after this one.
// The error is io.EOF at the end of the stream, and wraps jsonrpc.ErrTooLarge for an event over the
// limit, after which the next call continues.
func (r *Reader) Next() (Event, error) {
	for {
		e, ok, err := r.Try()
		if ok || err != nil {
			return e, err
		}
		if r.err != nil {
			return Event{}, r.err
		}
		r.fill()
	}
}

// Try is Next without waiting: ok is false unless the rest of an event is buffered.
func (r *Reader) Try() (e Event, ok bool, err error) {
	for {
		line, whole := r.line()
		if !whole {
			return Event{}, false, r.tooLong()
		}
		if len(line) == 0 {
			if e, ok := r.dispatch(); ok {
				return e, true, nil
			}
			continue
		}
		switch {
		case line[0] == ':':
			r.comments = min(r.comments+1, pulse)
			continue
		case r.broken:
			continue
		case int64(len(line)) > r.limit+longest:
			return Event{}, false, r.refuse()
		}
		if err := r.field(line); err != nil {
			return Event{}, false, err
		}
	}
}

// LastID returns the ID with which a client that reconnects requests the missed events
// (Last-Event-ID).
func (r *Reader) LastID() string { return r.id }

// Retry returns how long a client should wait before it reconnects; ok is false if the server did
// not set it.
func (r *Reader) Retry() (d time.Duration, ok bool) { return r.retry, r.told }

// OnSilence sets f to be called, on a separate goroutine, when Next has waited for a byte for d, on
// a stream that the server keeps alive with comments. Servers that send no comments may be silent
// without a limit. After three missed comments a server is treated as dead: f must end the read
// that Next waits in. Call OnSilence before the first call of Next.
func (r *Reader) OnSilence(d time.Duration, f func()) {
	r.silence = d
	r.quiet = time.AfterFunc(d, func() {
		defer rescue.Catch(nil, nil)
		f()
	})
	r.quiet.Stop()
}

// line returns the next line without its end, if all of it is buffered.
func (r *Reader) line() ([]byte, bool) {
	for {
		if r.afterCR && r.start < r.end {
			r.afterCR = false
			if r.buf[r.start] == '\n' {
				r.start++
			}
		}
		rest := r.buf[r.start:r.end]
		at := lineEnd(rest, r.searched)
		if at < 0 {
			r.searched = len(rest)
			return nil, false
		}
		r.start += at + 1
		r.searched = 0
		r.afterCR = rest[at] == '\r'
		if r.long {
			r.long = false // its beginning was refused or ignored
			continue
		}
		line := rest[:at]
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		return line, true
	}
}

func lineEnd(b []byte, from int) int {
	at := bytes.IndexByte(b[from:], '\n')
	if at < 0 {
		at = len(b) - from
	}
	if cr := bytes.IndexByte(b[from:from+at], '\r'); cr >= 0 {
		return from + cr
	}
	if from+at == len(b) {
		return -1
	}
	return from + at
}

// longest is the maximum length of a line without its data.
const longest = 64

// tooLong skips a line that has passed the limit and has no end yet. A comment has no further
// effect; any other line also drops its event.
func (r *Reader) tooLong() error {
	have := int64(r.end - r.start)
	if !r.begun {
		have -= 3 // a byte order mark does not count
	}
	switch {
	case r.long:
		r.start, r.searched = r.end, 0
		return nil
	case have <= r.limit+longest:
		return nil
	}
	comment := r.buf[r.start] == ':'
	r.start, r.searched, r.long = r.end, 0, true
	r.begun = true
	if comment || r.broken {
		return nil
	}
	return r.refuse()
}

func (r *Reader) refuse() error {
	r.broken = true
	r.data = r.data[:0]
	return fmt.Errorf("sse: an event over %d bytes: %w", r.limit, jsonrpc.ErrTooLarge)
}

// field processes one line that is not blank (WHATWG HTML, section 9.2.6).
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if int64(len(r.data)+len(value)) > r.limit {
			return r.refuse()
		}
		r.data = append(append(r.data, value...), '\n')
	case "event":
		r.kind = append(r.kind[:0], value...)
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != r.newID {
			r.newID = string(value)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			r.retry, r.told = ms, true
		}
	}
	return nil
}

// digits parses a number of milliseconds; a number that is too large for a Duration becomes the
// largest Duration.
func digits(text []byte) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	n := int64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), most/10)
	}
	return time.Duration(n) * time.Millisecond, len(text) > 0
}

// dispatch ends an event at its blank line. An event without data only sets the ID.
func (r *Reader) dispatch() (Event, bool) {
	r.id = r.newID
	kind, broken := r.kind, r.broken
	r.kind, r.broken = r.kind[:0], false
	if broken || len(r.data) == 0 {
		r.data = r.data[:0]
		return Event{}, false
	}
	e := Event{Type: eventType(kind), Data: r.data[: len(r.data)-1 : len(r.data)-1], ID: r.id}
	r.data, r.spare = r.spare[:0], r.data
	return e, true
}

func eventType(kind []byte) string {
	switch string(kind) {
	case "", "message":
		return "message"
	}
	return string(kind)
}

// fill reads once from the stream, and stores the error until all earlier bytes are used.
func (r *Reader) fill() {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if cap(r.buf) > 1<<20 {
			r.buf = nil // one long event must not retain so much memory
		}
	}
	if r.end == len(r.buf) {
		if r.start >= len(r.buf)/2 && r.start > 0 {
			r.end = copy(r.buf, r.buf[r.start:r.end])
			r.start = 0
		} else {
			grown := make([]byte, max(startSize, 2*len(r.buf)))
			r.end = copy(grown, r.buf[r.start:r.end])
			r.buf, r.start = grown, 0
		}
	}
	if r.quiet != nil && r.comments >= pulse {
		r.quiet.Reset(r.silence)
		defer r.quiet.Stop()
	}
	for range 100 {
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			r.err = err
		}
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}
