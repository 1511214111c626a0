package tap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"

	"github.com/da1ed7bb/parley/capture"
)

// preface is the start of an HTTP/2 connection from the client (RFC 9113, section 3.4). Its first
// part looks like a request head.
const (
	prefaceHead = "PRI * HTTP/2.0\r\n\r\n"
	prefaceRest = "SM\r\n\r\n"
)

// Frame types, their flags and other constants of HTTP/2 that are examined (RFC 9113, sections 6
// and 11).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePushPromise  = 5
	frameContinuation = 9

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	settingTableSize = 1
	errorCancel      = 8

	maxStreams   = 10_000
	maxTableSize = 1 << 20
)

// A twin is one forwarded HTTP/2 connection. Both directions need its state: the streams, and the
// other side's limit of the header table.
type twin struct {
	t *talk

	mu      sync.Mutex // guards the fields below, and both ways
	streams map[uint32]*stream
	ways    [2]*way // of requests, of responses
}

// A stream is one request with its response.
type stream struct {
	*exchange
	request, response *body
	asked             bool // the request is complete
}

// A way reads the frames of one direction.
type way struct {
	c        *twin
	response bool
	dir      capture.Dir

	skip    string // remaining preface
	head    []byte // frame header
	payload kept
	want    int // missing bytes of the payload
	lost    bool

	table  *hpack.Decoder
	fields []hpack.HeaderField // of the current header block
	// size is the size of fields as RFC 9113, section 6.5.2, counts: name, value and 32 bytes each.
	size  int
	block []byte
	ends  bool   // the current block ends its stream
	id    uint32 // of the current block
	push  bool   // the block is a push promise; the promised stream is not recorded
}

const frameHead = 9

func newTwin(t *talk) *twin {
	c := &twin{t: t, streams: map[uint32]*stream{}}
	for i := range c.ways {
		w := &way{c: c, response: i == 1, dir: capture.Out}
		if w.response {
			w.dir = capture.In
		} else {
			w.skip = prefaceRest
		}
		w.table = hpack.NewDecoder(4096, w.field)
		w.table.SetMaxStringLength(maxHead)
		c.ways[i] = w
	}
	return c
}

// field adds one header of a block. A few bytes can refer to a long table entry many times (RFC
// 7541, section 7.3), so the expanded size is limited.
func (w *way) field(f hpack.HeaderField) {
	if w.size += len(f.Name) + len(f.Value) + 32; w.size > maxHead {
		w.table.SetEmitEnabled(false)
		return
	}
	w.fields = append(w.fields, f)
}

// feed reads forwarded bytes.
func (w *way) feed(p []byte) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for len(p) > 0 && !w.lost {
		switch {
		case w.skip != "":
			if p[0] != w.skip[0] {
				w.lose("an invalid HTTP/2 preface")
				return
			}
			w.skip, p = w.skip[1:], p[1:]
		case len(w.head) < frameHead:
			n := min(frameHead-len(w.head), len(p))
			w.head = append(w.head, p[:n]...)
			p = p[n:]
			if len(w.head) < frameHead {
				return
			}
			if w.want = int(w.head[0])<<16 | int(w.head[1])<<8 | int(w.head[2]); w.want > maxKept {
				w.lose(fmt.Sprintf("a frame of %d bytes", w.want))
				return
			}
			if w.want == 0 {
				w.frame(nil)
			}
		case w.payload.size == 0 && len(p) >= w.want: // complete, as most are: no copy
			data := p[:w.want]
			p = p[w.want:]
			w.frame(data)
		default:
			n := min(w.want-w.payload.size, len(p))
			w.payload.add(p[:n])
			p = p[n:]
			if w.payload.full {
				w.lose("too much data at once")
				return
			}
			if w.payload.size == w.want {
				w.frame(w.payload.buf)
				w.payload.reset()
			}
		}
	}
}

// lose stops parsing this direction because the traffic is not understood.
func (w *way) lose(why string) {
	w.lost = true
	w.payload.free()
	w.head, w.block, w.fields = nil, nil, nil
	w.c.t.wire().Junk(w.dir, nil, "not valid HTTP/2: "+why)
	if other := w.c.ways[1]; !w.response {
		other.lost = true // its streams are unknown from now on
		other.payload.free()
	}
	w.c.cutLocked(errLost)
}

var errLost = errors.New("the tap could not continue")

// frame handles a complete frame.
func (w *way) frame(p []byte) {
	kind, flags := w.head[3], w.head[4]
	id := binary.BigEndian.Uint32(w.head[5:]) & 0x7fffffff
	w.head = w.head[:0]
	if flags&flagPadded != 0 && (kind == frameData || kind == frameHeaders || kind == framePushPromise) {
		if len(p) == 0 || int(p[0]) >= len(p) {
			w.lose("a frame with padding only")
			return
		}
		p = p[1 : len(p)-int(p[0])]
	}
	switch kind {
	case frameData:
		w.data(id, p, flags&flagEndStream != 0)
	case frameHeaders:
		if flags&flagPriority != 0 {
			if len(p) < 5 {
				w.lose("headers without their priority")
				return
			}
			p = p[5:]
		}
		w.id, w.ends, w.push, w.block = id, flags&flagEndStream != 0, false, append(w.block[:0], p...)
		w.headers(flags)
	case framePushPromise:
		if len(p) < 4 {
			w.lose("a push promise without a stream")
			return
		}
		w.push, w.block = true, append(w.block[:0], p[4:]...)
		w.headers(flags)
	case frameContinuation:
		if w.block = append(w.block, p...); len(w.block) > maxHead {
			w.lose("unterminated headers")
			return
		}
		w.headers(flags)
	case frameSettings:
		if flags&flagAck == 0 {
			w.settings(p)
		}
	case frameReset:
		if len(p) == 4 {
			w.reset(id, binary.BigEndian.Uint32(p))
		}
	}
}

// settings apply to the other side: the limit of its table (RFC 7541, section 4.2).
func (w *way) settings(p []byte) {
	other := w.c.ways[0]
	if !w.response {
		other = w.c.ways[1]
	}
	for ; len(p) >= 6; p = p[6:] {
		if binary.BigEndian.Uint16(p) == settingTableSize {
			other.table.SetAllowedMaxDynamicTableSize(min(binary.BigEndian.Uint32(p[2:]), maxTableSize))
		}
	}
}

// headers handles a header block once it is complete.
func (w *way) headers(flags byte) {
	if flags&flagEndHeaders == 0 {
		return
	}
	clear(w.fields)
	w.fields, w.size = w.fields[:0], 0
	_, err := w.table.Write(w.block)
	if err = errors.Join(err, w.table.Close()); err == nil && w.size > maxHead {
		err = errors.New("headers of more than 256 KiB")
	}
	if cap(w.block) > 64<<10 {
		w.block = nil
	}
	if err != nil {
		w.lose(err.Error())
		return
	}
	if w.push {
		return
	}
	pseudo := map[string]string{}
	h := make(http.Header, len(w.fields))
	size := 0
	for _, f := range w.fields {
		switch size += len(f.Name) + min(len(f.Value), maxField) + 32; {
		case f.IsPseudo():
			pseudo[f.Name] = short(f.Value)
		case size <= maxFields:
			h.Add(short(f.Name), short(f.Value))
		default:
			h.Set("Parley-Cut", "more headers are not recorded")
		}
	}
	if w.response {
		w.beginResponse(pseudo, h)
	} else {
		w.beginRequest(pseudo, h)
	}
}

func (w *way) beginRequest(pseudo map[string]string, h http.Header) {
	s := w.c.streams[w.id]
	if s != nil { // trailers
		if w.ends {
			w.asked(s)
		}
		return
	}
	if len(w.c.streams) >= maxStreams {
		w.lose("too many streams at once")
		return
	}
	if pseudo[":authority"] != "" {
		h.Set("Host", pseudo[":authority"])
	}
	s = &stream{exchange: &exchange{json: isJSON(h) && !w.ends}}
	s.x = w.c.t.wire().Exchange(capture.Out, pseudo[":method"], pseudo[":path"], h)
	s.request = openBody(h)
	s.request.sink = &bodySink{x: s.x, dir: capture.Out, json: s.json, all: kept{conn: &w.c.t.collected}}
	w.c.streams[w.id] = s
	if w.ends {
		w.asked(s)
	}
}

// openBody returns a body whose end is marked by frames.
func openBody(h http.Header) *body {
	return newBody(mediaType(h.Get("Content-Type")), strings.ToLower(h.Get("Content-Encoding")), -1, false, true)
}

// asked ends a request.
func (w *way) asked(s *stream) {
	if !s.asked {
		s.asked = true
		s.request.sink.endBody(s.request)
	}
}

func (w *way) beginResponse(pseudo map[string]string, h http.Header) {
	s := w.c.streams[w.id]
	if s == nil {
		return
	}
	if s.response == nil {
		status, err := strconv.Atoi(pseudo[":status"])
		if err != nil || status < 200 {
			return // an interim response
		}
		s.x.Head(status, h)
		s.response = openBody(h)
		s.stream = s.response.stream
		s.response.sink = &bodySink{x: s.x, dir: capture.In, json: s.json && isJSON(h), refused: status >= 400, all: kept{conn: &w.c.t.collected}}
	}
	if w.ends {
		w.over(w.id, nil)
	}
}

// data handles a part of a body.
func (w *way) data(id uint32, p []byte, ends bool) {
	s := w.c.streams[id]
	if s == nil {
		return
	}
	b := s.request
	if w.response {
		b = s.response
	}
	if b != nil && len(p) > 0 {
		b.feedBody(p)
	}
	switch {
	case !ends:
	case w.response:
		w.over(id, nil)
	default:
		w.asked(s)
	}
}

// over ends a stream.
func (w *way) over(id uint32, err error) {
	s := w.c.streams[id]
	if s == nil {
		return
	}
	delete(w.c.streams, id)
	w.asked(s)
	if s.response != nil {
		s.response.sink.endBody(s.response)
	}
	s.x.End(err)
}

// reset handles the cancellation of a stream by either side.
func (w *way) reset(id, code uint32) {
	err := fmt.Errorf("reset by the server with code %d", code)
	if !w.response {
		if err = capture.ErrGaveUp; code != errorCancel {
			err = fmt.Errorf("reset by the client with code %d", code)
		}
	}
	w.over(id, err)
}

// endInput handles the end of one direction.
func (w *way) endInput() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.payload.free()
}

// cut ends the streams without a complete response.
func (c *twin) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutLocked(errCut)
}

// cutLocked ends all streams. why applies to those that are not event streams.
func (c *twin) cutLocked(why error) {
	for id, s := range c.streams {
		if s.stream {
			c.ways[1].over(id, nil)
		} else {
			c.ways[1].over(id, why)
		}
	}
}

// isPreface reports whether a head is the HTTP/2 preface.
func isPreface(head []byte) bool {
	return strings.HasPrefix(string(head[:min(len(head), 32)]), prefaceHead)
}
