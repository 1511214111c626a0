// Package jsonrpc implements JSON-RPC 2.0 for servers and clients: methods with typed params and
// results, and calls, over any transport.
//
// A server is a [Mux] of functions. A client is a [Peer]. On a transport that both sides may use at
// any time, each side is a [Conn], which is server and client at once:
//
//	var mux jsonrpc.Mux
//	mux.Add("subtract", jsonrpc.Func(func(ctx context.Context, in struct {
//		Minuend    int `json:"minuend"`
//		Subtrahend int `json:"subtrahend"`
//	}) (int, error) {
//		return in.Minuend - in.Subtrahend, nil
//	}))
//
//	conn := jsonrpc.NewConn(transport)
//	conn.Handler, conn.Mode = &mux, mux.Mode
//	conn.Start(ctx)
//	defer conn.Close()
//
//	answer, err := jsonrpc.Call[int](ctx, conn, "subtract", []int{42, 23})
//
// A request yields any number of notifications, then exactly one response. Messages are read
// strictly: member names are case-sensitive and must not repeat, the text must be valid UTF-8, and
// the depth is bounded. Values that the engine does not decode are passed on as the received bytes:
// ids, params, results and error data. Every queue has a bound; see [Limits].
//
// A [Conn] consists of two halves that do not depend on a [Transport], for HTTP and others where
// requests and responses are separate: the [Answerer] takes a payload and returns the response, and
// the [Asker] tracks the calls that wait. The specification is
// https://www.jsonrpc.org/specification of 2013-01-04.
package jsonrpc
