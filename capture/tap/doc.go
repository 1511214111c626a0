// Package tap stands between two programs that speak JSON-RPC and records what passes.
//
// It forwards bytes as they arrive and reads a copy. No limit and no error rule of ours touches what passes: a message that is too
// long to be kept is cut in the recording and whole on the wire, and what cannot be read is passed on just the same. A [Child] is a server on
// stdio, with a host on our own stdin and stdout. A [Relay] takes connections for a server elsewhere: HTTP with its event streams,
// WebSocket, TCP, Unix sockets.
package tap
