// Package jsonrpc is JSON-RPC 2.0 for both ends of a wire: messages, handlers and calls, on any carrier.
package jsonrpc
