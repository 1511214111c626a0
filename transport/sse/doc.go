// Package sse reads and writes event streams, and speaks JSON-RPC over a pair of one such stream and POSTs.
//
// [Reader] and [Writer] are the format (WHATWG HTML, section 9.2, Server-sent events). [Pair] and [Dial] are the two ends of
// MCP's first HTTP transport (MCP 2024-11-05, Base Protocol, Transports, HTTP with SSE): a GET opens the stream, its
// first event tells where to POST, and all answers come on the stream.
package sse
