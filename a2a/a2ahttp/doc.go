// Package a2ahttp is the Agent2Agent protocol over HTTP: its JSON-RPC and REST bindings, the address of the agent card, webhooks, and the
// same for a client.
//
//	h := &a2ahttp.Server{A2A: s}
//	err := http.ListenAndServe("127.0.0.1:9000", h)
//
//	client, card, err := a2ahttp.Dial(ctx, "http://127.0.0.1:9000", nil)
//
// Over HTTP the protocol streams the same response many times, where package a2a has notifications and one response. The two are mapped
// here: each notification leaves as a response with the id of the request, and comes in as a notification again. So the core of
// this module never sees a request with two answers.
package a2ahttp
