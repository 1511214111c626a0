// Package middleware holds handlers that stand around other handlers: what servers want for every method, none of it needed by
// the engine.
//
// Each function returns a [jsonrpc.Middleware], to be put around a Mux or around one handler. In a chain the first is the
// outermost; this order lets the log see everything and keeps the time of a refused call short:
//
//	h := jsonrpc.Chain(mux,
//		middleware.Slog(logger, nil),
//		middleware.Limit(middleware.Budget{PerSecond: 100}),
//		middleware.Timeout(10*time.Second, nil),
//		middleware.Recover(nil),
//	)
//
// What they keep is bounded: nothing is stored per method name, since peers choose those.
package middleware
