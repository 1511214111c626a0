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
	"github.com/da1ed7bb/parley/internal/x/httptoken"
)

// maxHead limits the head of an HTTP message; maxOther limits the stored part of a body that is not
// JSON.
const (
	maxHead  = 256 << 10
	maxOther = 64 << 10
)

// Limits of the recorded part of one head, in bytes. Longer heads are forwarded but truncated in
// the recording. Judges and readers examine short headers.
const (
	maxLine   = 64 << 10 // of the first line of a delayed request
	maxField  = 8 << 10
	maxFields = 64 << 10
)

// short returns text as it is recorded.
func short(text string) string {
	if len(text) <= maxField {
		return text
	}
	return strings.Clone(text[:maxField]) + "…"
}

// shortFields returns names and values in turn as they are recorded.
func shortFields(fields []string) []string {
	size := 0
	for i := 0; i+1 < len(fields); i += 2 {
		fields[i], fields[i+1] = short(fields[i]), short(fields[i+1])
		if size += len(fields[i]) + len(fields[i+1]) + 32; size > maxFields {
			return append(fields[:i:i], "Parley-Cut", strconv.Itoa((len(fields)-i)/2)+" more headers are not recorded")
		}
	}
	return fields
}

// A talk is one forwarded HTTP connection. The readers of its directions share the exchanges that
// wait for a response.
type talk struct {
	wire func() *capture.Wire // for HTTP
	ws   func() *capture.Wire // for a WebSocket, after the upgrade
	twin atomic.Pointer[twin] // for HTTP/2, once it is detected

	mu      sync.Mutex // guards the fields below
	waiting []*exchange
	socket  *capture.Wire

	collected atomic.Int64 // bytes of bodies
}

type exchange struct {
	x      *capture.Exchange
	method string
	json   bool // the request has a JSON body, so the response has one, too
	stream bool // the response is an event stream, which may end at any time
}

// A half reads one direction of a talk.
type half struct {
	t        *talk
	response bool
	rewrite  func(head []byte) []byte // rewrites request heads; if nil, they are unchanged

	head   []byte
	looked int  // how much of head was searched for line ends
	line   int  // start of the last line in head
	odd    bool // one of its lines is invalid
	body   *body
	x      *exchange
	mute   bool   // the output of filter is not needed
	raw    reader // after an upgrade
	lost   bool
}

// feed reads forwarded bytes.
func (h *half) feed(p []byte) {
	h.mute = true
	h.filter(p, nil)
	h.mute = false
}

// emit appends p to the output unless the output is muted.
func (h *half) emit(out, p []byte) []byte {
	if h.mute {
		return out
	}
	return append(out, p...)
}

// filter reads p and appends the bytes to forward to out: the same bytes, except for rewritten
// request heads.
func (h *half) filter(p, out []byte) []byte {
	for len(p) > 0 {
		switch {
		case h.raw != nil:
			h.raw.feed(p)
			return h.emit(out, p)
		case h.lost:
			return h.emit(out, p)
		case h.body != nil:
			n := h.body.feedBody(p)
			out = h.emit(out, p[:n])
			p = p[n:]
			if h.body.done {
				h.finish(nil)
			}
		case h.response && h.t.twin.Load() != nil:
			way := h.t.twin.Load().ways[1]
			way.feed(h.head) // a server may speak first
			h.raw, h.head = way, nil
		default:
			p, out = h.headBytes(p, out)
		}
	}
	return out
}

// keeps reports whether the next n bytes are forwarded unchanged.
func (h *half) keeps(n int) bool {
	return h.rewrite == nil || h.raw != nil || h.lost || h.body != nil && !h.body.chunked && (h.body.toEnd || h.body.left >= int64(n))
}

// headBytes reads bytes of a head, up to its end.
func (h *half) headBytes(p, out []byte) (rest, sent []byte) {
	before := len(h.head)
	h.head = append(h.head, p...)
	end := h.headEnd()
	if end < 0 {
		why := ""
		if len(h.head) > maxHead {
			why = "an unterminated header block"
		} else if h.rewrite != nil && !h.canBeHead() {
			why = "not a request" // it is not delayed: the server may respond to it
		}
		if h.rewrite == nil {
			out = h.emit(out, p)
		}
		if why != "" {
			h.lose(why)
			return nil, h.emit(out, h.takeHead())
		}
		return nil, out
	}
	taken := end - before
	head := h.head[:end]
	if h.rewrite == nil {
		out = h.emit(out, p[:taken])
	} else {
		out = h.emit(out, h.rewrite(head))
	}
	h.startMessage(head)
	h.head, h.looked, h.line, h.odd = h.head[:0], 0, 0, false
	return p[taken:], out
}

// headEnd returns the end of the collected head, after its empty line, or -1 if it is incomplete. A
// line may end with a bare newline, as most servers accept it (RFC 9112, section 2.2).
func (h *half) headEnd() int {
	for {
		i := bytes.IndexByte(h.head[h.looked:], '\n')
		if i < 0 {
			return -1
		}
		i += h.looked
		h.looked = i + 1
		line := h.head[h.line:i]
		h.odd = h.odd || h.line > 0 && !isField(bytes.TrimSuffix(line, []byte("\r")))
		empty := len(line) == 0 || len(line) == 1 && line[0] == '\r'
		if empty && h.line > 0 {
			return i + 1
		}
		h.line = i + 1
	}
}

// isField reports whether a line is valid in a head after its first line. Servers respond to an
// invalid line at once, without waiting for the end of the head.
func isField(line []byte) bool {
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return len(line) == 0 || line[0] == ' ' || line[0] == '\t' || bytes.IndexByte(line, ':') > 0
}

// canBeHead reports whether the collected bytes can still become a request head. Once the first
// line is complete, it decides.
func (h *half) canBeHead() bool {
	if h.odd {
		return false
	}
	line, _, whole := bytes.Cut(h.head, []byte("\n"))
	method, rest, more := bytes.Cut(line, []byte(" "))
	if len(method) > 0 && !httptoken.Valid(string(method[:min(len(method), 64)])) {
		return false
	}
	if !whole {
		return len(line) <= maxLine && bytes.IndexByte(bytes.TrimSuffix(line, []byte("\r")), '\r') < 0
	}
	space := bytes.LastIndexByte(rest, ' ')
	return more && space >= 0 && bytes.HasPrefix(rest[space+1:], []byte("HTTP/"))
}

// takeHead returns the delayed bytes.
func (h *half) takeHead() []byte {
	head := h.head
	h.head = nil
	if h.rewrite == nil {
		return nil // already sent unchanged
	}
	return head
}

func (h *half) startMessage(head []byte) {
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
	if len(h.t.waiting) >= maxStreams {
		h.t.mu.Unlock()
		h.lose("too many requests without a response")
		return
	}
	x.x = wire.ExchangeFields(capture.Out, req.method, short(req.uri), shortFields(req.fields))
	h.t.waiting = append(h.t.waiting, x)
	h.t.mu.Unlock()
	h.x = x
	if socket {
		h.raw = &frames{s: wireSink{wire, capture.Out}}
		return
	}
	h.body = newBody(req.kind, req.coding, req.length, req.chunked, false)
	h.body.sink = &bodySink{x: x.x, dir: capture.Out, json: x.json, all: kept{conn: &h.t.collected}}
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
		h.lose("a response without a request")
		return
	}
	resp, err := parseHead(text, true, x.method)
	if err != nil {
		h.lose(err.Error())
		return
	}
	switch {
	case resp.status == http.StatusSwitchingProtocols:
		x.x.HeadFields(resp.status, shortFields(resp.fields))
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
	x.x.HeadFields(resp.status, shortFields(resp.fields))
	h.x = x
	none := x.method == http.MethodHead || resp.status == http.StatusNoContent || resp.status == http.StatusNotModified
	if none {
		resp.length, resp.chunked = 0, false
	}
	h.body = newBody(resp.kind, resp.coding, resp.length, resp.chunked, !none)
	h.t.mu.Lock()
	x.stream = h.body.stream
	h.t.mu.Unlock()
	h.body.sink = &bodySink{x: x.x, dir: capture.In, json: x.json && resp.isJSON(), refused: resp.status >= 400, all: kept{conn: &h.t.collected}}
	if h.body.done {
		h.finish(nil)
	}
}

// finish ends a message.
func (h *half) finish(err error) {
	h.body.sink.endBody(h.body)
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

// lose stops parsing because the traffic is not understood.
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
	w.Junk(dir, h.head[:min(len(h.head), maxOther)], "not valid HTTP: "+why)
}

func (h *half) endInput() {
	switch {
	case h.raw != nil:
		h.raw.endInput()
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

// cut ends the exchanges without a complete response.
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

// A body reads an HTTP body from a stream, chunked or not.
type body struct {
	sink  *bodySink
	left  int64 // missing bytes of the body or of this chunk
	toEnd bool  // the body ends with the connection
	done  bool

	chunked bool
	// state of a chunked body: 0 line with the size, 1 data, 2 line end after the data, 3 trailers.
	state int
	line  []byte

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

// feedBody reads the bytes that belong to the body and returns their number.
func (b *body) feedBody(p []byte) int {
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

// chunkLine reads a line between chunks (RFC 9112, section 7.1).
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

// broken handles invalid chunks. The rest of the traffic is treated as data.
func (b *body) broken() { b.chunked, b.toEnd = false, true }

// A bodySink makes payloads from a body.
type bodySink struct {
	x    *capture.Exchange
	dir  capture.Dir
	json bool // expected to be a payload

	refused bool // the status is an error: the body may be JSON of another kind
	all     kept
	sse     *events
}

func (s *bodySink) data(b *body, p []byte) {
	if b.stream && b.coding == "" {
		if s.sse == nil {
			s.sse = &events{found: s.event, line: kept{conn: s.all.conn}, data: kept{conn: s.all.conn}}
		}
		s.sse.feed(p)
		return
	}
	if s.all.size == 0 && !b.chunked && !b.toEnd && b.left == int64(len(p)) && len(p) <= maxKept {
		// This is the whole body. It is used before p changes.
		s.all = kept{buf: p[:len(p):len(p)], size: len(p), conn: s.all.conn}
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

func (s *bodySink) endBody(b *body) {
	defer s.all.free()
	if b.stream && b.coding == "" {
		if s.sse != nil {
			s.sse.endInput()
		}
		return
	}
	data, size := s.all.buf, s.all.size
	if size == 0 {
		return
	}
	if b.coding == "gzip" && size == len(data) {
		if plain, n, err := gunzip(data); err == nil {
			data, size = plain, n
		}
	}
	switch {
	case b.stream:
		e := &events{found: s.event}
		e.feed(data)
		e.endInput()
		if size > len(data) {
			s.x.Junk(s.dir, nil, fmt.Sprintf("an event stream of %d bytes; the rest is not parsed", size))
		}
	case !s.json || size > len(data) || s.refused && !bytes.Contains(data, []byte(`"jsonrpc"`)):
		s.x.Junk(s.dir, data[:min(len(data), maxOther)], fmt.Sprintf("a body of %s, %d bytes", b.kind, size))
	case s.dir == capture.Out:
		s.x.Request(data)
	default:
		s.x.Response(data, "")
	}
}

// gunzip decompresses up to maxKept bytes and counts the rest up to maxExpanded.
func gunzip(data []byte) (plain []byte, size int, err error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, 0, err
	}
	if plain, err = io.ReadAll(io.LimitReader(z, maxKept)); err != nil {
		return nil, 0, err
	}
	rest, err := io.Copy(io.Discard, io.LimitReader(z, maxExpanded-maxKept))
	return plain, len(plain) + int(rest), err
}

// An events parses a forwarded event stream (HTML, section 9.2.6).
type events struct {
	found func(data []byte, id string, size int)
	line  kept
	cr    bool // the last byte was "\r"
	data  kept
	has   bool
	other bool   // its type is not "message"
	id    string // at most maxEventID bytes; it applies to all later events without one
}

// maxEventID is the number of bytes of an event's ID that are kept: more than a recording stores.
const maxEventID = 4 << 10

func (e *events) feed(p []byte) {
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
		// MCP's older transport announces its endpoint in a separate event, which is not a message.
		if e.has && e.data.size > 0 && !e.other {
			e.found(e.data.buf, e.id, e.data.size)
		}
		e.data.reset()
		e.has, e.other = false, false
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
		e.other = len(value) > 0 && string(value) != "message"
	case "id":
		e.id = string(value[:min(len(value), maxEventID)])
	}
}

func (e *events) endInput() {
	e.line.free()
	e.data.free()
}
