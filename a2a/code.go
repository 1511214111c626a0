package a2a

import (
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Error codes (A2A 1.0.1, section 5.4). Version 0.3 has the first seven.
const (
	CodeTaskNotFound                   = -32001
	CodeTaskNotCancelable              = -32002
	CodePushNotificationNotSupported   = -32003
	CodeUnsupportedOperation           = -32004
	CodeContentTypeNotSupported        = -32005
	CodeInvalidAgentResponse           = -32006
	CodeExtendedAgentCardNotConfigured = -32007
	CodeExtensionSupportRequired       = -32008
	CodeVersionNotSupported            = -32009

	// Not of the specification: what the Go SDK sends together with HTTP 401 and 403.
	CodeUnauthenticated = -31401
	CodeForbidden       = -31403
)

// The kinds of errors, for errors.Is. They compare by code alone.
var (
	ErrTaskNotFound            = &jsonrpc.Error{Code: CodeTaskNotFound, Message: "Task not found"}
	ErrTaskNotCancelable       = &jsonrpc.Error{Code: CodeTaskNotCancelable, Message: "Task cannot be canceled"}
	ErrPushNotSupported        = &jsonrpc.Error{Code: CodePushNotificationNotSupported, Message: "Push Notification is not supported"}
	ErrUnsupportedOperation    = &jsonrpc.Error{Code: CodeUnsupportedOperation, Message: "This operation is not supported"}
	ErrContentTypeNotSupported = &jsonrpc.Error{Code: CodeContentTypeNotSupported, Message: "Incompatible content types"}
	ErrInvalidAgentResponse    = &jsonrpc.Error{Code: CodeInvalidAgentResponse, Message: "Invalid agent response"}
	ErrNoExtendedCard          = &jsonrpc.Error{Code: CodeExtendedAgentCardNotConfigured, Message: "Authenticated Extended Card is not configured"}
	ErrExtensionRequired       = &jsonrpc.Error{Code: CodeExtensionSupportRequired, Message: "Extension support is required"}
	ErrVersionNotSupported     = &jsonrpc.Error{Code: CodeVersionNotSupported, Message: "This protocol version is not supported"}
	ErrUnauthenticated         = &jsonrpc.Error{Code: CodeUnauthenticated, Message: "Authentication is required"}
	ErrForbidden               = &jsonrpc.Error{Code: CodeForbidden, Message: "Not allowed"}
)

// Types of error details (google/rpc/error_details.proto), and the domain of the protocol's own reasons.
const (
	TypeErrorInfo   = "type.googleapis.com/google.rpc.ErrorInfo"
	TypeBadRequest  = "type.googleapis.com/google.rpc.BadRequest"
	ErrorDomain     = "a2a-protocol.org"
	ownErrorDomain  = "github.com/da1ed7bb/parley"
	reasonInvalid   = "INVALID_PARAMS"
	maxQuoted       = 64
	quotedCutMarker = "…"
)

// reasons are the names of the errors in an ErrorInfo.
var reasons = map[int64]string{
	CodeTaskNotFound: "TASK_NOT_FOUND", CodeTaskNotCancelable: "TASK_NOT_CANCELABLE",
	CodePushNotificationNotSupported: "PUSH_NOTIFICATION_NOT_SUPPORTED", CodeUnsupportedOperation: "UNSUPPORTED_OPERATION",
	CodeContentTypeNotSupported: "CONTENT_TYPE_NOT_SUPPORTED", CodeInvalidAgentResponse: "INVALID_AGENT_RESPONSE",
	CodeExtendedAgentCardNotConfigured: "EXTENDED_AGENT_CARD_NOT_CONFIGURED", CodeExtensionSupportRequired: "EXTENSION_SUPPORT_REQUIRED",
	CodeVersionNotSupported: "VERSION_NOT_SUPPORTED", CodeUnauthenticated: "UNAUTHENTICATED", CodeForbidden: "PERMISSION_DENIED",
	jsonrpc.CodeInvalidParams: reasonInvalid,
}

// CodeOf returns the code that stands behind a reason of an ErrorInfo, and 0 for one that is not the protocol's.
func CodeOf(reason string) int64 {
	for code, name := range reasons {
		if name == reason {
			return code
		}
	}
	return 0
}

// A Detail is one member of an error's data. Its Type tells which of the others count.
type Detail struct {
	Type string `json:"@type"`

	// Of an ErrorInfo.
	Reason   string            `json:"reason,omitzero"`
	Domain   string            `json:"domain,omitzero"`
	Metadata map[string]string `json:"metadata,omitempty"`

	// Of a BadRequest.
	FieldViolations []FieldViolation `json:"fieldViolations,omitempty"`
}

// A FieldViolation says what is wrong with one member of params, which is named with dots: "message.parts[0].text".
type FieldViolation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// Fault makes an error of one of the kinds above with the data that the protocol wants: an ErrorInfo whose metadata are the
// pairs of name and value. text, if not empty, replaces the message.
func Fault(kind *jsonrpc.Error, text string, pairs ...string) *jsonrpc.Error {
	info := Detail{Type: TypeErrorInfo, Reason: reasons[kind.Code], Domain: ErrorDomain}
	for i := 0; i+1 < len(pairs); i += 2 {
		if info.Metadata == nil {
			info.Metadata = map[string]string{}
		}
		info.Metadata[pairs[i]] = quoted(pairs[i+1])
	}
	e := &jsonrpc.Error{Code: kind.Code, Message: kind.Message, Data: mustEncode([]Detail{info})}
	if text != "" {
		e.Message = text
	}
	return e
}

// BadParams makes the error for params that do not fit: -32602 with an ErrorInfo and a BadRequest.
func BadParams(field, description string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params", Data: mustEncode([]Detail{
		{Type: TypeErrorInfo, Reason: reasonInvalid, Domain: ErrorDomain},
		{Type: TypeBadRequest, FieldViolations: []FieldViolation{{quoted(field), description}}},
	})}
}

// Details reads the data of an error from any peer. It returns nil if that is no array of typed objects.
func Details(e *jsonrpc.Error) []Detail {
	var list []Detail
	if e == nil || len(e.Data) == 0 || e.Data[0] != '[' || e.Data.Decode(&list) != nil {
		return nil
	}
	return list
}

// Reshape gives an error of the engine the data that the protocol wants, an array: its one-word reason becomes that of an ErrorInfo, a
// place in params that of a BadRequest. Other errors stay as they are.
func Reshape(e *jsonrpc.Error) *jsonrpc.Error {
	if e == nil || len(e.Data) == 0 || e.Data[0] != '{' {
		return e
	}
	var in struct {
		Reason       string      `json:"reason"`
		RetryAfterMs jsonrpc.Raw `json:"retryAfterMs"`
		Pointer      *string     `json:"pointer"`
		Reference    jsonrpc.Raw `json:"reference"`
	}
	if e.Data.Decode(&in) != nil {
		return e
	}
	info := Detail{Type: TypeErrorInfo, Reason: strings.ToUpper(in.Reason), Domain: ownErrorDomain}
	list := []Detail{info}
	switch {
	case in.Pointer != nil:
		list[0].Reason, list[0].Domain = reasonInvalid, ErrorDomain
		list = append(list, Detail{Type: TypeBadRequest, FieldViolations: []FieldViolation{{dotted(*in.Pointer), in.Reason}}})
	case in.RetryAfterMs != nil:
		list[0].Metadata = map[string]string{"retryAfterMs": string(in.RetryAfterMs)}
	case in.Reference != nil:
		list[0].Reason, list[0].Metadata = "INTERNAL", map[string]string{"reference": string(in.Reference)}
	}
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: mustEncode(list)}
}

// quoted cuts a text of the peer, so that an error never carries more than a few words of it.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + quotedCutMarker
}
