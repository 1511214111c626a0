package tap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/capture"
)

// maxHead bounds the head of an HTTP message; maxOther what is kept of a body that is no JSON.
const (
	maxHead  = 256 << 10
	maxOther = 64 << 10
)

// A talk is one HTTP connection as it passes: a reader for each direction, which share the exchanges that wait for their response.
type talk struct {
	wire func() *capture.Wire // of HTTP
	ws   func() *capture.Wire // of a WebSocket, once it is one
	twin atomic.Pointer[twin] // of HTTP/2, once it is that

	mu      sync.Mutex // guards what is below
	waiting []*exchange
	socket  *capture.Wire
}

type exchange struct {
	x      *capture.Exchange
	method string
	json   bool // the request has a JSON body, so the response is one, too
	stream bool // the response is an event stream, which may end at any time
}

// A half reads one direction of a talk.
type half struct {
	t        *talk
	response bool
	rewrite  func(head []byte) []byte // of request heads; nil: as they are

	head []byte
	body *body
	x    *exchange
	mute bool   // nobody wants to know what is to be sent
	raw  reader // after an upgrade
	lost bool
}

// take reads p as it passes.
func (h *half) take(p []byte) {
	h.mute = true
	h.filter(p, nil)
	h.mute = false
}

// emit appends p to what is to be sent, if somebody wants it.
func (h *half) emit(out, p []byte) []byte {
	if h.mute {
		return out
	}
	return append(out, p...)
}

// filter reads p and appends what is to be sent instead to out: the same bytes, but for request heads that are rewritten.
func (h *half) filter(p, out []byte) []byte {
	for len(p) > 0 {
		switch {
		case h.raw != nil:
			h.raw.take(p)
			return h.emit(out, p)
		case h.lost:
			return h.emit(out, p)
		case h.body != nil:
			n := h.body.take(p)
			out = h.emit(out, p[:n])
			p = p[n:]
			if h.body.done {
				h.finish(nil)
			}
		case h.response && h.t.twin.Load() != nil:
			way := h.t.twin.Load().ways[1]
			way.take(h.head) // a server may speak first
			h.raw, h.head = way, nil
		default:
			p, out = h.headBytes(p, out)
		}
	}
	return out
}

// keeps reports whether the next n bytes will be sent as they are.
func (h *half) keeps(n int) bool {
	return h.rewrite == nil || h.raw != nil || h.lost || h.body != nil && !h.body.chunked && (h.body.toEnd || h.body.left >= int64(n))
}

// headBytes takes bytes of a head, up to its end.
func (h *half) headBytes(p, out []byte) (rest, sent []byte) {
	before := len(h.head)
	h.head = append(h.head, p...)
	from := max(0, before-3)
	end, size := bytes.Index(h.head[from:], []byte("\r\n\r\n")), 4
	if end < 0 {
		if len(h.head) > maxHead {
			h.lose("a head that does not end")
			return nil, h.emit(out, h.takeHead())
		}
		if h.rewrite == nil {
			out = h.emit(out, p)
		}
		return nil, out
	}
	end += from + size
	taken := end - before
	head := h.head[:end]
	if h.rewrite == nil {
		out = h.emit(out, p[:taken])
	} else {
		out = h.emit(out, h.rewrite(head))
	}
	h.begin(head)
	h.head = h.head[:0]
	return p[taken:], out
}

// takeHead is what was held back.
func (h *half) takeHead() []byte {
	head := h.head
	h.head = nil
	if h.rewrite == nil {
		return nil // it was sent as it came
	}
	return head
}

func (h *half) begin(head []byte) {
	if h.response {
		h.beginResponse(head)
	} else {
		h.beginRequest(head)
	}
}

func (h *half) beginRequest(text []byte) {
	if isPreface(text) {
		twin := newTwin(h.t)
		h.raw = twin.ways[0]
		h.t.twin.Store(twin)
		return
	}
	req, err := parseHead(text, false, "")
	if err != nil {
		h.lose(err.Error())
		return
	}
	x := &exchange{method: req.method, json: req.isJSON() && (req.length != 0 || req.chunked)}
	socket := strings.EqualFold(req.upgrade, "websocket")
	h.t.mu.Lock()
	var wire *capture.Wire
	if socket {
		if h.t.socket == nil {
			h.t.socket = h.t.ws()
		}
		wire = h.t.socket
	} else {
		wire = h.t.wire()
	}
	x.x = wire.ExchangeFields(capture.Out, req.method, req.uri, req.fields)
	h.t.waiting = append(h.t.waiting, x)
	h.t.mu.Unlock()
	h.x = x
	if socket {
		h.raw = &frames{s: wireSink{wire, capture.Out}}
		return
	}
	h.body = newBody(req.kind, req.coding, req.length, req.chunked, false)
	h.body.sink = &bodySink{x: x.x, dir: capture.Out, json: x.json}
	if h.body.done {
		h.finish(nil)
	}
}

func (h *half) beginResponse(text []byte) {
	h.t.mu.Lock()
	var x *exchange
	if len(h.t.waiting) > 0 {
		x = h.t.waiting[0]
	}
	h.t.mu.Unlock()
	if x == nil {
		h.lose("a response to nothing")
		return
	}
	resp, err := parseHead(text, true, x.method)
	if err != nil {
		h.lose(err.Error())
		return
	}
	switch {
	case resp.status == http.StatusSwitchingProtocols:
		x.x.HeadFields(resp.status, resp.fields)
		x.x.End(nil)
		h.t.mu.Lock()
		socket := h.t.socket
		h.t.mu.Unlock()
		if socket == nil {
			h.lose("another protocol")
			return
		}
		h.raw = &frames{s: wireSink{socket, capture.In}}
		return
	case resp.status < 200:
		return // 100 Continue: another head follows
	}
	x.x.HeadFields(resp.status, resp.fields)
	h.x = x
	none := x.method == http.MethodHead || resp.status == http.StatusNoContent || resp.status == http.StatusNotModified
	if none {
		resp.length, resp.chunked = 0, false
	}
	h.body = newBody(resp.kind, resp.coding, resp.length, resp.chunked, !none)
	h.t.mu.Lock()
	x.stream = h.body.stream
	h.t.mu.Unlock()
	h.body.sink = &bodySink{x: x.x, dir: capture.In, json: x.json && resp.isJSON(), refused: resp.status >= 400}
	if h.body.done {
		h.finish(nil)
	}
}

// finish ends a message.
func (h *half) finish(err error) {
	h.body.sink.end(h.body)
	h.body = nil
	if h.response {
		h.x.x.End(err)
		h.t.mu.Lock()
		if len(h.t.waiting) > 0 && h.t.waiting[0] == h.x {
			h.t.waiting = h.t.waiting[1:]
		}
		h.t.mu.Unlock()
	}
	h.x = nil
}

// lose gives up reading: what passes is not understood any more.
func (h *half) lose(why string) {
	h.lost = true
	dir := capture.Out
	if h.response {
		dir = capture.In
	}
	h.t.mu.Lock()
	w := h.t.socket
	h.t.mu.Unlock()
	if w == nil {
		w = h.t.wire()
	}
	w.Junk(dir, h.head[:min(len(h.head), maxOther)], "no HTTP that can be read: "+why)
}

func (h *half) end() {
	switch {
	case h.raw != nil:
		h.raw.end()
	case h.body != nil && h.body.toEnd:
		h.body.done = true
		h.finish(nil)
	case h.body != nil:
		if h.response && h.body.stream {
			h.finish(nil)
			return
		}
		h.finish(errCut)
	}
}

var errCut = errors.New("the connection ended inside it")

// cut ends the exchanges that never had a whole response.
func (t *talk) cut() {
	if twin := t.twin.Load(); twin != nil {
		twin.cut()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.waiting {
		if x.stream {
			x.x.End(nil)
			continue
		}
		x.x.End(errCut)
	}
	t.waiting = nil
	if t.socket != nil {
		t.socket.Close(nil)
	}
}

// A body takes the bytes of an HTTP body off a stream, chunked or not.
type body struct {
	sink  *bodySink
	left  int64 // of the body, or of this chunk
	toEnd bool  // it ends with the connection
	done  bool

	chunked bool
	state   int // of chunked: 0 the size's line, 1 data, 2 the line end behind it, 3 trailers
	line    []byte

	stream bool   // text/event-stream
	coding string // gzip
	kind   string
}

func newBody(kind, coding string, length int64, chunked, untilEnd bool) *body {
	b := &body{kind: kind, stream: kind == "text/event-stream", coding: coding, chunked: chunked, left: length}
	switch {
	case b.chunked:
	case length < 0 && untilEnd:
		b.toEnd = true
	case length <= 0:
		b.done = true
	}
	return b
}

// take takes what belongs to the body and returns how much that was.
func (b *body) take(p []byte) int {
	switch {
	case b.toEnd:
		b.sink.data(b, p)
		return len(p)
	case !b.chunked:
		n := int(min(b.left, int64(len(p))))
		b.sink.data(b, p[:n])
		b.left -= int64(n)
		b.done = b.left == 0
		return n
	}
	taken := 0
	for taken < len(p) && !b.done {
		if b.state == 1 {
			n := int(min(b.left, int64(len(p)-taken)))
			b.sink.data(b, p[taken:taken+n])
			b.left -= int64(n)
			taken += n
			if b.left == 0 {
				b.state = 2
			}
			continue
		}
		rest := p[taken:]
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			b.line = append(b.line, rest[:min(len(rest), maxBlock)]...)
			if len(b.line) > maxBlock {
				b.broken()
			}
			return len(p)
		}
		b.line = append(b.line, rest[:i]...)
		taken += i + 1
		b.chunkLine(strings.TrimSpace(string(b.line)))
		b.line = b.line[:0]
	}
	return taken
}

// chunkLine takes a line between chunks (RFC 9112, section 7.1).
func (b *body) chunkLine(line string) {
	switch b.state {
	case 0:
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(strings.TrimSpace(size), 16, 50)
		if err != nil {
			b.broken()
			return
		}
		b.left, b.state = int64(n), 1
		if n == 0 {
			b.state = 3
		}
	case 2:
		b.state = 0
	case 3:
		b.done = line == ""
	}
}

// broken: chunks that cannot be read. What passes is taken as data until the end.
func (b *body) broken() { b.chunked, b.toEnd = false, true }

// A bodySink makes payloads of a body.
type bodySink struct {
	x    *capture.Exchange
	dir  capture.Dir
	json bool // it should be a payload

	refused bool // the status is an error: the body may be JSON of another kind
	all     kept
	sse     *events
}

func (s *bodySink) data(b *body, p []byte) {
	if b.stream && b.coding == "" {
		if s.sse == nil {
			s.sse = &events{found: s.event}
		}
		s.sse.take(p)
		return
	}
	if s.all.size == 0 && !b.chunked && !b.toEnd && b.left == int64(len(p)) && len(p) <= maxKept {
		s.all = kept{p[:len(p):len(p)], len(p)} // all of it: it is used before p changes
		return
	}
	s.all.add(p)
}

func (s *bodySink) event(data []byte, id string, size int) {
	if s.dir == capture.Out {
		s.x.Request(data)
		return
	}
	if size > len(data) {
		s.x.Junk(s.dir, data[:min(len(data), maxOther)], fmt.Sprintf("an event of %d bytes", size))
		return
	}
	s.x.Response(data, id)
}

func (s *bodySink) end(b *body) {
	if b.stream && b.coding == "" {
		if s.sse != nil {
			s.sse.end()
		}
		return
	}
	data, size := s.all.buf, s.all.size
	if size == 0 {
		return
	}
	if b.coding == "gzip" && size == len(data) {
		if plain, err := gunzip(data); err == nil {
			data, size = plain, len(plain)
		}
	}
	switch {
	case b.stream:
		(&events{found: s.event}).take(data)
	case !s.json || size > len(data) || s.refused && !bytes.Contains(data, []byte(`"jsonrpc"`)):
		s.x.Junk(s.dir, data[:min(len(data), maxOther)], fmt.Sprintf("a body of %s, %d bytes", b.kind, size))
	case s.dir == capture.Out:
		s.x.Request(data)
	default:
		s.x.Response(data, "")
	}
}

func gunzip(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, maxKept))
}

// events takes an event stream apart as it passes (HTML, section 9.2.6).
type events struct {
	found func(data []byte, id string, size int)
	line  kept
	cr    bool // the last byte was "\r"
	data  kept
	has   bool
	kind  string
	id    string
}

func (e *events) take(p []byte) {
	for len(p) > 0 {
		if e.cr && p[0] == '\n' {
			e.cr = false
			p = p[1:]
			continue
		}
		e.cr = false
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			e.line.add(p)
			return
		}
		e.line.add(p[:i])
		e.cr = p[i] == '\r'
		e.oneLine(e.line.buf)
		e.line.reset()
		p = p[i+1:]
	}
}

func (e *events) oneLine(line []byte) {
	if len(line) == 0 {
		// MCP's older transport announces its endpoint in an event of its own, which is no message.
		if e.has && e.data.size > 0 && (e.kind == "" || e.kind == "message") {
			e.found(e.data.buf, e.id, e.data.size)
		}
		e.data.reset()
		e.has, e.kind = false, ""
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if e.has {
			e.data.add([]byte("\n"))
		}
		e.has = true
		e.data.add(value)
	case "event":
		e.kind = string(value)
	case "id":
		e.id = string(value)
	}
}

func (e *events) end() {}
