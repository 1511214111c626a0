// Package httprpc implements a JSON-RPC transport over HTTP: the body of a POST is one payload, and
// the body of its HTTP response is the JSON-RPC response.
//
// A [Server] is an http.Handler on top of the answering half of package jsonrpc; there are no
// sessions. A response is plain JSON, and becomes an event stream the first time that a handler
// notifies, if the caller accepts one: each notification is an event, the response is the last. A
// [Client] is a jsonrpc.Peer for such a server, or for any other that serves JSON-RPC over POST.
//
// JSON-RPC itself does not define its use over HTTP. Where the drafts and programs differ, this
// package does the following: every response has status 200, result or error, except the few errors
// about the server itself (busy, shutting down, no backend); a payload without a response gets
// status 204; statuses from 400 on with plain text are about the HTTP request and reach no handler.
package httprpc
