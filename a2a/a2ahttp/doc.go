// Package a2ahttp implements the Agent2Agent protocol over HTTP: its JSON-RPC and REST bindings,
// the URL of the agent card, webhooks, and a client.
//
//	h := &a2ahttp.Server{A2A: s}
//	err := http.ListenAndServe("127.0.0.1:9000", h)
//
//	client, card, err := a2ahttp.Dial(ctx, "http://127.0.0.1:9000", nil)
//
// Over HTTP the protocol sends several responses to one streaming request, where package a2a has
// notifications and one response. This package maps between the two: each notification is sent as a
// response with the id of the request, and is converted back when it is received. The core of this
// module therefore never handles a request with two responses.
package a2ahttp
