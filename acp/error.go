package acp

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// An ErrorCode is one of the three that the protocol has.
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
	RPCOver        = -32002 // the run is over, or as good as
	RPCNotAwaiting = -32010 // the run does not wait for an answer of this type
	RPCNotKept     = -32011 // the events are not kept any more
)

// The kinds of what can be wrong with a request, for [errors.Is]. They are the same in both bindings, at both ends.
var (
	ErrNotFound    = errors.New("acp: not found")
	ErrInvalid     = errors.New("acp: invalid input")
	ErrMismatch    = errors.New("acp: two ids of one session differ") // is also ErrInvalid
	ErrOver        = errors.New("acp: the run is over")
	ErrNotAwaiting = errors.New("acp: the run does not wait for this")
	ErrNotKept     = errors.New("acp: the events are not kept any more")
	ErrServer      = errors.New("acp: the server cannot do it")
	ErrBusy        = errors.New("acp: the server has too much to do") // is also ErrServer
)

// What happens to the run of a [Job].
var (
	ErrCancelled  = errors.New("acp: the run was cancelled")
	ErrUnanswered = errors.New("acp: nobody has answered in time")
	ErrTooLarge   = errors.New("acp: more than a run may say")
	ErrShutdown   = errors.New("acp: the server has stopped")
)

// An Error is the error object of the protocol: in a failed [Run], in an [Event], or as the answer to a request. An agent returns one to say
// in its own words why it failed. Out of a [Client]'s call it is always what the server said, and errors.As finds the
// [*jsonrpc.Error] behind it.
type Error struct {
	Code    ErrorCode   `json:"code"`
	Message string      `json:"message"`
	Data    jsonrpc.Raw `json:"data,omitzero"` // an object

	Extra Extra `json:",embed"`

	kind error // of a refused request
	rpc  *jsonrpc.Error
}

// Errorf makes an Error with the code server_error, for agents. Its text goes out.
func Errorf(format string, args ...any) *Error {
	return &Error{Code: CodeServerError, Message: fmt.Sprintf(format, args...)}
}

// Error returns code and message.
func (e *Error) Error() string { return fmt.Sprintf("acp: %s: %s", e.Code, e.Message) }

// Is reports whether target is the kind of the error.
func (e *Error) Is(target error) bool {
	kind := e.Kind()
	return kind == target || kind == ErrMismatch && target == ErrInvalid || kind == ErrBusy && target == ErrServer
}

// Unwrap returns what the server answered in the JSON-RPC binding, if there is such a thing.
func (e *Error) Unwrap() error {
	if e.rpc == nil {
		return nil
	}
	return e.rpc
}

// Kind returns which of the kinds the error is: what the request was refused for, else what its code says.
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

func refuse(kind error, code ErrorCode, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), kind: kind}
}

func notFound(what string) *Error {
	return refuse(ErrNotFound, CodeNotFound, "There is no such %s.", what)
}

func invalid(format string, args ...any) *Error {
	return refuse(ErrInvalid, CodeInvalidInput, format, args...)
}

// RPC returns the error as the JSON-RPC binding answers it: the object itself is in data.
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

// ErrorOf returns what a JSON-RPC error says in the terms of this protocol. It is for carriers: errors of a [Client] are such already.
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

// stored returns what may be said about an error of the store; other errors stay as they are.
func stored(err error) error {
	if fault, ok := errors.AsType[*store.Fault](err); ok {
		_, message, data := fault.Public()
		return &Error{Code: CodeServerError, Message: message, Data: data}
	}
	if errors.Is(err, store.ErrLimit) {
		return refuse(ErrBusy, CodeServerError, "The storage has no more room.")
	}
	return err
}
