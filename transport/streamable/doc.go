// Package streamable carries JSON-RPC over one HTTP endpoint with sessions: POST says something, GET listens, DELETE hangs up.
//
// A POST is one payload. Its answer is plain JSON, and becomes an event stream the first time that a handler notifies or asks back; what
// the server says unasked comes on the stream of a GET. In a session each event has an id and is kept for a while, so that a client
// whose stream broke gets the rest of it with Last-Event-ID: nothing is missed, nothing comes twice. A payload may also stand alone, in no
// session: then it is as in package httprpc, and whoever goes away cancels.
//
// [Server] is the one end, [Client] the other. This is MCP's Streamable HTTP (MCP 2025-11-25, Base Protocol, Transports; for what stands
// alone MCP 2026-07-28, Transports, Streamable HTTP) without MCP: which header names a session, what a POST is, and what goes with it are
// functions and names that the protocol's own package fills in.
package streamable

// LastEventID is the header by which a client that comes back says what it has (WHATWG HTML, section 9.2.4).
const LastEventID = "Last-Event-ID"
