// Package httprpc carries JSON-RPC over HTTP: one POST is one payload, and its answer is the response.
//
// A [Server] is an http.Handler over jsonrpc's answering half; there are no sessions. An answer is plain JSON, and becomes
// an event stream the first time that a handler notifies, if the caller takes one: each notification is an event, the
// response is the last. A [Client] is a jsonrpc.Peer for such a server, or for any other that speaks JSON-RPC over POST.
//
// JSON-RPC itself does not say how it goes over HTTP. What is done here where the drafts and programs differ: every response has
// status 200 whatever it says, but for the few that tell about the server itself (busy, shutting down, no backend);
// what has no response has status 204; statuses from 400 on with plain text are about the HTTP request and reach no handler.
package httprpc
