package capture

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Wire records one connection. All HTTP traffic to one endpoint is one Wire, independent of its
// TCP connections, because a response may use a different one. It is safe for concurrent use.
type Wire struct {
	r      *Recorder
	conn   int64
	closed atomic.Bool

	mu      sync.Mutex // guards the fields below
	since   time.Time  // start of the current second
	lines   int        // stderr lines in it
	bytes   int
	dropped int // lines that were not recorded
}

// Limits of the stderr recorded per connection and second. Without them, a program that floods
// stderr would displace the recorded messages.
const (
	stderrLines = 1000
	stderrBytes = 256 << 10
)

// Wire records that a connection was opened.
func (r *Recorder) Wire(info WireInfo) *Wire {
	w := &Wire{r: r, conn: r.conns.Add(1)}
	r.Add(Event{Kind: KindOpen, Conn: w.conn, Wire: &info})
	return w
}

// Conn returns the number of the connection in the recording.
func (w *Wire) Conn() int64 { return w.conn }

// Payload records one framed payload, valid JSON or not. It returns its number.
func (w *Wire) Payload(d Dir, payload []byte) int64 {
	return w.r.Add(Event{Kind: KindMessage, Dir: d, Conn: w.conn, Data: payload})
}

// PayloadAt is Payload with a given time.
func (w *Wire) PayloadAt(at time.Time, d Dir, payload []byte) int64 {
	return w.r.Add(Event{Kind: KindMessage, Time: at, Dir: d, Conn: w.conn, Data: payload})
}

// Cut records the start of a payload that is too long to store. size is its full length.
func (w *Wire) Cut(d Dir, begin []byte, size int) int64 {
	return w.r.Add(Event{Kind: KindMessage, Dir: d, Conn: w.conn, Data: begin, Size: size})
}

// Junk records bytes that are not a payload, with a description.
func (w *Wire) Junk(d Dir, data []byte, what string) int64 {
	return w.r.Add(Event{Kind: KindJunk, Dir: d, Conn: w.conn, Data: data, Text: what})
}

// Stderr records a line, without its line end, that the server's process wrote to stderr. Beyond
// 1,000 lines or 256 KiB per second, lines are dropped, and a line with their number follows.
// Stderr returns 0 for a dropped line.
func (w *Wire) Stderr(line []byte) int64 {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) >= time.Second {
		w.since, w.lines, w.bytes = now, 0, 0
		w.tellDroppedLocked()
	}
	if w.lines >= stderrLines || w.bytes >= stderrBytes {
		w.dropped++
		return 0
	}
	w.lines++
	w.bytes += len(line)
	return w.r.Add(Event{Kind: KindStderr, Dir: In, Conn: w.conn, Data: line})
}

// tellDroppedLocked records the number of dropped stderr lines.
func (w *Wire) tellDroppedLocked() {
	if w.dropped == 0 {
		return
	}
	w.r.Add(Event{Kind: KindStderr, Dir: In, Conn: w.conn, Data: fmt.Appendf(nil, "%d lines dropped", w.dropped), Text: "stderr was written faster than it can be recorded"})
	w.dropped = 0
}

// ErrHungUp ends a connection that the client closed while it was whole: its waiting calls are
// cancelled, and no rule is broken.
var ErrHungUp = errors.New("closed by the client")

// Close records the end of the connection. err is the reason, or nil for a clean end, and
// [ErrHungUp] if the client closed it. Only the first call has an effect.
func (w *Wire) Close(err error) {
	if w.closed.Swap(true) {
		return
	}
	w.mu.Lock()
	w.tellDroppedLocked()
	w.mu.Unlock()
	e := Event{Kind: KindClose, Conn: w.conn}
	if err != nil {
		e.Text = err.Error()
	}
	w.r.Add(e)
}

// An Exchange records one HTTP request and its response.
type Exchange struct {
	w     *Wire
	id    int64
	dir   Dir // of the request
	ended atomic.Bool
}

// Exchange records the head of a request in the direction d. uri is the path and query of the
// request line.
func (w *Wire) Exchange(d Dir, method, uri string, h http.Header) *Exchange {
	return w.ExchangeFields(d, method, uri, flat(h))
}

// ExchangeFields is [Wire.Exchange] for headers as a list of names, in the canonical form of
// net/http, and values in turn. It retains the slice.
func (w *Wire) ExchangeFields(d Dir, method, uri string, fields []string) *Exchange {
	x := &Exchange{w: w, id: w.r.exchanges.Add(1), dir: d}
	w.r.Add(Event{Kind: KindRequest, Dir: d, Conn: w.conn, Exchange: x.id, Method: method, URL: uri, fields: fields})
	return x
}

// flat returns a copy of h as a list, with one allocation instead of a map.
func flat(h http.Header) []string {
	out := make([]string, 0, 2*len(h)+4)
	for name, values := range h {
		for _, v := range values {
			out = append(out, name, v)
		}
	}
	return out
}

// headerOf is the inverse of flat.
func headerOf(fields []string) http.Header {
	h := make(http.Header, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		h[fields[i]] = append(h[fields[i]], fields[i+1])
	}
	return h
}

// ID returns the number of the exchange in the recording.
func (x *Exchange) ID() int64 { return x.id }

// Request records a payload of the request's body.
func (x *Exchange) Request(payload []byte) int64 { return x.payload(x.dir, payload, "") }

// Head records the head of the response.
func (x *Exchange) Head(status int, h http.Header) {
	x.HeadFields(status, flat(h))
}

// HeadFields is [Exchange.Head] for headers as [Wire.ExchangeFields] accepts them.
func (x *Exchange) HeadFields(status int, fields []string) {
	x.w.r.Add(Event{Kind: KindResponse, Dir: x.dir.Back(), Conn: x.w.conn, Exchange: x.id, Status: status, fields: fields})
}

// Response records a payload of the response: its body, or the data of an event in its stream.
// eventID is the ID of that event, or "".
func (x *Exchange) Response(payload []byte, eventID string) int64 {
	return x.payload(x.dir.Back(), payload, eventID)
}

func (x *Exchange) payload(d Dir, payload []byte, eventID string) int64 {
	return x.w.r.Add(Event{Kind: KindMessage, Dir: d, Conn: x.w.conn, Exchange: x.id, Data: payload, EventID: eventID})
}

// Junk records a body, or a part of one, that is not a payload.
func (x *Exchange) Junk(d Dir, data []byte, what string) {
	x.w.r.Add(Event{Kind: KindJunk, Dir: d, Conn: x.w.conn, Exchange: x.id, Data: data, Text: what})
}

// ErrGaveUp ends an exchange that its client cancelled: its calls are cancelled, and no rule is
// broken.
var ErrGaveUp = errors.New("cancelled by the client")

// End records the end of the response. err is nil for a clean end, and [ErrGaveUp] if the client
// cancelled it. Only the first call has an effect.
func (x *Exchange) End(err error) {
	if x.ended.Swap(true) {
		return
	}
	e := Event{Kind: KindEnd, Dir: x.dir.Back(), Conn: x.w.conn, Exchange: x.id}
	if err != nil {
		e.Text = err.Error()
	}
	x.w.r.Add(e)
}

// Transport returns t with recording: the Wire records what is read (In), what is written (Out),
// and the end. On the server's side of a connection the directions are reversed; use
// [Wire.ServerTransport] there.
func (w *Wire) Transport(t jsonrpc.Transport) jsonrpc.Transport {
	return &transport{Transport: t, w: w, read: In}
}

// ServerTransport is [Wire.Transport] for the server's side: what is read was sent by the client
// and is recorded as Out.
func (w *Wire) ServerTransport(t jsonrpc.Transport) jsonrpc.Transport {
	return &transport{Transport: t, w: w, read: Out}
}

type transport struct {
	jsonrpc.Transport
	w     *Wire
	read  Dir
	shown bool        // a TryWrite has recorded the burst of the next Write
	ended atomic.Bool // Read has failed
}

func (t *transport) Read() (payload []byte, more bool, err error) {
	payload, more, err = t.Transport.Read()
	if err == nil {
		t.w.Payload(t.read, payload)
	} else {
		t.ended.Store(true)
	}
	return payload, more, err
}

func (t *transport) Write(b jsonrpc.Burst) error {
	if !t.shown {
		t.record(b)
	}
	t.shown = false
	return t.Transport.Write(b)
}

func (t *transport) TryWrite(b jsonrpc.Burst) bool {
	if !t.shown {
		t.record(b) // before the write, so that its response is not recorded first
	}
	t.shown = !t.Transport.TryWrite(b)
	return !t.shown
}

func (t *transport) WrittenBytes() uint64 { return jsonrpc.WrittenBytes(t.Transport) }

func (t *transport) record(b jsonrpc.Burst) {
	for payload := range b.All() {
		t.w.Payload(t.read.Back(), payload)
	}
}

func (t *transport) Close() error {
	var why error
	if t.read == In && !t.ended.Load() {
		why = ErrHungUp
	}
	err := t.Transport.Close()
	t.w.Close(why)
	return err
}
