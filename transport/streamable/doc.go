// Package streamable implements a JSON-RPC transport over one HTTP endpoint with sessions: POST
// sends, GET listens, DELETE ends the session.
//
// A POST is one payload. Its response is plain JSON, and becomes an event stream the first time
// that a handler notifies or calls back; messages that the server initiates are sent on the stream
// of a GET. In a session each event has an ID and is stored for a while, so that a client whose
// stream broke gets the rest of it with Last-Event-ID: no event is lost or repeated. A payload may
// also be outside of any session: then it is handled as in package httprpc, and a client that
// disconnects cancels it.
//
// [Server] is one end, [Client] the other. This is MCP's Streamable HTTP (MCP 2025-11-25, Base
// Protocol, Transports; for payloads without a session MCP 2026-07-28, Transports, Streamable HTTP)
// without MCP: the header of the session ID, the kinds of POSTs, and the headers that they need are
// functions and names that the protocol's own package supplies.
package streamable

// LastEventID is the header with which a client that reconnects sends the ID of the last event that
// it received (WHATWG HTML, section 9.2.4).
const LastEventID = "Last-Event-ID"
