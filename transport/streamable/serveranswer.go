package streamable

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// The values of headers, made once. net/http and other handlers do not write into them.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// An answer is what goes back for a POST when it is no stream.
type answer struct {
	text   []byte
	fault  *jsonrpc.Error // what text says, if it is one error response
	status int            // what the protocol wants for it; 0 for the usual
	length [1]string      // the value of Content-Length
}

// write sends the answer: JSON, or 202 for none.
func (a *answer) write(s *Server, w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	if len(a.text) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	h["Content-Type"] = jsonType
	a.length[0] = strconv.Itoa(len(a.text))
	h["Content-Length"] = a.length[:]
	status := http.StatusOK
	if a.fault != nil {
		status = statusOf(a.fault, a.status, r, h)
	}
	if r.ProtoMajor != 1 {
		// A frame of its own for the end of the stream would cost more than the deadline.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.writeTimeout()))
		send(w, status, a.text)
		return
	}
	s.watch.Write(w, s.writeTimeout(), func(control *http.ResponseController) {
		send(w, status, a.text)
		_ = control.Flush() // now, while it is watched
	})
}

// send sends headers and body. If the client is gone there is nobody to tell.
func send(w http.ResponseWriter, status int, text []byte) {
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, _ = w.Write(text)
}

// statusOf maps an error response, and sets the headers that go with the status.
func statusOf(e *jsonrpc.Error, wanted int, r *http.Request, h http.Header) int {
	status := http.StatusOK
	switch e.Code {
	case jsonrpc.CodeBusy:
		h.Set("Retry-After", retryAfter(e))
		status = http.StatusTooManyRequests
	case jsonrpc.CodeShuttingDown:
		h.Set("Retry-After", "1")
		if r.ProtoMajor == 1 {
			h.Set("Connection", "close")
		}
		status = http.StatusServiceUnavailable
	case jsonrpc.CodeUnavailable:
		status = http.StatusBadGateway
	}
	if wanted != 0 {
		return wanted
	}
	return status
}

// retryAfter is the wait that the error names, in whole seconds, at least one (RFC 9110, section 10.2.3).
func retryAfter(e *jsonrpc.Error) string {
	var data jsonrpc.FaultData
	if len(e.Data) == 0 || e.Data.Decode(&data) != nil {
		return "1"
	}
	seconds := math.Ceil(float64(data.RetryAfterMs) / 1000)
	return strconv.Itoa(int(min(max(seconds, 1), 3600)))
}

// refuse answers without a look at what is asked, with the id of the request if there is one.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, payload []byte, f *Refusal) {
	id, count := jsonrpc.NullID, 0
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // what cannot be read has no id
		if count++; count == 1 && m.Request && !m.ID.IsZero() {
			id = m.ID
		} else {
			id = jsonrpc.NullID
		}
	})
	a := answer{text: jsonrpc.AppendError(nil, jsonrpc.Version2, id, f.Err), fault: f.Err, status: f.Status}
	a.write(s, w, r)
}

// drops is the Sink of a caller that takes no stream: what handlers say on the way is not for it.
type drops struct{}

func (drops) Send(context.Context, []byte) error { return nil }

// An exchange is a POST in no session, and its answer. It is the Sink of its own Exchange.
type exchange struct {
	jsonrpc.Exchange
	answer
	server  *Server
	how     *Alone
	w       http.ResponseWriter
	r       *http.Request
	early   bool        // the stream begins with the handler
	refused atomic.Bool // by Check
	events  sse.Lazy
}

// alone answers a payload that belongs to no session.
func (s *Server) alone(w http.ResponseWriter, r *http.Request, b *buffer, wants acceptance, how *Alone) {
	x := &exchange{server: s, how: how, w: w, r: r}
	defer x.events.Abandon() // does nothing after finish
	x.early = wants == stream
	if how.Check != nil || x.early {
		x.Check = x.check
	}
	ctx := r.Context()
	if how.Patient {
		ctx = context.WithoutCancel(ctx)
	}
	x.Sink = x
	if wants == plain {
		x.Sink = drops{}
	}
	b.out, x.fault = how.Answerer.Answer(ctx, b.out[:0], b.in, &x.Exchange)
	x.text = b.out
	if x.fault != nil {
		x.judge()
	}
	if len(x.text) == 0 && hasResponse(b.in) {
		x.fault, x.status = jsonrpc.ErrInvalidRequest, http.StatusBadRequest // nobody has asked
		x.text = jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, x.fault)
	}
	if how.OmitID {
		x.text = withoutNull(x.text)
	}
	x.finish(wants)
}

// judge asks the protocol for the status of an error.
func (x *exchange) judge() {
	if x.how.Status != nil {
		x.status = x.how.Status(x.fault, x.refused.Load())
	}
}

func (x *exchange) check(_ context.Context, req *jsonrpc.Request) error {
	if x.how.Check != nil {
		if err := x.how.Check(x.r, req); err != nil {
			x.refused.Store(true)
			return err
		}
	}
	if x.early && !req.IsNotification() {
		if events := x.stream(); events != nil {
			_ = events.Open(x.r.Context()) // the answer will meet the same error
		}
	}
	return nil
}

// hasResponse reports whether a payload has a response in it.
func hasResponse(payload []byte) bool {
	has := false
	fault := jsonrpc.Scan(payload, func(m *jsonrpc.Message) { has = has || !m.Request })
	return fault == nil && has
}

var nullID = []byte(`,"id":null}`)

// withoutNull cuts the id off a response that has null for one.
func withoutNull(text []byte) []byte {
	if head, ok := bytes.CutSuffix(text, nullID); ok {
		return append(head, '}')
	}
	return text
}

// Send makes the answer a stream, if it is none yet, and sends payload as an event.
func (x *exchange) Send(ctx context.Context, payload []byte) error {
	events := x.stream()
	if events == nil {
		return jsonrpc.ErrAnswered
	}
	return events.Send(ctx, sse.Event{Data: payload})
}

// stream returns the stream, or nil once the answer is out.
func (x *exchange) stream() *sse.Writer {
	return x.events.Get(func() *sse.Writer { return x.server.newWriter(x.w) })
}

// finish sends the response.
func (x *exchange) finish(wants acceptance) {
	events := x.events.End()
	if events == nil && wants == stream && len(x.text) > 0 && x.status < http.StatusBadRequest {
		events = sse.NewWriter(x.w, &sse.WriterOptions{KeepAlive: -1, Timeout: x.server.WriteTimeout})
	}
	switch {
	case events == nil:
		x.write(x.server, x.w, x.r)
	case len(x.text) == 0:
		_ = events.Finish() // nothing else to say
	default:
		_ = events.Finish(sse.Event{Data: x.text}) // if the client is gone there is nobody to tell
	}
}
