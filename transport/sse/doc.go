// Package sse implements a JSON-RPC transport over a pair of one event stream and POSTs: [Pair] and
// [Dial] are the two ends of MCP's first HTTP transport (MCP 2024-11-05, Base Protocol, Transports,
// HTTP with SSE). A GET opens the stream, its first event contains the address for POSTs, and all
// responses are sent on the stream.
//
// The package also has the names of the format itself (WHATWG HTML, section 9.2, Server-sent
// events), for other users of event streams: [Reader], [Writer], [Event] and [Lazy].
package sse
