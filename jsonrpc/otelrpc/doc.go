// Package otelrpc instruments JSON-RPC calls with OpenTelemetry: a span and a duration for each
// call.
//
// [Middleware] instruments servers, [Peer] instruments clients. The package uses only the
// OpenTelemetry API. The program's providers process the spans and measurements; without providers
// the cost is negligible.
//
// Names follow the semantic conventions for JSON-RPC and RPC, v1.44.0 (docs/rpc/json-rpc.md,
// rpc-spans.md, rpc-metrics.md):
//
//	span                        kind SERVER or CLIENT, named after the method if it is known, else "jsonrpc"
//	rpc.server.call.duration    histogram, seconds
//	rpc.client.call.duration    histogram, seconds
//
// Unknown methods are "_OTHER" in both, because peers choose the names and each name would create a
// time series.
//
// With Meta, the trace is sent in params: the members traceparent, tracestate and baggage of
// "_meta" (SEP-414 of the Model Context Protocol), over any transport.
package otelrpc
