package mcp

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Error codes of the protocol, in addition to those of JSON-RPC. The codes from -32020 to -32099
// are reserved for the specification (MCP 2026-07-28, Base Protocol, Errors).
const (
	CodeInvalidParams    = jsonrpc.CodeInvalidParams
	CodeRejected         = -1     // the user rejected sampling; legacy, client to server
	CodeResourceNotFound = -32002 // legacy; the modern era uses CodeInvalidParams
	CodeURLElicitation   = -32042 // 2025-11-25: data lists URLs to visit first
	// modern: a header is missing, malformed or differs from the body
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021 // modern: the request did not declare a required capability
	CodeUnsupportedVersion = -32022 // modern: data lists the supported versions
)

// Errors for use with errors.Is. They are compared by code only.
var (
	ErrResourceNotFound   = &jsonrpc.Error{Code: CodeResourceNotFound, Message: "Resource not found"}
	ErrHeaderMismatch     = &jsonrpc.Error{Code: CodeHeaderMismatch, Message: "Header mismatch"}
	ErrMissingCapability  = &jsonrpc.Error{Code: CodeMissingCapability, Message: "Missing required client capability"}
	ErrUnsupportedVersion = &jsonrpc.Error{Code: CodeUnsupportedVersion, Message: "Unsupported protocol version"}
)

// Errors of this side.
var (
	ErrNoCommonVersion = errors.New("mcp: no protocol version in common with the peer")
	ErrTooManyRounds   = errors.New("mcp: the server asks too many questions")
	ErrNotSupported    = errors.New("mcp: not supported by the peer")
)

// A ToolError is a failure whose text is for the model: the text is sent as a result with isError.
// For any other error of a tool, the model receives "the tool failed", and the full error is passed
// to [Server.Report].
type ToolError struct{ Text string }

func (e *ToolError) Error() string { return e.Text }

// Errorf returns a [ToolError].
func Errorf(format string, args ...any) error { return &ToolError{fmt.Sprintf(format, args...)} }

// invalidParams returns an error response with a reason that the peer may read.
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

// isModernError reports whether err is an error that only a server of the modern era returns.
func isModernError(err error) bool {
	return errors.Is(err, ErrHeaderMismatch) || errors.Is(err, ErrMissingCapability) || errors.Is(err, ErrUnsupportedVersion)
}
