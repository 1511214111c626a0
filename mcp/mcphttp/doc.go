// Package mcphttp implements MCP over HTTP: all protocol versions, at one address, in one process.
//
// [NewHandler] returns an http.Handler with the MCP endpoint of a server. It determines once which
// era a request belongs to: by the header MCP-Protocol-Version, by the session that the request
// names, and otherwise by the body. A modern request (2026-07-28) is handled on its own. A client
// of an older version gets a session by its handshake. [Handler.Pair] serves the transport of
// 2024-11-05, an event stream and an address for POST requests.
//
// [Connect] returns a client for any of these servers. It negotiates the protocol version and the
// transport.
package mcphttp
