package tap

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/da1ed7bb/parley/capture"
)

// A reader parses the forwarded bytes of one direction. It copies what it needs and never blocks.
type reader interface {
	feed(p []byte)
	endInput() // the end of the input
}

// Framing is the separation of messages on a byte stream.
type Framing int

// Auto detects the framing from the first bytes: a Content-Length header or a line.
const (
	Auto Framing = iota
	Line
	Header
)

const (
	maxKept     = 4 << 20  // stored bytes of one payload; the rest is forwarded and counted
	maxExpanded = 64 << 20 // bytes of a compressed payload that are decompressed to learn its size
	maxBlock    = 8 << 10  // bytes of a header block
)

// A sink receives what a reader finds.
type sink interface {
	payload(p []byte, size int) // size is more than len(p) if p is truncated
	junk(p []byte, what string)
}

// wireSink records on a wire without HTTP.
type wireSink struct {
	w   *capture.Wire
	dir capture.Dir
}

func (s wireSink) payload(p []byte, size int) {
	if size > len(p) {
		s.w.Cut(s.dir, p, size)
		return
	}
	s.w.Payload(s.dir, p)
}

func (s wireSink) junk(p []byte, what string) { s.w.Junk(s.dir, p, what) }

// newReader returns a reader for a byte stream.
func newReader(f Framing, s sink) reader {
	switch f {
	case Line:
		return &lines{s: s}
	case Header:
		return &blocks{s: s}
	}
	return &either{s: s}
}

// An either waits until it can detect the framing.
type either struct {
	s     sink
	begin []byte // shorter than lengthField
	r     reader
}

// The header fields with which a header block may begin, in lower case.
const (
	lengthField = "content-length"
	typeField   = "content-type"
)

func (e *either) feed(p []byte) {
	if e.r == nil {
		if len(e.begin) == 0 {
			p = bytes.TrimLeft(p, "\r\n") // empty lines are ignored in both framings
		}
		e.begin = append(e.begin, p...)
		p = e.begin
		seen := bytes.ToLower(p[:min(len(p), len(lengthField))])
		switch {
		case bytes.HasPrefix(seen, []byte(lengthField)), bytes.HasPrefix(seen, []byte(typeField)):
			e.r = &blocks{s: e.s}
		case strings.HasPrefix(lengthField, string(seen)), strings.HasPrefix(typeField, string(seen)):
			return // not enough bytes yet
		default:
			e.r = &lines{s: e.s}
		}
		e.begin = nil
	}
	e.r.feed(p)
}

func (e *either) endInput() {
	if e.r == nil {
		e.r = &lines{s: e.s}
		e.r.feed(e.begin)
	}
	e.r.endInput()
}

// Limits of the memory for incomplete payloads, in bytes: for the process, and for one HTTP
// connection, which may have many streams. Beyond them, a payload is truncated in the recording but
// still forwarded.
const (
	maxCollected     = 32 << 20
	maxCollectedConn = 8 << 20
)

// collected is the used part of maxCollected, for all taps of the process.
var collected atomic.Int64

// A kept collects a payload up to the limits, and counts all of it. Its owner calls free after the
// last byte.
type kept struct {
	buf     []byte
	size    int
	charged int64         // the part of collected and of conn in use
	conn    *atomic.Int64 // the connection's total; nil if it collects only one payload at a time
	full    bool          // further bytes are only counted
}

func (k *kept) add(p []byte) {
	k.size += len(p)
	p = p[:min(len(p), maxKept-len(k.buf))]
	if len(p) == 0 || k.full {
		return
	}
	if need := len(k.buf) + len(p); need > cap(k.buf) && !k.grow(max(need, min(2*cap(k.buf), maxKept), 512)) {
		k.full = true
		return
	}
	k.buf = append(k.buf, p...)
}

// grow enlarges the buffer and reports whether the limits allow it.
func (k *kept) grow(size int) bool {
	more := int64(size) - k.charged
	if collected.Add(more) > maxCollected {
		collected.Add(-more)
		return false
	}
	if k.conn != nil && k.conn.Add(more) > maxCollectedConn {
		k.conn.Add(-more)
		collected.Add(-more)
		return false
	}
	k.charged += more
	k.buf = append(make([]byte, 0, size), k.buf...)
	return true
}

// reset prepares for the next payload. A small buffer is reused.
func (k *kept) reset() {
	if cap(k.buf) > 64<<10 {
		k.free()
	}
	k.buf, k.size, k.full = k.buf[:0], 0, false
}

// free returns the used memory to the limits.
func (k *kept) free() {
	collected.Add(-k.charged)
	if k.conn != nil {
		k.conn.Add(-k.charged)
	}
	k.buf, k.size, k.charged, k.full = nil, 0, 0, false
}

// A lines finds a payload in each line.
type lines struct {
	s    sink
	part kept // of an incomplete line
}

func (l *lines) feed(p []byte) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.part.add(p)
			return
		}
		line := p[:i]
		size := len(line)
		if l.part.size > 0 {
			l.part.add(line)
			line, size = l.part.buf, l.part.size
		}
		l.line(line, size)
		l.part.reset()
		p = p[i+1:]
	}
}

func (l *lines) line(line []byte, size int) {
	if whole := size == len(line); whole {
		line = bytes.TrimSuffix(line, []byte("\r"))
		size = len(line)
	}
	if len(bytes.TrimSpace(line)) > 0 {
		l.s.payload(line, size)
	}
}

func (l *lines) endInput() {
	if l.part.size > 0 {
		l.line(l.part.buf, l.part.size)
	}
	l.part.free()
}

// A blocks finds a payload after each block of header fields (Language Server Protocol 3.17, Base
// Protocol).
type blocks struct {
	s    sink
	head []byte
	left int // missing bytes of the body; 0 while a head is read
	body kept
	lost bool // the start of the next message is unknown
}

func (b *blocks) feed(p []byte) {
	for len(p) > 0 {
		switch {
		case b.lost:
			return
		case b.left > 0:
			n := min(b.left, len(p))
			b.body.add(p[:n])
			b.left -= n
			p = p[n:]
			if b.left == 0 {
				b.s.payload(b.body.buf, b.body.size)
				b.body.reset()
			}
		default:
			p = b.field(p)
		}
	}
}

// field reads bytes of a head, up to its end.
func (b *blocks) field(p []byte) []byte {
	i := bytes.IndexByte(p, '\n')
	if i < 0 {
		b.head = append(b.head, p...)
		p = nil
	} else {
		b.head = append(b.head, p[:i+1]...)
		p = p[i+1:]
	}
	if len(b.head) > maxBlock {
		b.lose("an unterminated header block; the rest is not parsed")
		return nil
	}
	if !bytes.HasSuffix(b.head, []byte("\n\r\n")) && !bytes.HasSuffix(b.head, []byte("\n\n")) {
		if len(bytes.TrimSpace(b.head)) == 0 && i >= 0 {
			b.head = b.head[:0] // blank lines between messages
		}
		return p
	}
	length, err := contentLength(b.head)
	if err != nil {
		b.lose(err.Error() + "; the rest is not parsed")
		return nil
	}
	b.head = b.head[:0]
	b.left = length
	if length == 0 {
		b.s.payload([]byte{}, 0)
	}
	return p
}

func (b *blocks) lose(what string) {
	b.lost = true
	b.s.junk(b.head, what)
	b.head = nil
	b.body.free()
}

func (b *blocks) endInput() {
	switch {
	case b.lost:
	case b.left > 0:
		b.s.junk(b.body.buf, fmt.Sprintf("the stream ends inside a message: %d bytes are missing", b.left))
	case len(b.head) > 0:
		b.s.junk(b.head, "the stream ends inside a header block")
	}
	b.body.free()
}

// contentLength returns the Content-Length of a header block.
func contentLength(head []byte) (int, error) {
	length := -1
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(bytes.TrimSpace(name), []byte(lengthField)) {
			continue
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 40)
		if err != nil || length >= 0 && int(n) != length {
			return 0, fmt.Errorf("no usable Content-Length: %q", bytes.TrimSpace(line))
		}
		length = int(n)
	}
	if length < 0 {
		return 0, fmt.Errorf("a header block without Content-Length")
	}
	return length, nil
}
