package tap

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/da1ed7bb/parley/capture"
)

// A reader looks at the bytes of one direction as they pass. It keeps what it needs and never waits.
type reader interface {
	take(p []byte)
	end() // no more will come
}

// Framing is how messages are kept apart on a byte stream.
type Framing int

// Auto decides by the first bytes: a Content-Length header or a line.
const (
	Auto Framing = iota
	Line
	Header
)

const (
	maxKept  = 4 << 20 // bytes of one payload that are kept; the rest passes and is counted
	maxBlock = 8 << 10 // bytes of a header block
)

// A sink takes what a reader finds.
type sink interface {
	payload(p []byte, size int) // size is more than len(p) if it was cut
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

// either waits until it can tell the framing.
type either struct {
	s     sink
	begin []byte
	r     reader
}

const lengthField = "content-length"

func (e *either) take(p []byte) {
	if e.r == nil {
		e.begin = append(e.begin, p...)
		p = e.begin
		seen := bytes.ToLower(bytes.TrimLeft(p, "\r\n"))
		switch {
		case bytes.HasPrefix(seen, []byte(lengthField)), bytes.HasPrefix(seen, []byte("content-type")):
			e.r = &blocks{s: e.s}
		case len(seen) < len(lengthField) && bytes.HasPrefix([]byte(lengthField), seen):
			return // too early
		default:
			e.r = &lines{s: e.s}
		}
		e.begin = nil
	}
	e.r.take(p)
}

func (e *either) end() {
	if e.r == nil {
		e.r = &lines{s: e.s}
		e.r.take(e.begin)
	}
	e.r.end()
}

// kept collects a payload up to the bound, and counts all of it.
type kept struct {
	buf  []byte
	size int
}

func (k *kept) add(p []byte) {
	k.size += len(p)
	if room := maxKept - len(k.buf); room > 0 {
		k.buf = append(k.buf, p[:min(room, len(p))]...)
	}
}

func (k *kept) reset() {
	k.size = 0
	if k.buf = k.buf[:0]; cap(k.buf) > 1<<20 {
		k.buf = nil
	}
}

// lines finds a payload in each line.
type lines struct {
	s    sink
	part kept // of a line that goes on
}

func (l *lines) take(p []byte) {
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

func (l *lines) end() {
	if l.part.size > 0 {
		l.line(l.part.buf, l.part.size)
		l.part.reset()
	}
}

// blocks finds a payload behind each block of header fields (Language Server Protocol 3.17, Base Protocol).
type blocks struct {
	s    sink
	head []byte
	left int // bytes of the body that are missing; 0 while a head is read
	body kept
	lost bool // where a message begins is not known any more
}

func (b *blocks) take(p []byte) {
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

// field takes bytes of a head, up to its end.
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
		b.lose("a header block that does not end; what follows is not read")
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
		b.lose(err.Error() + "; what follows is not read")
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
}

func (b *blocks) end() {
	switch {
	case b.lost:
	case b.left > 0:
		b.s.junk(b.body.buf, fmt.Sprintf("the stream ends inside a message: %d bytes are missing", b.left))
	case len(b.head) > 0:
		b.s.junk(b.head, "the stream ends inside a header block")
	}
}

// contentLength is what the fields of a block say.
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
