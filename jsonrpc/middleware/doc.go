// Package middleware provides optional middleware for servers: logging, limits, timeouts and panic
// recovery for every method.
//
// Each function returns a [jsonrpc.Middleware] that can wrap a Mux or a single handler. In a chain
// the first one is the outermost. In the following order the log contains every request and refused
// calls are cheap:
//
//	h := jsonrpc.Chain(mux,
//		middleware.Slog(logger, nil),
//		middleware.Limit(middleware.Budget{PerSecond: 100}),
//		middleware.Timeout(10*time.Second, nil),
//		middleware.Recover(nil),
//	)
//
// Their memory use is bounded: nothing is stored per method name, because peers choose the names.
package middleware
