// Package a2a is the Agent2Agent protocol, for both roles: a [Server] that gives other agents tasks of yours to watch, continue and
// cancel, and a [Client] that uses such an agent.
//
//	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
//		return r.Artifact(ctx, a2a.Artifact{Name: "echo", Parts: []a2a.Part{a2a.Text(r.Message.Text())}})
//	}), nil)
//	err := s.Serve(ctx, transport)
//
// Everything inside has the shape of v1.0. Version 0.3 is translated where messages come in and go out; one server speaks both, and the
// name of a method tells which: SendMessage is v1.0, message/send is v0.3. A [Client] finds out.
//
// A stream is a request that notifies before it answers, as everywhere in this module: each event but the last is a notification
// [MethodStream], the last is the response. That is the binding for stdio and WebSocket, [BindingStream], which the protocol leaves open.
// Over HTTP the protocol wants the same response many times instead; package a2ahttp maps one to the other, and has the REST binding,
// the agent card's address and push notifications. This package knows no carrier.
//
// The specification is https://a2a-protocol.org, v1.0.1 of 2026-05-28 and v0.3.0 of 2025-07-31.
package a2a
