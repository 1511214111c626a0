// Package mcp implements the Model Context Protocol in its five published versions, for both roles:
// a [Server] offers tools, resources and prompts, and a [Client] uses them.
//
//	s := mcp.NewServer(mcp.Implementation{Name: "calculator", Version: "1.0"}, nil)
//	mcp.AddTool(s, mcp.Tool{Name: "calculator/add", Description: "Adds two numbers."},
//		func(ctx context.Context, r *mcp.Request, in struct {
//			A float64 `json:"a"`
//			B float64 `json:"b"`
//		}) (Sum, error) {
//			return Sum{in.A + in.B}, nil
//		})
//	err := s.Serve(ctx, transport)
//
// There are two eras. In the legacy era, up to 2025-11-25, a conversation begins with a handshake,
// and the server may send requests to the client. In the modern era, 2026-07-28, each request is
// self-contained and the server sends no requests: it returns its questions as the result of a
// call, and the client calls again with the answers.
//
// The [Version] is decided once: by the handshake for a [Session], by the envelope for a modern
// request. One Server supports all versions on one connection. A tool asks the user or the model
// with [Request.Elicit], [Request.Sample] and [Request.Roots]; the same code works in both eras.
// See [Request.Ask] for the consequences.
//
// The package is independent of the transport. [Server.Serve] and [Connect] accept any
// [jsonrpc.Transport]. HTTP uses the interfaces in link.go.
package mcp
