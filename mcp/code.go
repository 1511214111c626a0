package mcp

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Codes of the protocol, beside those of JSON-RPC. From -32020 to -32099 only the specification gives meanings
// (MCP 2026-07-28, Base Protocol, Errors).
const (
	CodeInvalidParams      = jsonrpc.CodeInvalidParams
	CodeRejected           = -1     // the user said no to sampling; legacy, client to server
	CodeResourceNotFound   = -32002 // legacy; in the modern era CodeInvalidParams
	CodeURLElicitation     = -32042 // 2025-11-25: data lists URLs to visit first
	CodeHeaderMismatch     = -32020 // modern: a header is missing, malformed or says other than the body
	CodeMissingCapability  = -32021 // modern: the request did not declare what it needs
	CodeUnsupportedVersion = -32022 // modern: data lists the versions that are spoken
)

// The kinds of errors, for errors.Is. They compare by code alone.
var (
	ErrResourceNotFound   = &jsonrpc.Error{Code: CodeResourceNotFound, Message: "Resource not found"}
	ErrHeaderMismatch     = &jsonrpc.Error{Code: CodeHeaderMismatch, Message: "Header mismatch"}
	ErrMissingCapability  = &jsonrpc.Error{Code: CodeMissingCapability, Message: "Missing required client capability"}
	ErrUnsupportedVersion = &jsonrpc.Error{Code: CodeUnsupportedVersion, Message: "Unsupported protocol version"}
)

// What goes wrong on this side.
var (
	ErrNoCommonVersion = errors.New("mcp: the other side speaks no version that this side does")
	ErrTooManyRounds   = errors.New("mcp: the server keeps asking")
	ErrNotSupported    = errors.New("mcp: the other side does not support this")
)

// A ToolError is what a tool says to the model when it failed: its text goes out as a result with isError. All other
// errors of a tool are "the tool failed" for the model, and go whole to [Server.Report].
type ToolError struct{ Text string }

func (e *ToolError) Error() string { return e.Text }

// Errorf makes a [ToolError].
func Errorf(format string, args ...any) error { return &ToolError{fmt.Sprintf(format, args...)} }

// invalidParams is an answer with a reason that the peer may read.
func invalidParams(reason string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeInvalidParams, Message: "Invalid params: " + reason}
}

// UnsupportedVersionData is the data of [ErrUnsupportedVersion].
type UnsupportedVersionData struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}

// MissingCapabilityData is the data of [ErrMissingCapability].
type MissingCapabilityData struct {
	RequiredCapabilities ClientCapabilities `json:"requiredCapabilities"`
}

// URLElicitationData is the data of an error with [CodeURLElicitation].
type URLElicitationData struct {
	Elicitations []Elicitation `json:"elicitations"`
}

// ResourceErrorData is the data of the error for an unknown resource.
type ResourceErrorData struct {
	URI string `json:"uri"`
}

// isModernError reports whether err is an answer that only a server of the modern era gives.
func isModernError(err error) bool {
	return errors.Is(err, ErrHeaderMismatch) || errors.Is(err, ErrMissingCapability) || errors.Is(err, ErrUnsupportedVersion)
}
