package editor

import (
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Error codes of the protocol, in addition to those of JSON-RPC (Agent Client Protocol v1, schema,
// ErrorCode).
const (
	CodeAuthRequired     = -32000 // authenticate first
	CodeResourceNotFound = -32002 // a file or a session does not exist
	CodeCancelled        = jsonrpc.CodeCancelled
)

// The kinds of errors, for errors.Is, which compares them by code alone.
var (
	ErrAuthRequired     = &jsonrpc.Error{Code: CodeAuthRequired, Message: "Authentication required"}
	ErrResourceNotFound = &jsonrpc.Error{Code: CodeResourceNotFound, Message: "Resource not found"}
)

// Errors that are detected locally.
var (
	ErrVersion      = errors.New("editor: the peer uses another protocol version")
	ErrNotSupported = errors.New("editor: not supported by the peer")
	ErrBusy         = errors.New("editor: the session already has a turn")

	// ErrTurnCancelled is the cause of a turn's context when the client has cancelled the turn.
	ErrTurnCancelled = errors.New("editor: the turn was cancelled by the client")
)

// invalidParams returns an error with a reason that is sent to the peer.
func invalidParams(reason string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params: " + reason}
}

// noSession returns the error for a request with an unknown session.
func noSession(id string) *jsonrpc.Error {
	return jsonrpc.NewError(CodeResourceNotFound, "Session not found").WithData(sessionRef{SessionID: id})
}
