// Package a2a implements the Agent2Agent protocol for both roles: a [Server] exposes an agent whose
// tasks other agents can watch, continue and cancel, and a [Client] uses such an agent.
//
//	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
//		return r.Artifact(ctx, a2a.Artifact{Name: "echo", Parts: []a2a.Part{a2a.Text(r.Message.Text())}})
//	}), nil)
//	err := s.Serve(ctx, transport)
//
// All types have the shape of v1.0. Messages of version 0.3 are translated when they are received
// and sent. One server supports both versions, and the method name determines which applies:
// SendMessage is v1.0, message/send is v0.3. A [Client] detects the version of its agent.
//
// A stream is a request with notifications before its response, as everywhere in this module: each
// event except the last is a [MethodStream] notification, and the last is the response. This is
// [BindingStream], the binding for stdio and WebSocket, which the protocol does not define. Over
// HTTP the protocol requires several responses to one request instead. Package a2ahttp maps one to
// the other, and provides the REST binding, the URL of the agent card and push notifications. This
// package is independent of the transport.
//
// The specification is https://a2a-protocol.org, v1.0.1 of 2026-05-28 and v0.3.0 of 2025-07-31.
package a2a
