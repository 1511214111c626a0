package otelrpc

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Middleware observes each request that a handler handles, including notifications. Put it around
// the Mux. If o is nil, the defaults apply:
//
//	answerer.Handler = otelrpc.Middleware(&otelrpc.Options{Known: otelrpc.MethodsOf(mux)})(mux)
//
// A private error is recorded as the error that is sent instead: "Internal error", or the code of a
// cancelled or late request. Its text is not recorded. Errors of the engine before or after the
// handler (a busy server, a result that cannot be encoded) are not observed.
func Middleware(o *Options) jsonrpc.Middleware {
	ob := newObserver(o, serverDuration, "Measures the duration of an incoming Remote Procedure Call (RPC).")
	return func(next jsonrpc.Handler) jsonrpc.Handler {
		return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			return ob.serve(ctx, req, next)
		})
	}
}

func (ob *observer) serve(ctx context.Context, req *jsonrpc.Request, next jsonrpc.Handler) (any, error) {
	var links []trace.Link
	if ob.Meta {
		ctx, links, req = ob.receive(ctx, req)
	}
	c := ob.begin(ctx, trace.SpanKindServer, req.Method, req.ID, links...)
	panicked := true
	defer func() {
		if panicked { // the panic continues: the engine sends the response
			c.answered(strconv.Itoa(jsonrpc.CodeInternalError), "")
		}
	}()
	result, err := next.Handle(c.ctx, req)
	panicked = false
	switch e, ok := err.(*jsonrpc.Error); { //nolint:errorlint // a wrapped one is private
	case err == nil:
		c.succeed()
	case ok:
		c.answered(strconv.FormatInt(e.Code, 10), e.Message)
	default:
		c.answered(strconv.Itoa(privateCode(ctx)), "")
	}
	return result, err
}

// privateCode returns the code that the engine sends instead of a private error.
func privateCode(ctx context.Context) int {
	if ctx.Err() != nil {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, jsonrpc.ErrPeerCancelled):
			return jsonrpc.CodeCancelled
		case errors.Is(cause, jsonrpc.ErrTimeout):
			return jsonrpc.CodeDeadline
		}
	}
	return jsonrpc.CodeInternalError
}

// receive continues the trace in _meta. An existing span, such as that of an HTTP server, is
// linked: it belongs to the transport, which may have carried other calls too.
func (ob *observer) receive(ctx context.Context, req *jsonrpc.Request) (context.Context, []trace.Link, *jsonrpc.Request) {
	carrier, rest, ok := takeMeta(req.Params, ob.Propagator.Fields())
	if !ok {
		return ctx, nil, req
	}
	before := trace.SpanContextFromContext(ctx)
	ctx = ob.Propagator.Extract(ctx, carrier)
	stripped := *req
	stripped.Params = rest
	if after := trace.SpanContextFromContext(ctx); before.IsValid() && after.SpanID() != before.SpanID() {
		return ctx, []trace.Link{{SpanContext: before}}, &stripped
	}
	return ctx, nil, &stripped
}
