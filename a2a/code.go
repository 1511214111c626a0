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

	// Codes that the Go SDK sends together with HTTP 401 and 403. They are not in the
	// specification.
	CodeUnauthenticated = -31401
	CodeForbidden       = -31403
)

// The kinds of errors, for errors.Is, which compares them by code alone.
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

// Types of error details (google/rpc/error_details.proto), and the domain of the reasons that the
// protocol defines.
const (
	TypeErrorInfo   = "type.googleapis.com/google.rpc.ErrorInfo"
	TypeBadRequest  = "type.googleapis.com/google.rpc.BadRequest"
	ErrorDomain     = "a2a-protocol.org"
	ownErrorDomain  = "github.com/da1ed7bb/parley"
	reasonInvalid   = "INVALID_PARAMS"
	maxQuoted       = 64
	quotedCutMarker = "…"
)

// reasons maps each error code to its reason in an ErrorInfo.
var reasons = map[int64]string{
	CodeTaskNotFound: "TASK_NOT_FOUND", CodeTaskNotCancelable: "TASK_NOT_CANCELABLE",
	CodePushNotificationNotSupported: "PUSH_NOTIFICATION_NOT_SUPPORTED", CodeUnsupportedOperation: "UNSUPPORTED_OPERATION",
	CodeContentTypeNotSupported: "CONTENT_TYPE_NOT_SUPPORTED", CodeInvalidAgentResponse: "INVALID_AGENT_RESPONSE",
	CodeExtendedAgentCardNotConfigured: "EXTENDED_AGENT_CARD_NOT_CONFIGURED", CodeExtensionSupportRequired: "EXTENSION_SUPPORT_REQUIRED",
	CodeVersionNotSupported: "VERSION_NOT_SUPPORTED", CodeUnauthenticated: "UNAUTHENTICATED", CodeForbidden: "PERMISSION_DENIED",
	jsonrpc.CodeInvalidParams: reasonInvalid,
}

// CodeOf returns the error code of a reason in an ErrorInfo, and 0 if the protocol does not define
// the reason.
func CodeOf(reason string) int64 {
	for code, name := range reasons {
		if name == reason {
			return code
		}
	}
	return 0
}

// A Detail is one member of an error's data. Type determines which other fields are set.
type Detail struct {
	Type string `json:"@type"`

	// Members of an ErrorInfo.
	Reason   string            `json:"reason,omitzero"`
	Domain   string            `json:"domain,omitzero"`
	Metadata map[string]string `json:"metadata,omitempty"`

	// Members of a BadRequest.
	FieldViolations []FieldViolation `json:"fieldViolations,omitempty"`
}

// A FieldViolation reports an invalid member of params. Field is a path with dots:
// "message.parts[0].text".
type FieldViolation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// Fault returns an error of one of the kinds above with the data that the protocol requires: an
// ErrorInfo whose metadata are pairs of name and value. If text is not empty, it replaces the
// message.
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

// BadParams returns an error for invalid params: -32602 with an ErrorInfo and a BadRequest.
func BadParams(field, description string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params", Data: mustEncode([]Detail{
		{Type: TypeErrorInfo, Reason: reasonInvalid, Domain: ErrorDomain},
		{Type: TypeBadRequest, FieldViolations: []FieldViolation{{quoted(field), description}}},
	})}
}

// Details parses the data of an error from a peer. It returns nil if the data is not an array of
// typed objects.
func Details(e *jsonrpc.Error) []Detail {
	var list []Detail
	if e == nil || len(e.Data) == 0 || e.Data[0] != '[' || e.Data.Decode(&list) != nil {
		return nil
	}
	return list
}

// Reshape converts the data of an engine error to the array that the protocol requires: its
// one-word reason becomes the reason of an ErrorInfo, and a position in params becomes a
// BadRequest. Other errors are returned unchanged.
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

// quoted shortens a text from the peer, so that an error includes at most a few words of it.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:maxQuoted], "") + quotedCutMarker
}
