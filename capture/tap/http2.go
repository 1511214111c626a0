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

// preface is what an HTTP/2 client says first (RFC 9113, section 3.4). Its first part looks like the head of a request.
const (
	prefaceHead = "PRI * HTTP/2.0\r\n\r\n"
	prefaceRest = "SM\r\n\r\n"
)

// Kinds of frames, their flags and what else of HTTP/2 is looked at (RFC 9113, sections 6 and 11).
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

// A twin is one HTTP/2 connection as it passes. What the two directions know of it is needed by both: streams, and how large the
// other's table of headers may be.
type twin struct {
	t *talk

	mu      sync.Mutex // guards what is below, and both ways
	streams map[uint32]*stream
	ways    [2]*way // of requests, of responses
}

// A stream is one request with its response.
type stream struct {
	*exchange
	request, response *body
	asked             bool // the request is whole
}

// A way reads the frames of one direction.
type way struct {
	c        *twin
	response bool
	dir      capture.Dir

	skip    string // of the preface
	head    []byte // of a frame
	payload kept
	want    int // bytes of the payload
	lost    bool

	table  *hpack.Decoder
	fields []hpack.HeaderField // of the block that is read
	block  []byte
	ends   bool   // the block that is read ends its stream
	id     uint32 // of the block that is read
	push   bool   // it is a promise: what is promised is not shown
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
		w.table = hpack.NewDecoder(4096, func(f hpack.HeaderField) { w.fields = append(w.fields, f) })
		w.table.SetMaxStringLength(maxHead)
		c.ways[i] = w
	}
	return c
}

// take reads p as it passes.
func (w *way) take(p []byte) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for len(p) > 0 && !w.lost {
		switch {
		case w.skip != "":
			if p[0] != w.skip[0] {
				w.lose("the preface of HTTP/2 goes on otherwise")
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
		case w.payload.size == 0 && len(p) >= w.want: // whole, as most are: no copy
			data := p[:w.want]
			p = p[w.want:]
			w.frame(data)
		default:
			n := min(w.want-w.payload.size, len(p))
			w.payload.add(p[:n])
			p = p[n:]
			if w.payload.size == w.want {
				w.frame(w.payload.buf)
				w.payload.reset()
			}
		}
	}
}

// lose gives up reading this direction: what passes is not understood any more.
func (w *way) lose(why string) {
	w.lost = true
	w.c.t.wire().Junk(w.dir, nil, "no HTTP/2 that can be read: "+why)
}

// frame takes a whole frame.
func (w *way) frame(p []byte) {
	kind, flags := w.head[3], w.head[4]
	id := binary.BigEndian.Uint32(w.head[5:]) & 0x7fffffff
	w.head = w.head[:0]
	if flags&flagPadded != 0 && (kind == frameData || kind == frameHeaders || kind == framePushPromise) {
		if len(p) == 0 || int(p[0]) >= len(p) {
			w.lose("a frame of padding alone")
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
			w.lose("a promise of nothing")
			return
		}
		w.push, w.block = true, append(w.block[:0], p[4:]...)
		w.headers(flags)
	case frameContinuation:
		if w.block = append(w.block, p...); len(w.block) > maxHead {
			w.lose("headers that do not end")
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

// settings bind the other side: how large its table may be (RFC 7541, section 4.2).
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

// headers takes a block of headers once it is whole.
func (w *way) headers(flags byte) {
	if flags&flagEndHeaders == 0 {
		return
	}
	w.fields = w.fields[:0]
	_, err := w.table.Write(w.block)
	if err = errors.Join(err, w.table.Close()); err != nil {
		w.lose(err.Error())
		return
	}
	if w.push {
		return
	}
	pseudo := map[string]string{}
	h := make(http.Header, len(w.fields))
	for _, f := range w.fields {
		if f.IsPseudo() {
			pseudo[f.Name] = f.Value
		} else {
			h.Add(f.Name, f.Value)
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
	s.request.sink = &bodySink{x: s.x, dir: capture.Out, json: s.json}
	w.c.streams[w.id] = s
	if w.ends {
		w.asked(s)
	}
}

// openBody is a body whose end is told by others.
func openBody(h http.Header) *body {
	return newBody(mediaType(h.Get("Content-Type")), strings.ToLower(h.Get("Content-Encoding")), -1, false, true)
}

// asked ends a request.
func (w *way) asked(s *stream) {
	if !s.asked {
		s.asked = true
		s.request.sink.end(s.request)
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
			return // what comes before the response
		}
		s.x.Head(status, h)
		s.response = openBody(h)
		s.stream = s.response.stream
		s.response.sink = &bodySink{x: s.x, dir: capture.In, json: s.json && isJSON(h), refused: status >= 400}
	}
	if w.ends {
		w.over(w.id, nil)
	}
}

// data takes a part of a body.
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
		b.take(p)
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
		s.response.sink.end(s.response)
	}
	s.x.End(err)
}

// reset is the end of a stream by whoever did not want it any more.
func (w *way) reset(id, code uint32) {
	err := fmt.Errorf("reset by the server with code %d", code)
	if !w.response {
		if err = capture.ErrGaveUp; code != errorCancel {
			err = fmt.Errorf("reset by the client with code %d", code)
		}
	}
	w.over(id, err)
}

// end is the end of one direction.
func (w *way) end() {}

// cut ends the streams that never had a whole response.
func (c *twin) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.streams {
		var err error
		if !s.stream {
			err = errCut
		}
		c.ways[1].over(id, err)
	}
}

// isPreface reports whether a head is that of HTTP/2's preface.
func isPreface(head []byte) bool {
	return strings.HasPrefix(string(head[:min(len(head), 32)]), prefaceHead)
}
