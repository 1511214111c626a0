// Package guard is the door of an HTTP listener: who may come in, and what they may bring.
//
// A [Door] stands before all routes. It looks at the Host header first, because under DNS rebinding a web page's Origin and
// Host are equal and nothing else tells it from a local program; then at Origin and the Fetch Metadata headers
// (W3C Fetch Metadata Request Headers, section 2), then at the bearer token (RFC 6750). A [Body] reads what was
// brought, within a size and a time. Whatever is turned away gets a short plain text and never reaches a handler.
package guard
