// Package tap forwards traffic between two programs that speak JSON-RPC and records it.
//
// It forwards bytes as they arrive and parses a copy. No limit and no parse error of the tap
// affects the forwarded traffic: a message that is too long to be stored is truncated only in the
// recording, and unreadable bytes are forwarded, too. A [Child] is a server on stdio, with the host
// on our own stdin and stdout. A [Relay] accepts connections for a server elsewhere: HTTP with its
// event streams, WebSocket, TCP and Unix sockets.
package tap
