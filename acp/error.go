package acp

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// An ErrorCode is one of the three error codes of the protocol.
type ErrorCode string

// The codes (ACP 0.2.0, components/schemas/Error).
const (
	CodeServerError  ErrorCode = "server_error"
	CodeInvalidInput ErrorCode = "invalid_input"
	CodeNotFound     ErrorCode = "not_found"
)

// Codes of errors in the JSON-RPC binding.
const (
	RPCNotFound    = -32001 // no such agent, run or session
	RPCOver        = -32002 // the run is over, or will be
	RPCNotAwaiting = -32010 // the run does not await input of this type
	RPCNotKept     = -32011 // the events are no longer stored
)

// The kinds of request errors, for [errors.Is]. They are the same in both bindings, for server and
// client.
var (
	ErrNotFound    = errors.New("acp: not found")
	ErrInvalid     = errors.New("acp: invalid input")
	ErrMismatch    = errors.New("acp: session_id and session.id differ") // is also ErrInvalid
	ErrOver        = errors.New("acp: the run has ended")
	ErrNotAwaiting = errors.New("acp: the run is not waiting for this")
	ErrNotKept     = errors.New("acp: the events are no longer stored")
	ErrServer      = errors.New("acp: not supported by the server")
	ErrBusy        = errors.New("acp: the server is overloaded") // is also ErrServer
)

// Reasons why the run of a [Job] is stopped, or refuses further output.
var (
	ErrCancelled  = errors.New("acp: the run was cancelled")
	ErrUnanswered = errors.New("acp: no answer in time")
	ErrTooLarge   = errors.New("acp: the output of the run exceeds its limit")
	ErrShutdown   = errors.New("acp: the server has stopped")
)

// An Error is the error object of the protocol: in a failed [Run], in an [Event], or as the
// response to a request. An agent returns one to report its failure with its own text. From a
// [Client]'s call it is always the error that the server sent, and errors.As finds the underlying
// [*jsonrpc.Error].
type Error struct {
	Code    ErrorCode   `json:"code"`
	Message string      `json:"message"`
	Data    jsonrpc.Raw `json:"data,omitzero"` // an object

	Extra Extra `json:",embed"`

	kind error // of a rejected request
	rpc  *jsonrpc.Error
}

// Errorf returns an Error with the code server_error, for agents. Its text is sent to the caller.
func Errorf(format string, args ...any) *Error {
	return &Error{Code: CodeServerError, Message: fmt.Sprintf(format, args...)}
}

// Error returns code and message.
func (e *Error) Error() string { return fmt.Sprintf("acp: %s: %s", e.Code, e.Message) }

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool {
	kind := e.Kind()
	return kind == target || kind == ErrMismatch && target == ErrInvalid || kind == ErrBusy && target == ErrServer
}

// Unwrap returns the error of the JSON-RPC binding that e was received as, if any.
func (e *Error) Unwrap() error {
	if e.rpc == nil {
		return nil
	}
	return e.rpc
}

// Kind returns the kind of e: the reason for which the request was rejected, or the kind that
// matches its code.
func (e *Error) Kind() error {
	if e.kind != nil {
		return e.kind
	}
	switch e.Code {
	case CodeNotFound:
		return ErrNotFound
	case CodeInvalidInput:
		return ErrInvalid
	}
	return ErrServer
}

func newRefusal(kind error, code ErrorCode, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), kind: kind}
}

func notFound(what string) *Error {
	return newRefusal(ErrNotFound, CodeNotFound, "The %s was not found.", what)
}

func invalid(format string, args ...any) *Error {
	return newRefusal(ErrInvalid, CodeInvalidInput, format, args...)
}

// RPC returns the error in the form of the JSON-RPC binding: data holds the error object.
func (e *Error) RPC() *jsonrpc.Error {
	if e.rpc != nil {
		return e.rpc
	}
	out := jsonrpc.NewError(jsonrpc.CodeInternalError, e.Message)
	switch {
	case e.Is(ErrNotFound):
		out.Code = RPCNotFound
	case e.Is(ErrInvalid):
		out.Code = jsonrpc.CodeInvalidParams
	case e.Is(ErrOver):
		out.Code = RPCOver
	case e.Is(ErrNotAwaiting):
		out.Code = RPCNotAwaiting
	case e.Is(ErrNotKept):
		out.Code = RPCNotKept
	case e.Is(ErrBusy):
		out.Code = jsonrpc.CodeBusy
	}
	return out.WithData(e)
}

// ErrorOf converts a JSON-RPC error to an error of this protocol. It is for transports: errors of a
// [Client] are converted already.
func ErrorOf(e *jsonrpc.Error) *Error {
	out := &Error{}
	if e.Data == nil || !isObject(e.Data) || e.Data.Decode(out) != nil || out.Code == "" {
		*out = Error{Code: CodeServerError, Message: e.Message}
		if isObject(e.Data) {
			out.Data = e.Data
		}
	}
	out.rpc = e
	switch e.Code {
	case RPCNotFound:
		out.kind = ErrNotFound
	case jsonrpc.CodeInvalidParams:
		out.kind = ErrInvalid
	case RPCOver:
		out.kind = ErrOver
	case RPCNotAwaiting:
		out.kind = ErrNotAwaiting
	case RPCNotKept:
		out.kind = ErrNotKept
	case jsonrpc.CodeBusy:
		out.kind = ErrBusy
	}
	return out
}

// stored converts an error of the store to one that may be sent; other errors are returned
// unchanged.
func stored(err error) error {
	if fault, ok := errors.AsType[*store.Fault](err); ok {
		_, message, data := fault.Public()
		return &Error{Code: CodeServerError, Message: message, Data: data}
	}
	if errors.Is(err, store.ErrLimit) {
		return newRefusal(ErrBusy, CodeServerError, "The storage has no more room.")
	}
	return err
}
