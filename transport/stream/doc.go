// Package stream finds payloads in a stream of bytes: one in each line, or one behind each Content-Length header.
//
// [New] makes a [jsonrpc.Transport] of anything that reads, writes and closes. A TCP or Unix connection and a pipe
// are read without a buffer at rest: while nothing arrives, a Transport holds a few hundred bytes.
package stream
