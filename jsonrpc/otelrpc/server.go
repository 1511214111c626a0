package otelrpc

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Middleware observes each request that a handler answers, notifications too. Put it around the Mux; nil options are the default:
//
//	answerer.Handler = otelrpc.Middleware(&otelrpc.Options{Known: otelrpc.MethodsOf(mux)})(mux)
//
// A private error counts as what goes out for it: "Internal error", or the code of a cancelled or late request; its text is not
// recorded. What the engine refuses before or after the handler (a busy server, a result that cannot be encoded) is not seen here.
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
		if panicked { // it goes on behind us: the engine answers
			c.answered(strconv.Itoa(jsonrpc.CodeInternalError), "")
		}
	}()
	result, err := next.Handle(c.ctx, req)
	panicked = false
	switch e, ok := err.(*jsonrpc.Error); { //nolint:errorlint // one that is wrapped is private
	case err == nil:
		c.succeed()
	case ok:
		c.answered(strconv.FormatInt(e.Code, 10), e.Message)
	default:
		c.answered(strconv.Itoa(privateCode(ctx)), "")
	}
	return result, err
}

// privateCode is what the engine answers in place of a private error.
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

// receive continues the trace in _meta. The span that was there before, an HTTP server's for one, is linked: it tells of
// the carrier, which may have carried other calls too.
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
