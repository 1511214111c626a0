// Package mcp is the Model Context Protocol in its five published revisions, for both roles: a [Server] that offers tools, resources and
// prompts, and a [Client] that uses them.
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
// There are two eras. Up to 2025-11-25 a conversation opens with a handshake and the server may ask the client (legacy); in 2026-07-28
// each request says all about itself and the server never asks: it answers with its questions, and the client calls again
// with the answers (modern). A [Version] is decided once, at the door: by the handshake for a [Session], by the envelope for a modern
// request; one Server speaks all of them on one connection. What a tool asks the user or the model, by [Request.Elicit], [Request.Sample] and
// [Request.Roots], is written once and works in both eras; see [Request.Ask] for what that means.
//
// The package knows no carrier. [Server.Serve] and [Connect] take any [jsonrpc.Transport]; HTTP stands on the seams in link.go.
package mcp
