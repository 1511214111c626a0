package otelrpc

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options configures [Middleware] and [Peer]. The zero value is ready for use. They are copied.
type Options struct {
	// TracerProvider and MeterProvider receive the spans and measurements. If nil, the global
	// providers of OpenTelemetry are used.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Known reports whether a method belongs to a fixed set, so that spans and time series can be
	// named after it. All other methods are "_OTHER", with the name in the span's
	// rpc.method_original. If nil, no method is known. See [Methods] and [MethodsOf].
	Known func(method string) bool

	// Version is the version of JSON-RPC in use. For 2.0, the zero value, it is recorded in spans,
	// because the conventions assume 1.0 by default.
	Version jsonrpc.Version

	// Meta sends the trace in params, in the member "_meta" (SEP-414).
	//
	// A [Peer] adds it to params that are an object; positional params are not changed, because
	// positions have no names. Use it only for peers that expect it: strict peers reject the
	// unknown member. Middleware continues the trace as a remote parent, with a link to the span
	// that the transport may have started. It removes the members that it used (and "_meta" if it
	// is then empty), so that strict handlers do not see them. All other bytes of params are
	// unchanged.
	Meta bool

	// Propagator selects the members of "_meta". If nil: traceparent, tracestate and baggage (W3C).
	Propagator propagation.TextMapPropagator

	// Transport is network.transport: "tcp", "unix" or "pipe". If empty, it is not set.
	Transport string

	// ServerAddress and ServerPort are the address of the server, also in measurements of clients.
	// Empty or zero values are not set.
	ServerAddress string
	ServerPort    int

	// PeerAddress and PeerPort are the other end of the connection. Empty or zero values are not
	// set. For a server with many peers use Attributes.
	PeerAddress string
	PeerPort    int

	// Attributes returns additional attributes for a span at its start, such as
	// network.peer.address from ctx. If nil, none are added.
	Attributes func(ctx context.Context, method string) []attribute.KeyValue
}

// Methods returns a function for [Options.Known] that reports whether a method is one of names.
func Methods(names ...string) func(string) bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return func(method string) bool { return set[method] }
}

// MethodsOf returns a function for [Options.Known] that contains the current methods of mux: call
// it after the last Add.
func MethodsOf(mux *jsonrpc.Mux) func(string) bool {
	var names []string
	for name := range mux.All() {
		names = append(names, name)
	}
	return Methods(names...)
}

// W3C returns the default [Options.Propagator].
func W3C() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// An observer is shared by both sides.
type observer struct {
	Options
	tracer   trace.Tracer
	duration metric.Float64Histogram
	fixed    []attribute.KeyValue // of every span
	measured []attribute.KeyValue // of every measurement
}

func newObserver(o *Options, histogram, description string) *observer {
	ob := &observer{}
	if o != nil {
		ob.Options = *o
	}
	if ob.TracerProvider == nil {
		ob.TracerProvider = otel.GetTracerProvider()
	}
	if ob.MeterProvider == nil {
		ob.MeterProvider = otel.GetMeterProvider()
	}
	if ob.Known == nil {
		ob.Known = func(string) bool { return false }
	}
	if ob.Propagator == nil {
		ob.Propagator = W3C()
	}
	ob.tracer = ob.TracerProvider.Tracer(scope, trace.WithSchemaURL(schemaURL))
	var err error
	ob.duration, err = ob.MeterProvider.Meter(scope, metric.WithSchemaURL(schemaURL)).Float64Histogram(histogram,
		metric.WithDescription(description), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		otel.Handle(err)
		ob.duration = noop.Float64Histogram{}
	}

	ob.fixed = []attribute.KeyValue{keySystem.String(system)}
	ob.measured = []attribute.KeyValue{keySystem.String(system)}
	if ob.Version == jsonrpc.Version2 {
		ob.fixed = append(ob.fixed, keyVersion.String("2.0"))
	}
	if ob.Transport != "" {
		ob.fixed = append(ob.fixed, keyTransport.String(ob.Transport))
	}
	server := endpoint(keyServerAddress, ob.ServerAddress, keyServerPort, ob.ServerPort)
	ob.fixed = append(ob.fixed, server...)
	ob.fixed = append(ob.fixed, endpoint(keyPeerAddress, ob.PeerAddress, keyPeerPort, ob.PeerPort)...)
	if histogram == clientDuration {
		ob.measured = append(ob.measured, server...)
	}
	return ob
}

// endpoint returns the attributes of an address and its port. Without an address the port is
// omitted.
func endpoint(address attribute.Key, host string, portKey attribute.Key, port int) []attribute.KeyValue {
	if host == "" {
		return nil
	}
	out := []attribute.KeyValue{address.String(host)}
	if port > 0 {
		out = append(out, portKey.Int(port))
	}
	return out
}
