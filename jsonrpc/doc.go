// Package jsonrpc is JSON-RPC 2.0 for both ends of a wire: typed methods to serve, and calls to make, on any carrier.
//
// A server is a [Mux] of functions. A client is a [Peer]. On a carrier that both ends may use at any time, each end is a
// [Conn], which is both at once:
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
// A request yields any number of notifications, then exactly one response. Messages are read strictly: exact-case
// members, none twice, valid UTF-8, bounded depth; and what nobody reads stays the bytes that came: ids, params,
// results and error data go on as they are. Every queue has a bound; see [Limits].
//
// A [Conn] is made of two halves that know no transport, for carriers that are none: the [Answerer] takes a payload and gives back the
// response, the [Asker] keeps the calls that wait. The specification is https://www.jsonrpc.org/specification of 2013-01-04.
package jsonrpc
