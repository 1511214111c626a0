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

// Codes of this module. They lie outside the reserved range on purpose, since -32000 to -32099 means
// different things in MCP, A2A and ACP. Errors that the engine makes with them carry a [FaultData].
const (
	CodeBusy             = -31001 // too many requests are waiting
	CodeDeadline         = -31002 // the handler passed its deadline
	CodeResponseTooLarge = -31003 // the answer is over the limit
	CodeShuttingDown     = -31004 // no new requests are taken
	CodeUnauthorized     = -31005 // no, wrong or insufficient credentials on a stream
	CodeUnavailable      = -31006 // whoever would have answered is away
	CodeStorage          = -31009 // what keeps state is in trouble
	CodeCancelled        = -32800 // the caller cancelled the request (Language Server Protocol 3.17, ErrorCodes)
)

// An Error is what the peer answered instead of a result (JSON-RPC 2.0, section 5.1). Out of a call,
// an *Error always comes from the other side; our own failures have other types.
//
// A [Handler] that returns an *Error sends it as it is. One that is wrapped in another error becomes
// "Internal error" on the wire, so that private texts stay here.
type Error struct {
	Code    int64
	Message string
	Data    Raw // nil when the member was absent; "null" only when somebody wrote it
}

// The kinds of errors, for errors.Is. They compare by code alone.
var (
	ErrParseError     = &Error{Code: CodeParseError, Message: "Parse error"}
	ErrInvalidRequest = &Error{Code: CodeInvalidRequest, Message: "Invalid Request"}
	ErrMethodNotFound = &Error{Code: CodeMethodNotFound, Message: "Method not found"}
	ErrInvalidParams  = &Error{Code: CodeInvalidParams, Message: "Invalid params"}
	ErrInternal       = &Error{Code: CodeInternalError, Message: "Internal error"}
	ErrCancelled      = &Error{Code: CodeCancelled, Message: "Request cancelled"}
)

// What goes wrong on this side. None of these was sent by the peer.
var (
	ErrClosed        = errors.New("jsonrpc: connection closed")
	ErrBusy          = errors.New("jsonrpc: too many calls are waiting for an answer")
	ErrBadResponse   = errors.New("jsonrpc: the peer's answer is no JSON-RPC response")
	ErrTooLarge      = errors.New("jsonrpc: message too large")
	ErrOneWay        = errors.New("jsonrpc: nothing can be sent to this peer from here")
	ErrAnswered      = errors.New("jsonrpc: the request of this peer is already answered")
	ErrPeerCancelled = errors.New("jsonrpc: cancelled by the peer")
	ErrLagging       = errors.New("jsonrpc: notifications came faster than they were taken")
	ErrBatchRefused  = errors.New("jsonrpc: the peer does not take batches")
	ErrGarbage       = errors.New("jsonrpc: the peer sends no JSON-RPC")
	ErrSlowPeer      = errors.New("jsonrpc: the peer does not read what is sent to it")
)

// ErrTimeout says that a call had no answer, or a handler did not return, within the time it had. It is
// a context.DeadlineExceeded for errors.Is.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string        { return "jsonrpc: time is up" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// NewError makes an Error without data.
func NewError(code int64, message string) *Error { return &Error{Code: code, Message: message} }

// WithData returns a copy of e with data in it, as the codec encodes it. Data that cannot be encoded is left out.
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
}

// The faults that the engine itself answers with.
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
