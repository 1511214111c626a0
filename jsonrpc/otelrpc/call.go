package otelrpc

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A call is one observed call: a span and, at its end, one measurement of the same duration.
type call struct {
	ob       *observer
	ctx      context.Context
	span     trace.Span
	start    time.Time
	measured []attribute.KeyValue
}

// begin starts the span. Attributes that samplers may need are set at once.
func (ob *observer) begin(ctx context.Context, kind trace.SpanKind, method string, id jsonrpc.ID, links ...trace.Link) *call {
	method = strings.Clone(method) // the span outlives the request
	attrs := make([]attribute.KeyValue, 0, len(ob.fixed)+6)
	attrs = append(attrs, ob.fixed...)
	name, kept := system, other
	if ob.Known(method) {
		name, kept = method, method
	} else {
		attrs = append(attrs, keyMethodOriginal.String(cut(method)))
	}
	attrs = append(attrs, keyMethod.String(kept))
	if text, ok := idText(id); ok {
		attrs = append(attrs, keyRequestID.String(text))
	}
	if ob.Attributes != nil {
		attrs = append(attrs, ob.Attributes(ctx, method)...)
	}
	c := &call{ob: ob, start: time.Now()}
	c.ctx, c.span = ob.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(c.start),
		trace.WithAttributes(attrs...), trace.WithLinks(links...))
	c.measured = append(append(make([]attribute.KeyValue, 0, len(ob.measured)+3), ob.measured...), keyMethod.String(kept))
	return c
}

// succeed ends a call that has a result.
func (c *call) succeed() { c.end() }

// answered ends a call with an error response. Every code is a failure (json-rpc.md,
// rpc.response.status_code).
func (c *call) answered(code, message string) {
	status := []attribute.KeyValue{keyStatusCode.String(code), keyErrorType.String(code)}
	c.span.SetAttributes(status...)
	c.measured = append(c.measured, status...)
	c.span.SetStatus(codes.Error, cut(message))
	c.end()
}

// failed ends a call without a response. The text of err is not recorded, because it may contain
// anything.
func (c *call) failed(err error) {
	kind := keyErrorType.String(failure(err))
	c.span.SetAttributes(kind)
	c.measured = append(c.measured, kind)
	c.span.SetStatus(codes.Error, "")
	c.end()
}

func (c *call) end() {
	end := time.Now()
	c.ob.duration.Record(c.ctx, end.Sub(c.start).Seconds(), metric.WithAttributes(c.measured...))
	c.span.End(trace.WithTimestamp(end))
}
