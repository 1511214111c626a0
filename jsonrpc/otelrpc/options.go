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

// Options tune [Middleware] and [Peer]. The zero value is ready for use. They are copied.
type Options struct {
	// TracerProvider and MeterProvider take what is observed. Nil means the global ones of OpenTelemetry.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Known reports whether a method is one of a fixed set, so that its name may name spans and time series. All others are
	// "_OTHER", with the name in rpc.method_original of the span. Nil knows none. See [Methods] and [MethodsOf].
	Known func(method string) bool

	// Version of JSON-RPC that is spoken. For 2.0, the zero value, spans say so: the conventions take 1.0 for granted.
	Version jsonrpc.Version

	// Meta lets the trace travel in params, in the member "_meta" (SEP-414).
	//
	// A [Peer] adds it to params that are an object and leaves others alone: positions have no names. It is for peers
	// that expect it: strict ones refuse the unknown member. Middleware continues the trace as a remote parent, with
	// a link to the span that the carrier may have begun, and takes the members away that it used (and "_meta" if nothing is
	// left), so that strict handlers do not see them. All other bytes of params stay as they are.
	Meta bool

	// Propagator chooses the members of "_meta". Nil means traceparent, tracestate and baggage (W3C).
	Propagator propagation.TextMapPropagator

	// Transport is network.transport: "tcp", "unix" or "pipe". Empty: not set.
	Transport string

	// ServerAddress and ServerPort say where the server is, also in measurements of clients. Empty and zero: not set.
	ServerAddress string
	ServerPort    int

	// PeerAddress and PeerPort are the other end of the connection. Empty and zero: not set. A server of many peers
	// uses Attributes.
	PeerAddress string
	PeerPort    int

	// Attributes adds to a span at its start, such as network.peer.address from ctx. Nil adds nothing.
	Attributes func(ctx context.Context, method string) []attribute.KeyValue
}

// Methods knows the given names, for [Options.Known].
func Methods(names ...string) func(string) bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return func(method string) bool { return set[method] }
}

// MethodsOf knows the methods that mux has now: call it after the last Add.
func MethodsOf(mux *jsonrpc.Mux) func(string) bool {
	var names []string
	for name := range mux.All() {
		names = append(names, name)
	}
	return Methods(names...)
}

// W3C is the default [Options.Propagator].
func W3C() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
}

// observer is what both sides share.
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

// endpoint is an address and its port. A port without address says nothing.
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
