package jsonrpc

import (
	"context"
	"errors"
	"strconv"
)

// Codes that the specification reserves (JSON-RPC 2.0, section 5.1).
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603
)

// Codes of this module. They are outside the reserved range because -32000 to -32099 have different
// meanings in MCP, A2A and ACP. Errors that the engine creates with them carry a [FaultData].
const (
	CodeBusy             = -31001 // too many requests are waiting
	CodeDeadline         = -31002 // the handler exceeded its deadline
	CodeResponseTooLarge = -31003 // the response exceeds its limit
	CodeShuttingDown     = -31004 // new requests are not accepted
	CodeUnauthorized     = -31005 // missing, invalid or insufficient credentials on a stream
	CodeUnavailable      = -31006 // the peer that would respond is not connected
	CodeDenied           = -31007 // a policy forbids the call
	CodePinMismatch      = -31008 // a tool is not the one that was approved
	CodeStorage          = -31009 // the storage of state failed
	// CodeCancelled means that the caller cancelled the request (Language Server Protocol 3.17,
	// ErrorCodes).
	CodeCancelled = -32800
)

// An Error is the error of a response (JSON-RPC 2.0, section 5.1). An *Error that a call returns
// always comes from the peer; failures of this side have other types.
//
// An *Error that a [Handler] returns is sent unchanged. If it is wrapped in another error, the peer
// receives "Internal error", so that private texts are not sent.
type Error struct {
	Code    int64
	Message string
	Data    Raw // nil if the member was absent; "null" only if it was sent
}

// The kinds of errors, for errors.Is. They are compared by code only.
var (
	ErrParseError     = &Error{Code: CodeParseError, Message: "Parse error"}
	ErrInvalidRequest = &Error{Code: CodeInvalidRequest, Message: "Invalid Request"}
	ErrMethodNotFound = &Error{Code: CodeMethodNotFound, Message: "Method not found"}
	ErrInvalidParams  = &Error{Code: CodeInvalidParams, Message: "Invalid params"}
	ErrInternal       = &Error{Code: CodeInternalError, Message: "Internal error"}
	ErrCancelled      = &Error{Code: CodeCancelled, Message: "Request cancelled"}
)

// Errors of this side. The peer sends none of them.
var (
	ErrClosed        = errors.New("jsonrpc: connection closed")
	ErrBusy          = errors.New("jsonrpc: too many calls are waiting for a response")
	ErrBadResponse   = errors.New("jsonrpc: the peer's reply is not a JSON-RPC response")
	ErrTooLarge      = errors.New("jsonrpc: message too large")
	ErrOneWay        = errors.New("jsonrpc: this transport cannot send requests to the peer")
	ErrAnswered      = errors.New("jsonrpc: the request of this peer already has a response")
	ErrPeerCancelled = errors.New("jsonrpc: cancelled by the peer")
	ErrLagging       = errors.New("jsonrpc: notifications arrived faster than they were read")
	ErrBatchRefused  = errors.New("jsonrpc: the peer does not support batches")
	ErrGarbage       = errors.New("jsonrpc: the peer does not send JSON-RPC")
	ErrStillRunning  = errors.New("jsonrpc: handlers still run although their contexts have ended")
	ErrSlowPeer      = errors.New("jsonrpc: the peer does not read its messages")
)

// ErrTimeout means that a call got no response, or a handler did not return, in time. errors.Is
// reports it as context.DeadlineExceeded.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "jsonrpc: deadline exceeded" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// NewError creates an Error without data.
func NewError(code int64, message string) *Error { return &Error{Code: code, Message: message} }

// WithData returns a copy of e with data, as encoded by the codec. Data that cannot be encoded is
// omitted.
func (e *Error) WithData(data any) *Error {
	c := *e
	raw, err := appendValue(nil, data)
	if err == nil {
		c.Data = raw
	}
	return &c
}

// Error returns the message and the code.
func (e *Error) Error() string {
	return e.Message + " (" + strconv.FormatInt(e.Code, 10) + ")"
}

// Is reports whether target is an Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// FaultData is the data of an error with a code of this module.
type FaultData struct {
	Reason       string `json:"reason"`                // one word, such as "busy"
	Retryable    bool   `json:"retryable"`             // the same request may succeed later
	RetryAfterMs int64  `json:"retryAfterMs,omitzero"` // when to try again, in milliseconds
	Upstream     string `json:"upstream,omitzero"`     // of a gateway: the name of the server
}

// The errors that the engine itself responds with.
var (
	faultBusy      = fault(CodeBusy, "Busy", `{"reason":"busy","retryable":true,"retryAfterMs":100}`)
	faultDeadline  = fault(CodeDeadline, "Deadline exceeded", `{"reason":"deadline","retryable":true}`)
	faultTooLarge  = fault(CodeResponseTooLarge, "Response too large", `{"reason":"response_too_large","retryable":false}`)
	faultStopping  = fault(CodeShuttingDown, "Shutting down", `{"reason":"shutting_down","retryable":true,"retryAfterMs":1000}`)
	faultCancelled = fault(CodeCancelled, "Request cancelled", `{"reason":"cancelled","retryable":false}`)
)

func fault(code int64, message, data string) *Error {
	return &Error{Code: code, Message: message, Data: Raw(data)}
}
