// Package guard provides the access checks of an HTTP listener and the limits of request bodies.
//
// A [Door] runs before all routes. It checks the Host header first, because under DNS rebinding a
// web page's Origin and Host are equal and nothing else distinguishes it from a local program; then
// Origin and the Fetch Metadata headers (W3C Fetch Metadata Request Headers, section 2), then the
// bearer token (RFC 6750). A [Body] reads the request body within limits of size and time. A
// rejected request gets a short plain-text response and never reaches a handler.
package guard
