// Package eventstream reads and writes event streams (WHATWG HTML, section 9.2, Server-sent
// events): [Reader] and [Writer] implement the format, and [Lazy] is a response that may become a
// stream. Programs outside the module use these types by their names in package transport/sse.
package eventstream
