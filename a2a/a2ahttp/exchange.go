package a2ahttp

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// A style is how a binding writes what package a2a answers.
type style interface {
	event(id jsonrpc.ID, response jsonrpc.Raw) ([]byte, error) // one event of a stream
	last(out []byte, e *jsonrpc.Error) []byte                  // the answer, as the last event
	plain(out []byte, e *jsonrpc.Error) (status int, contentType string, body []byte)
}

// silence is how long a stream may have nothing to say before it is opened nevertheless, so that it is kept alive.
const silence = time.Second

// An exchange is one request over HTTP and its answer, which becomes a stream with the first event. It is the Sink of its own Exchange.
type exchange struct {
	jsonrpc.Exchange
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	style  style
	timer  *time.Timer // opens a stream that says nothing; nil for what is no stream
	events sse.Lazy
	seq    atomic.Int64 // of the last event
}

func newExchange(s *Server, w http.ResponseWriter, r *http.Request, style style) *exchange {
	x := &exchange{server: s, w: w, r: r, style: style}
	x.Sink = x
	x.Check = x.check
	return x
}

// check sees each request before it is handled. A v0.3 subscription is a stream from the start, errors and all: strict clients want that.
func (x *exchange) check(ctx context.Context, req *jsonrpc.Request) error {
	if req.Batched() || req.IsNotification() {
		return nil
	}
	switch {
	case req.Method == a2a.MethodSubscribe03:
		if events := x.stream(); events != nil {
			_ = events.Open(ctx) // the answer will meet the same error
		}
	case a2a.IsStream(req.Method):
		x.timer = time.AfterFunc(silence, func() {
			if events := x.stream(); events != nil {
				_ = events.Open(background(ctx)) // likewise
			}
		})
	}
	return nil
}

// Send makes an event of a notification: the response that the protocol repeats.
func (x *exchange) Send(ctx context.Context, payload []byte) error {
	var in struct {
		RequestID jsonrpc.ID  `json:"request_id"`
		Seq       int64       `json:"seq"`
		Response  jsonrpc.Raw `json:"response"`
	}
	var failed error
	if e := jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		if m.Method != a2a.MethodStream {
			failed = jsonrpc.ErrOneWay // there is nothing else to say over HTTP
			return
		}
		failed = m.Params.Decode(&in)
	}); e != nil {
		return e
	}
	if failed != nil {
		return failed
	}
	data, err := x.style.event(in.RequestID, in.Response)
	if err != nil {
		return err
	}
	events := x.stream()
	if events == nil {
		return jsonrpc.ErrAnswered
	}
	x.seq.Store(in.Seq)
	return events.Send(ctx, sse.Event{ID: eventID(in.Seq), Data: data})
}

func eventID(seq int64) string {
	if seq == 0 {
		return ""
	}
	return strconv.FormatInt(seq, 10)
}

// stream returns the stream, or nil once the answer is out.
func (x *exchange) stream() *sse.Writer {
	return x.events.Get(func() *sse.Writer {
		return sse.NewWriter(x.w, &sse.WriterOptions{KeepAlive: x.server.KeepAlive, Timeout: x.server.WriteTimeout})
	})
}

// abandon is for a panic on its way to net/http: whoever keeps the stream alive must stop.
func (x *exchange) abandon() {
	x.hush()
	x.events.Abandon()
}

// hush lets silence open no stream from here on.
func (x *exchange) hush() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// finish sends the answer.
func (x *exchange) finish(out []byte, fault *jsonrpc.Error) {
	streams := x.timer != nil && fault == nil // a stream of one is a stream: the JavaScript SDK 1.3.0 takes nothing else
	if streams {
		x.stream()
	}
	x.hush()
	events, seq := x.events.End(), x.seq.Load()
	switch {
	case events == nil:
		status, contentType, body := x.style.plain(out, fault)
		x.write(status, contentType, body, fault)
	case len(out) == 0:
		_ = events.Finish() // a notification
	default:
		id := ""
		if seq > 0 && fault == nil {
			id = eventID(seq + 1)
		}
		_ = events.Finish(sse.Event{ID: id, Data: x.style.last(out, fault)}) // if the client is gone there is nobody to tell
	}
}

func (x *exchange) write(status int, contentType string, body []byte, fault *jsonrpc.Error) {
	h := x.w.Header()
	if fault != nil {
		retry(h, x.r, fault, status)
	}
	if status == http.StatusNoContent {
		h.Set("Cache-Control", "no-store")
		x.w.WriteHeader(status)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	timeout := x.server.WriteTimeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	x.server.watch.Write(x.w, timeout, func(control *http.ResponseController) {
		writeBody(x.w, status, contentType, body)
		_ = control.Flush() // now, while it is watched
	})
}

// retry says when to come back.
func retry(h http.Header, r *http.Request, e *jsonrpc.Error, status int) {
	switch e.Code {
	case jsonrpc.CodeBusy, jsonrpc.CodeShuttingDown:
		h.Set("Retry-After", "1")
	}
	if status == http.StatusServiceUnavailable && r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
}
