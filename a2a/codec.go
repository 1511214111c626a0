package a2a

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file contains all uses of the JSON codec, which is the one of package jsonrpc.

// encode returns the JSON text of v. Equal values give equal bytes.
func encode(v any) (jsonrpc.Raw, error) {
	switch v := v.(type) {
	case nil:
		return jsonrpc.Raw("null"), nil
	case jsonrpc.Raw:
		return v, nil
	}
	return json.Marshal(v, json.Deterministic(true))
}

// mustEncode is encode for types of this package, which always have a JSON text.
func mustEncode(v any) jsonrpc.Raw {
	raw, err := encode(v)
	if err != nil {
		panic("a2a: " + err.Error())
	}
	return raw
}

// decodeParams decodes params into v, or returns an invalid params error.
func decodeParams(params jsonrpc.Raw, v any) error {
	if len(params) == 0 {
		params = jsonrpc.Raw("{}")
	}
	if params[0] != '{' {
		return BadParams("", "params must be an object")
	}
	err := json.Unmarshal(params, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		what := "wrong value"
		if bad, ok := errors.AsType[*valueError](e.Err); ok {
			what = bad.reason
		}
		return BadParams(dotted(string(e.JSONPointer)), what)
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return BadParams(dotted(string(e.JSONPointer)), "duplicate member")
		}
		return BadParams(dotted(string(e.JSONPointer)), "text is not valid Unicode")
	}
	return BadParams("", "wrong value")
}

// A valueError is the error of a type that unmarshals itself.
type valueError struct{ reason string }

func (e *valueError) Error() string { return "a2a: " + e.reason }

// dotted converts "/message/parts/0/text" to "message.parts[0].text".
func dotted(pointer string) string {
	var out strings.Builder
	for i, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			out.WriteString("[" + token + "]")
		case i > 0:
			out.WriteString("." + token)
		default:
			out.WriteString(token)
		}
	}
	return out.String()
}

// member returns a member of an object, or nil if it is missing.
func member(object jsonrpc.Raw, name string) jsonrpc.Raw {
	if len(object) == 0 || object[0] != '{' {
		return nil
	}
	var members map[string]jsonrpc.Raw
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members[name]
}
