package acp

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This is the one file that knows the JSON codec; it is that of package jsonrpc.

var encodeOptions = json.JoinOptions(json.Deterministic(true), jsontext.PreserveRawStrings(true))

// encode returns the JSON text of v; equal values give equal bytes.
func encode(v any) (jsonrpc.Raw, error) {
	if raw, ok := v.(jsonrpc.Raw); ok {
		return raw, nil
	}
	return json.Marshal(v, encodeOptions)
}

// appendString adds s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // the error is about invalid UTF-8, which has been replaced
	return out
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// isObject reports whether text, which is valid JSON, is an object.
func isObject(text jsonrpc.Raw) bool { return len(text) > 0 && text[0] == '{' }

// openMessage is the message of message.created, whose end is to come: clients want to see that it is null.
type openMessage struct {
	Role        string        `json:"role"`
	Parts       []MessagePart `json:"parts"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
	CompletedAt *time.Time    `json:"completed_at"`
}

// text returns the event as it is kept and sent.
func (e *Event) text() (jsonrpc.Raw, error) {
	if e.Type == EventMessageCreated && e.Message != nil && e.Message.CompletedAt.IsZero() {
		return encode(struct {
			Type    EventType   `json:"type"`
			Message openMessage `json:"message"`
		}{e.Type, openMessage{Role: e.Message.Role, CreatedAt: e.Message.CreatedAt}})
	}
	return encode(e)
}

// unfit says where params did not fit.
func unfit(err error) *Error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.JSONPointer != "" {
		return invalid("The value at %.64q does not fit.", string(e.JSONPointer))
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid("The member at %.64q comes twice.", string(e.JSONPointer))
	}
	return invalid("The params do not fit.")
}

// Parse reads a request or what else came from a peer, as strictly as both bindings do. What does not fit is an [*Error].
func Parse(text []byte, v any) error {
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return invalid("This is no JSON.")
	}
	if !isObject(raw) {
		return invalid("This is no JSON object.")
	}
	if err := raw.Decode(v); err != nil {
		return unfit(err)
	}
	return nil
}
