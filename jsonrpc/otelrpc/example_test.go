package otelrpc_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/otelrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// Both ends are observed, and the trace is sent from one to the other in the params.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() { _ = provider.Shutdown(context.Background()) }() // all spans have been exported

	mux := new(jsonrpc.Mux)
	mux.Add("add", jsonrpc.Func(func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil }))
	o := &otelrpc.Options{TracerProvider: provider, Known: otelrpc.MethodsOf(mux), Meta: true}

	a, b := inproc.Pipe(nil)
	server, client := jsonrpc.NewConn(a), jsonrpc.NewConn(b)
	server.Handler = otelrpc.Middleware(o)(mux)
	server.Start(context.Background())
	client.Start(context.Background())
	defer func() { _, _ = client.Close(), server.Close() }() // no need to wait for them
	peer := otelrpc.Peer(client, o)

	sum, err := jsonrpc.Call[int](context.Background(), peer, "add", map[string]int{"a": 5, "b": 3})
	fmt.Println(sum, err)
	err = peer.Call(context.Background(), "nothing", nil, nil)
	fmt.Println(err)

	for _, s := range spans.GetSpans() {
		fmt.Printf("%s %s, below another: %v\n", s.SpanKind, s.Name, s.Parent.IsValid())
	}
	// Output:
	// 8 <nil>
	// Method not found (-32601)
	// server add, below another: true
	// client add, below another: false
	// server jsonrpc, below another: false
	// client jsonrpc, below another: false
}
