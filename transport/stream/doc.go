// Package stream implements a transport over a byte stream: one payload in each line, or one after
// each Content-Length header.
//
// [New] returns a [jsonrpc.Transport] on anything that reads, writes and closes. TCP and Unix
// connections and pipes hold no buffer while they wait: an idle Transport holds a few hundred
// bytes.
package stream
