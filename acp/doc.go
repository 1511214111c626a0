// Package acp implements the Agent Communication Protocol of IBM Research and BeeAI (version 0.2.0)
// for both roles: a [Server] that runs agents, and a [Client] that uses them.
//
//	s := acp.NewServer(nil)
//	s.Add(acp.Agent{
//		Manifest: acp.AgentManifest{Name: "echo", Description: "Repeats your message."},
//		Run: func(ctx context.Context, j *acp.Job) error {
//			return j.Say(ctx, j.Text())
//		},
//	})
//	err := s.Serve(ctx, transport)
//
// A run does not depend on its readers: [Server.Create] starts one, and its events, numbered from
// 1, are stored in a [store.Store]. Any number of readers can follow that log, from any event. A
// broken stream is therefore resumed where it broke, and a slow reader does not delay others.
//
// There are two bindings of the same runs. The released one is REST with event streams, in package
// acphttp. The one on JSON-RPC is ours ("acp-jsonrpc 1", docs/guides/acp.md): no published
// specification defines it. This package implements it over any [jsonrpc.Transport]. A [Client]
// supports both, and [Error] is the same in both.
//
// The Agent Client Protocol between editors and coding agents has the same short name. It is in
// package editor.
package acp
