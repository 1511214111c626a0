// Package otelrpc observes JSON-RPC calls with OpenTelemetry: a span and a duration for each.
//
// [Middleware] is for who answers, [Peer] for who asks. The package needs the API of OpenTelemetry only; what becomes of
// spans and measurements is decided by the providers of the program, and without any they cost next to nothing.
//
// Names follow the semantic conventions for JSON-RPC and RPC, v1.44.0 (docs/rpc/json-rpc.md, rpc-spans.md, rpc-metrics.md):
//
//	span                        kind SERVER or CLIENT, named after the method if that is known, else "jsonrpc"
//	rpc.server.call.duration    histogram, seconds
//	rpc.client.call.duration    histogram, seconds
//
// Methods that are not known are "_OTHER" in both, since peers choose names and each would be a time series of its own.
//
// With Meta, the trace travels inside of params: the members traceparent, tracestate and baggage of "_meta" (SEP-414 of the
// Model Context Protocol), on any carrier.
package otelrpc
