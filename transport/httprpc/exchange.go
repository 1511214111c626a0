package httprpc

import (
	"context"
	"net/http"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// An exchange is one POST and its answer. It is the Sink of its own Exchange.
type exchange struct {
	jsonrpc.Exchange
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	length [1]string // the value of Content-Length
	events sse.Lazy
}

// prepare fills in what handlers may do.
func (x *exchange) prepare(ctx context.Context, wants acceptance, payload []byte) {
	if x.server.Check != nil {
		x.Check = x.check
	}
	if wants == plain {
		return
	}
	x.Sink = x
	if wants == stream && wantsAnswer(payload) {
		if events := x.stream(); events != nil {
			_ = events.Open(ctx) // the answer will meet the same error
		}
	}
}

func (x *exchange) check(_ context.Context, req *jsonrpc.Request) error {
	return x.server.Check(x.r, req)
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
	return x.events.Get(func() *sse.Writer {
		return sse.NewWriter(x.w, &sse.WriterOptions{KeepAlive: x.server.KeepAlive, Timeout: x.server.WriteTimeout})
	})
}

// finish sends the response.
func (x *exchange) finish(wants acceptance, out []byte, fault *jsonrpc.Error) {
	events := x.events.End()
	if events == nil && wants == stream && len(out) > 0 {
		events = sse.NewWriter(x.w, &sse.WriterOptions{KeepAlive: -1, Timeout: x.server.WriteTimeout})
	}
	switch {
	case events == nil:
		x.server.writePlain(x, out, fault)
	case len(out) == 0:
		_ = events.Finish() // a batch or a notification whose handlers notified, and nothing else to say
	default:
		_ = events.Finish(sse.Event{Data: out}) // if the client is gone there is nobody to tell
	}
}
