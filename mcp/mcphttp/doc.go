// Package mcphttp is MCP over HTTP: all revisions, at one address, in one process.
//
// [NewHandler] makes a server of package mcp an http.Handler for its endpoint. Which era a request belongs to is decided once, at the door: by
// the header MCP-Protocol-Version, the session that it names, and at last by its body. A request of the modern era (2026-07-28) is answered
// by itself; a client of an older revision gets a session by its handshake. [Handler.Pair] is the transport of 2024-11-05 beside it,
// an event stream and an address to POST to.
//
// [Connect] makes a client of package mcp for any such server, and finds out which revision it speaks and over which of these transports.
package mcphttp
