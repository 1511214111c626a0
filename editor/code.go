package editor

import (
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Codes of the protocol, beside those of JSON-RPC (Agent Client Protocol v1, schema, ErrorCode).
const (
	CodeAuthRequired     = -32000 // authenticate first
	CodeResourceNotFound = -32002 // a file, or a session, that is not there
	CodeCancelled        = jsonrpc.CodeCancelled
)

// The kinds of errors, for errors.Is. They compare by code alone.
var (
	ErrAuthRequired     = &jsonrpc.Error{Code: CodeAuthRequired, Message: "Authentication required"}
	ErrResourceNotFound = &jsonrpc.Error{Code: CodeResourceNotFound, Message: "Resource not found"}
)

// What goes wrong on this side.
var (
	ErrVersion      = errors.New("editor: the other side speaks another version of the protocol")
	ErrNotSupported = errors.New("editor: the other side does not offer this")
	ErrBusy         = errors.New("editor: the session has a turn that is not over")

	// ErrTurnCancelled is the cause that a turn's context ends with when the client cancelled it.
	ErrTurnCancelled = errors.New("editor: the turn was cancelled by the client")
)

// invalidParams is an answer with a reason that the peer may read.
func invalidParams(reason string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: " + reason}
}

// noSession is the answer to a request that names a session nobody knows.
func noSession(id string) *jsonrpc.Error {
	return jsonrpc.NewError(CodeResourceNotFound, "Session not found").WithData(sessionRef{SessionID: id})
}
