// Package acp is the Agent Communication Protocol of IBM Research and BeeAI (version 0.2.0), for both roles: a [Server] that runs
// agents, and a [Client] that uses them.
//
//	s := acp.NewServer(nil)
//	s.Add(acp.Agent{
//		Manifest: acp.AgentManifest{Name: "echo", Description: "Says what you said."},
//		Run: func(ctx context.Context, j *acp.Job) error {
//			return j.Say(ctx, j.Text())
//		},
//	})
//	err := s.Serve(ctx, transport)
//
// A run goes on by itself, whoever listens: [Server.Create] starts one, and its events, numbered from 1, are kept in a
// [store.Store]. Everybody else follows that log, from any number on, as often as they like. So a stream that broke is taken up where it
// broke, and a slow reader holds up nobody.
//
// There are two bindings of the same runs. The released one is REST with event streams, in package acphttp. The one on JSON-RPC is ours
// ("acp-jsonrpc 1", docs/guides/acp.md): no published specification has it. It is what this package speaks, over any
// [jsonrpc.Transport]. A [Client] speaks either, and [Error] is the same in both.
//
// This is not the protocol between editors and coding agents of the same short name; that is package editor.
package acp
