package capture

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Wire records one connection. HTTP to one endpoint is one Wire, whatever TCP connections it takes, since an answer may come by
// another one. It is safe for concurrent use.
type Wire struct {
	r      *Recorder
	conn   int64
	closed atomic.Bool
}

// Wire records that a connection was opened.
func (r *Recorder) Wire(info WireInfo) *Wire {
	w := &Wire{r: r, conn: r.conns.Add(1)}
	r.Add(Event{Kind: KindOpen, Conn: w.conn, Wire: &info})
	return w
}

// Conn is the number of the connection in the recording.
func (w *Wire) Conn() int64 { return w.conn }

// Payload records one payload that was framed: JSON or not. It returns its number.
func (w *Wire) Payload(d Dir, payload []byte) int64 {
	return w.r.Add(Event{Kind: KindMessage, Dir: d, Conn: w.conn, Data: payload})
}

// PayloadAt is Payload at a time of the caller's.
func (w *Wire) PayloadAt(at time.Time, d Dir, payload []byte) int64 {
	return w.r.Add(Event{Kind: KindMessage, Time: at, Dir: d, Conn: w.conn, Data: payload})
}

// Cut records the beginning of a payload that was longer than anybody wants to keep.
func (w *Wire) Cut(d Dir, begin []byte, size int) int64 {
	return w.r.Add(Event{Kind: KindMessage, Dir: d, Conn: w.conn, Data: begin, Size: size})
}

// Junk records bytes that are no payload, and what they are.
func (w *Wire) Junk(d Dir, data []byte, what string) int64 {
	return w.r.Add(Event{Kind: KindJunk, Dir: d, Conn: w.conn, Data: data, Text: what})
}

// Stderr records a line that the server's process wrote to stderr, without its line end.
func (w *Wire) Stderr(line []byte) int64 {
	return w.r.Add(Event{Kind: KindStderr, Dir: In, Conn: w.conn, Data: line})
}

// Close records the end of the connection; err is why, nil for a clean end. Only the first call counts.
func (w *Wire) Close(err error) {
	if w.closed.Swap(true) {
		return
	}
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

// Exchange records the head of a request that went in the direction d. uri is what stands in the request line: path and query.
func (w *Wire) Exchange(d Dir, method, uri string, h http.Header) *Exchange {
	return w.ExchangeFields(d, method, uri, flat(h))
}

// ExchangeFields is [Wire.Exchange] for headers that are names, as net/http writes them, and values in turn. It keeps the slice.
func (w *Wire) ExchangeFields(d Dir, method, uri string, fields []string) *Exchange {
	x := &Exchange{w: w, id: w.r.exchanges.Add(1), dir: d}
	w.r.Add(Event{Kind: KindRequest, Dir: d, Conn: w.conn, Exchange: x.id, Method: method, URL: uri, fields: fields})
	return x
}

// flat is a copy of h that costs one allocation instead of a map.
func flat(h http.Header) []string {
	out := make([]string, 0, 2*len(h)+4)
	for name, values := range h {
		for _, v := range values {
			out = append(out, name, v)
		}
	}
	return out
}

// headerOf is the header that flat was made of.
func headerOf(fields []string) http.Header {
	h := make(http.Header, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		h[fields[i]] = append(h[fields[i]], fields[i+1])
	}
	return h
}

// ID is the number of the exchange in the recording.
func (x *Exchange) ID() int64 { return x.id }

// Request records a payload of the request's body.
func (x *Exchange) Request(payload []byte) int64 { return x.payload(x.dir, payload, "") }

// Head records the head of the response.
func (x *Exchange) Head(status int, h http.Header) {
	x.HeadFields(status, flat(h))
}

// HeadFields is [Exchange.Head] for headers as [Wire.ExchangeFields] takes them.
func (x *Exchange) HeadFields(status int, fields []string) {
	x.w.r.Add(Event{Kind: KindResponse, Dir: x.dir.Back(), Conn: x.w.conn, Exchange: x.id, Status: status, fields: fields})
}

// Response records a payload of the response: its body, or what an event of its stream holds. eventID is the id of that event, or "".
func (x *Exchange) Response(payload []byte, eventID string) int64 {
	return x.payload(x.dir.Back(), payload, eventID)
}

func (x *Exchange) payload(d Dir, payload []byte, eventID string) int64 {
	return x.w.r.Add(Event{Kind: KindMessage, Dir: d, Conn: x.w.conn, Exchange: x.id, Data: payload, EventID: eventID})
}

// Junk records a body, or a part of one, that is no payload.
func (x *Exchange) Junk(d Dir, data []byte, what string) {
	x.w.r.Add(Event{Kind: KindJunk, Dir: d, Conn: x.w.conn, Exchange: x.id, Data: data, Text: what})
}

// ErrGaveUp ends an exchange whose client did not want the answer any more: its calls are cancelled, and no rule is broken.
var ErrGaveUp = errors.New("cancelled by the client")

// End records the end of the response; err is nil for a clean end, and [ErrGaveUp] when its client ended it. Only the first call counts.
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

// Transport is t, of which the Wire records what is read (In) and written (Out), and the end. For the server's side of a
// connection the directions are the other way round, see [Wire.ServerTransport].
func (w *Wire) Transport(t jsonrpc.Transport) jsonrpc.Transport {
	return &transport{Transport: t, w: w, read: In}
}

// ServerTransport is [Wire.Transport] for the server's end: what is read is Out, since it left the client.
func (w *Wire) ServerTransport(t jsonrpc.Transport) jsonrpc.Transport {
	return &transport{Transport: t, w: w, read: Out}
}

type transport struct {
	jsonrpc.Transport
	w     *Wire
	read  Dir
	shown bool // the burst of the next Write was recorded by a TryWrite
}

func (t *transport) Read() (payload []byte, more bool, err error) {
	payload, more, err = t.Transport.Read()
	if err == nil {
		t.w.Payload(t.read, payload)
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
		t.record(b) // before: its answer must not come first
	}
	t.shown = !t.Transport.TryWrite(b)
	return !t.shown
}

func (t *transport) record(b jsonrpc.Burst) {
	for payload := range b.All() {
		t.w.Payload(t.read.Back(), payload)
	}
}

func (t *transport) Close() error {
	err := t.Transport.Close()
	t.w.Close(nil)
	return err
}
