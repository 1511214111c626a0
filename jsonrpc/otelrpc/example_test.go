package otelrpc_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/otelrpc"
)

// Both ends are observed, and the trace goes from one to the other in the params.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	defer func() { _ = provider.Shutdown(context.Background()) }() // it has nothing left to say

	mux := new(jsonrpc.Mux)
	mux.Add("add", jsonrpc.Func(func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil }))
	o := &otelrpc.Options{TracerProvider: provider, Known: otelrpc.MethodsOf(mux), Meta: true}
	server := &jsonrpc.Answerer{Handler: otelrpc.Middleware(o)(mux)}
	peer := otelrpc.Peer(jsonrpc.Local(server, nil), o)

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
