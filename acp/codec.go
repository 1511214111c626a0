package acp

import (
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file contains all uses of the JSON codec, which is the one of package jsonrpc.

var encodeOptions = json.JoinOptions(json.Deterministic(true), jsontext.PreserveRawStrings(true))

// encodeValue returns the JSON text of v. Equal values give equal bytes.
func encodeValue(v any) (jsonrpc.Raw, error) {
	if raw, ok := v.(jsonrpc.Raw); ok {
		return raw, nil
	}
	return json.Marshal(v, encodeOptions)
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// isObject reports whether text, which is valid JSON, is an object.
func isObject(text jsonrpc.Raw) bool { return len(text) > 0 && text[0] == '{' }

// openMessage is the message in message.created, which is not complete yet: clients expect
// completed_at to be null.
type openMessage struct {
	Role        string        `json:"role"`
	Parts       []MessagePart `json:"parts"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
	CompletedAt *time.Time    `json:"completed_at"`
}

// encodeText returns the event as it is stored and sent.
func (e *Event) encodeText() (jsonrpc.Raw, error) {
	if e.Type == EventMessageCreated && e.Message != nil && e.Message.CompletedAt.IsZero() {
		return encodeValue(struct {
			Type    EventType   `json:"type"`
			Message openMessage `json:"message"`
		}{e.Type, openMessage{Role: e.Message.Role, CreatedAt: e.Message.CreatedAt}})
	}
	return encodeValue(e)
}

// unfit returns an error with the position of invalid params.
func unfit(err error) *Error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.JSONPointer != "" {
		return invalid("The value at %.64q is not valid.", string(e.JSONPointer))
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid("Duplicate member %.64q.", string(e.JSONPointer))
	}
	return invalid("The params are not valid.")
}

// Parse decodes a request or another message from a peer, as strictly as both bindings do. If it is
// invalid, the error is an [*Error].
func Parse(text []byte, v any) error {
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return invalid("This is not JSON.")
	}
	if !isObject(raw) {
		return invalid("This is not a JSON object.")
	}
	if err := raw.Decode(v); err != nil {
		return unfit(err)
	}
	return nil
}
