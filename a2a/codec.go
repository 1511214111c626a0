package a2a

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This is the one file that knows the JSON codec; it is that of package jsonrpc.

// encode returns the JSON text of v; equal values give equal bytes.
func encode(v any) (jsonrpc.Raw, error) {
	switch v := v.(type) {
	case nil:
		return jsonrpc.Raw("null"), nil
	case jsonrpc.Raw:
		return v, nil
	}
	return json.Marshal(v, json.Deterministic(true))
}

// mustEncode is encode for our own types, which always have a text.
func mustEncode(v any) jsonrpc.Raw {
	raw, err := encode(v)
	if err != nil {
		panic("a2a: " + err.Error())
	}
	return raw
}

// decodeParams reads params, or answers what is wrong with them.
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
			return BadParams(dotted(string(e.JSONPointer)), "member comes twice")
		}
		return BadParams(dotted(string(e.JSONPointer)), "text is not valid Unicode")
	}
	return BadParams("", "wrong value")
}

// A valueError is what a type that reads itself says about its text.
type valueError struct{ reason string }

func (e *valueError) Error() string { return "a2a: " + e.reason }

// dotted makes "message.parts[0].text" of "/message/parts/0/text".
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

// appendString adds s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // the error is about invalid UTF-8, which has been replaced
	return out
}

// member finds a member of an object; nil if there is none.
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
