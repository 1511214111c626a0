package httprpc

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/progress"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Form is what a binding of a protocol to HTTP changes about the response to a POST. The zero
// Form is JSON-RPC as [Server] documents it. All functions may be nil. They are called by the
// goroutines of handlers, Event by several at once.
type Form struct {
	// Check is called with each request before its handler, after Server.Check. It may change the
	// fields of the Response, and its error refuses the request as if the handler had returned it.
	Check func(ctx context.Context, req *jsonrpc.Request) error

	// Begin sets headers of a stream, before it is opened.
	Begin func(h http.Header)

	// Event returns the event for a message that a handler sends. For a notification method and
	// params are those of Peer.Notify; otherwise method is empty. An error is the error of the
	// sender. If nil, the payload is the data.
	Event func(payload []byte, method string, params any) (eventstream.Event, error)

	// WithoutPayload reports whether Event does not read the payload of a notification, which is
	// then nil. If nil, Event gets all payloads.
	WithoutPayload func(method string, params any) bool

	// Last returns the last event of a stream: out is the response, and fault is its error if it is
	// the error of a single request. If nil, out is the data.
	Last func(out []byte, fault *jsonrpc.Error) eventstream.Event

	// Plain returns a response that is no stream. If status is 0, the status is that of the error;
	// see [Server]. If nil, the body is out, as application/json.
	Plain func(out []byte, fault *jsonrpc.Error) (status int, contentType string, body []byte)

	// Refuse returns the body for a request whose body is refused with a status, or nil for plain
	// text.
	Refuse func(status int, text string) (contentType string, body []byte)

	// Empty is the status of a response without a body. Zero means 204.
	Empty int
}

// A Response is the response to one HTTP request. It is plain, or an event stream as soon as a
// handler sends a message: it is the Sink and the LateSender of its Exchange. [Server.Begin] makes
// one; a binding then calls [Response.Receive] or [Response.Read], [Response.Answer],
// [Response.Finish], and Close at last, on the goroutine of the HTTP handler. Open, OpenAfter and
// the methods of the Sink are for all goroutines.
type Response struct {
	jsonrpc.Exchange

	// Form is what the binding changes. It must not be nil, nor be changed after Answer.
	Form *Form

	// Stream makes the response a stream even if no handler sends a message: it is opened before the
	// first handler of a request if it was set before Answer, or by Finish. Receive sets it for a
	// caller that accepts only streams. Form.Check and the binding may change it until Finish.
	Stream bool

	// Status, if not 0, is the status of a plain response with a body, in place of the status of
	// its error.
	Status int

	server *Server
	w      http.ResponseWriter
	r      *http.Request
	b      *buffer
	timer  *time.Timer // of OpenAfter; may be nil
	length [1]string   // the value of Content-Length
	events eventstream.Lazy
	late   bool // SendLate has sent the response
}

var plainForm Form

// Begin returns the response to r, with the limits and times of s. It must be closed.
func (s *Server) Begin(w http.ResponseWriter, r *http.Request) *Response {
	x := new(Response)
	s.BeginIn(x, w, r)
	return x
}

// BeginIn is Begin for a Response that is part of a larger value. x must be zero, and must not be
// reused after Close: a Peer may outlive it.
func (s *Server) BeginIn(x *Response, w http.ResponseWriter, r *http.Request) {
	x.Form, x.server, x.w, x.r, x.b = &plainForm, s, w, r, buffers.Get().(*buffer)
	x.b.body = guard.Body{Max: s.MaxMessage, Types: s.ContentTypes, Memory: &s.memory, Watch: &s.watch, Key: guard.KeyOf(r)}
	x.Sink, x.Late, x.From = x, x, x.b.body.Key
}

// Receive reads the payload of a POST, and sets what its Accept header allows: without a stream,
// Sink is nil. If it returns false, it has refused the request. The payload is valid until Close.
func (x *Response) Receive() (payload []byte, ok bool) {
	if x.r.Method != http.MethodPost {
		x.refuse(guard.MethodOnly(http.MethodPost))
		return nil, false
	}
	if f := x.b.body.Check(x.r); f != nil {
		x.refuse(f)
		return nil, false
	}
	switch x.server.accepted(x.r.Header["Accept"]) {
	case nothing:
		x.refuse(guard.NotAcceptable())
		return nil, false
	case plain:
		x.Sink = nil
	case stream:
		x.Stream = true
	}
	return x.Read()
}

// Read reads the payload of a request, whatever it accepts. If it returns false, it has refused the
// request. The payload is valid until Close.
func (x *Response) Read() (payload []byte, ok bool) {
	in, f := x.b.body.Read(x.w, x.r, x.b.in[:0])
	if x.b.in = in; f != nil {
		x.refuse(f)
		return nil, false
	}
	return in, true
}

// Skip is Read for a request whose body is not read.
func (x *Response) Skip() (ok bool) {
	f := x.b.body.Begin(x.r)
	if f != nil {
		x.refuse(f)
	}
	return f == nil
}

// refuse sends the refusal of the request.
func (x *Response) refuse(f *guard.Refusal) {
	if x.Form.Refuse != nil {
		if contentType, body := x.Form.Refuse(f.Status, f.Text); body != nil {
			if f.Name != "" {
				x.w.Header().Set(f.Name, f.Value)
			}
			x.send(f.Status, contentType, body)
			return
		}
	}
	f.Write(x.w, x.r)
}

// Answer handles a payload, and returns what [Response.Finish] sends. If a is nil, every method is
// unknown.
func (x *Response) Answer(ctx context.Context, a Answering, payload []byte) ([]byte, *jsonrpc.Error) {
	if len(payload) == 0 {
		return jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, jsonrpc.ErrParseError), jsonrpc.ErrParseError
	}
	if x.server.Check != nil || x.Stream {
		x.Check = x.check
	} else if x.Form.Check != nil {
		x.Check = x.Form.Check
	}
	if a == nil {
		a = new(jsonrpc.Answerer)
	}
	out, fault := a.Answer(ctx, x.b.out[:0], payload, &x.Exchange)
	x.b.out = out
	return out, fault
}

func (x *Response) check(ctx context.Context, req *jsonrpc.Request) error {
	if x.server.Check != nil {
		if err := x.server.Check(x.r, req); err != nil {
			return err
		}
	}
	if x.Form.Check != nil {
		if err := x.Form.Check(ctx, req); err != nil {
			return err
		}
	}
	if x.Stream && !req.IsNotification() {
		x.Open(x.r.Context())
	}
	return nil
}

// Send turns the response into a stream, if it is not one yet, and sends payload as an event.
func (x *Response) Send(ctx context.Context, payload []byte) error {
	return x.SendNotification(ctx, payload, "", nil)
}

// WithoutPayload reports whether SendNotification does not need the payload of a notification: see
// [jsonrpc.NotificationSink].
func (x *Response) WithoutPayload(method string, params any) bool {
	return x.Form.WithoutPayload != nil && x.Form.WithoutPayload(method, params)
}

// SendNotification implements [jsonrpc.NotificationSink].
func (x *Response) SendNotification(ctx context.Context, payload []byte, method string, params any) error {
	event := eventstream.Event{Data: payload}
	if x.Form.Event != nil {
		var err error
		if event, err = x.Form.Event(payload, method, params); err != nil {
			return err
		}
	}
	events := x.stream()
	if events == nil {
		return jsonrpc.ErrAnswered
	}
	return events.Send(ctx, event)
}

// Open turns the response into a stream, if it is not one yet, and sends its headers.
func (x *Response) Open(ctx context.Context) {
	if events := x.stream(); events != nil {
		_ = events.Open(ctx) // sending the response returns the same error
	}
}

// OpenAfter calls Open after a time, unless the response is sent before, so that a client and the
// proxies before it detect that the server is there. It must be called once at most, before Answer
// or by Form.Check.
func (x *Response) OpenAfter(d time.Duration) {
	x.timer = time.AfterFunc(d, func() {
		defer rescue.Catch(nil, nil) // of an http.ResponseWriter
		x.Open(context.WithoutCancel(x.r.Context()))
	})
}

func (x *Response) stopTimer() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// stream returns the stream, or nil after the response was sent.
func (x *Response) stream() *eventstream.Writer {
	return x.events.Get(func() *eventstream.Writer {
		if x.Form.Begin != nil {
			x.Form.Begin(x.w.Header())
		}
		return x.newWriter(x.server.KeepAlive)
	})
}

// NewStream returns a stream of the response for a binding that writes it by itself. Only Close may
// follow.
func (x *Response) NewStream() *eventstream.Writer { return x.newWriter(x.server.KeepAlive) }

func (x *Response) newWriter(keepAlive time.Duration) *eventstream.Writer {
	return eventstream.NewWriter(x.w, &eventstream.WriterOptions{KeepAlive: keepAlive, Timeout: x.server.WriteTimeout, Unread: x.b.body.Unread()})
}

// SendLate sends the response to a batch while a handler still runs, and ends the connection.
func (x *Response) SendLate(out []byte) { x.SendLateError(out, nil) }

// SendLateError implements [jsonrpc.LateErrorSender]: it is SendLate for a single request.
func (x *Response) SendLateError(out []byte, fault *jsonrpc.Error) {
	x.late = true // read by Finish, which runs later
	x.stopTimer()
	if events := x.events.End(); events != nil {
		events.Last(x.last(out, fault))
		guard.Late(x.w, http.StatusOK, "", nil)
		return
	}
	status, contentType, body := x.plain(out, fault)
	guard.Late(x.w, orStatus(status, http.StatusOK), contentType, body)
}

func (x *Response) last(out []byte, fault *jsonrpc.Error) eventstream.Event {
	if x.Form.Last != nil {
		return x.Form.Last(out, fault)
	}
	return eventstream.Event{Data: out}
}

func (x *Response) plain(out []byte, fault *jsonrpc.Error) (status int, contentType string, body []byte) {
	if x.Form.Plain != nil {
		return x.Form.Plain(out, fault)
	}
	return 0, "application/json", out
}

// Finish sends the response, unless SendLate has sent it. fault is its error if it is the error of
// a single request.
func (x *Response) Finish(out []byte, fault *jsonrpc.Error) {
	if x.late {
		return
	}
	x.stopTimer()
	events := x.events.End()
	if events == nil && x.Stream && len(out) > 0 {
		if x.Form.Begin != nil {
			x.Form.Begin(x.w.Header())
		}
		events = x.newWriter(-1)
	}
	switch {
	case events == nil:
		x.writePlain(out, fault)
	case len(out) == 0:
		_ = events.Finish() // a batch or a notification whose handlers notified, without a response
	default:
		event := x.last(out, fault)
		x.b.body.Holding(len(event.Data))
		_ = events.Finish(event) // if the client is gone, the error has no receiver
	}
}

// Close releases what the request holds. If Finish was not called because of a panic, which
// net/http recovers, Close ends the stream.
func (x *Response) Close() {
	x.stopTimer()
	x.events.Abandon() // no effect after Finish
	x.b.body.Done()
	x.b.free()
	x.b = nil
}

// The values of headers, allocated once. net/http and other handlers do not modify them.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// writePlain sends a response that is no stream.
func (x *Response) writePlain(out []byte, fault *jsonrpc.Error) {
	status, contentType, body := x.plain(out, fault)
	if fault != nil {
		status = orStatus(status, x.statusOf(fault))
	}
	x.send(orStatus(x.Status, orStatus(status, http.StatusOK)), contentType, body)
}

// send sends a body with a status, or the status of an empty response if body is empty.
func (x *Response) send(status int, contentType string, body []byte) {
	x.b.body.Writing(len(body))
	h := x.w.Header()
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	if len(body) == 0 {
		x.w.WriteHeader(orStatus(x.Form.Empty, http.StatusNoContent))
		return
	}
	if h["Content-Type"] = jsonType; contentType != jsonType[0] {
		h["Content-Type"] = []string{contentType}
	}
	x.length[0] = strconv.Itoa(len(body))
	h["Content-Length"] = x.length[:]
	if x.r.ProtoMajor != 1 {
		// A separate frame for the end of the stream would cost more than the deadline.
		x.begin(status)
		// if the client is gone, the error has no receiver
		_ = progress.Respond(x.w, x.server.writeTimeout(), body)
		return
	}
	x.server.watch.Write(x.w, x.server.writeTimeout(), func(to *guard.Watched) {
		x.begin(status)
		to.Body(body)
	})
}

// begin sends the headers if the first byte of the body would not.
func (x *Response) begin(status int) {
	if status != http.StatusOK {
		x.w.WriteHeader(status)
	}
}

// statusOf maps an error response to a status, and sets the headers that belong to it.
func (x *Response) statusOf(e *jsonrpc.Error) int {
	status := 0
	if x.server.Status != nil {
		status = x.server.Status(e)
	}
	h := x.w.Header()
	switch e.Code {
	case jsonrpc.CodeBusy:
		h.Set("Retry-After", retryAfter(e))
		status = orStatus(status, http.StatusTooManyRequests)
	case jsonrpc.CodeShuttingDown:
		h.Set("Retry-After", "1")
		if x.r.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
		status = orStatus(status, http.StatusServiceUnavailable)
	case jsonrpc.CodeUnavailable:
		status = orStatus(status, http.StatusBadGateway)
	}
	return orStatus(status, http.StatusOK)
}

func orStatus(status, standard int) int {
	if status == 0 {
		return standard
	}
	return status
}

// retryAfter returns the wait that the error contains, in whole seconds, at least one (RFC 9110,
// section 10.2.3).
func retryAfter(e *jsonrpc.Error) string {
	var data jsonrpc.FaultData
	if len(e.Data) == 0 || e.Data.Decode(&data) != nil {
		return "1"
	}
	seconds := math.Ceil(float64(data.RetryAfterMs) / 1000)
	return strconv.Itoa(int(min(max(seconds, 1), 3600)))
}

// A buffer is the memory of one exchange. A handler's params point into it, so it is free when
// Answer has returned.
type buffer struct {
	in, out []byte
	body    guard.Body
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// keep is how much of a buffer is retained for the next exchange.
const keep = 64 << 10

func (b *buffer) free() {
	if cap(b.in) > keep {
		b.in = nil
	}
	if cap(b.out) > keep {
		b.out = nil
	}
	buffers.Put(b)
}
