package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This is the only file of the package that uses the JSON codec, which is the codec of package
// jsonrpc.

// encode returns the JSON text of v. Equal values give equal bytes.
func encode(v any) (jsonrpc.Raw, error) {
	switch v := v.(type) {
	case nil:
		return jsonrpc.Raw("null"), nil
	case jsonrpc.Raw:
		if v == nil {
			return jsonrpc.Raw("null"), nil
		}
		return v, nil
	}
	return jsonrpc.AppendValue(nil, v)
}

// mustEncode is encode for types of this package, which can always be encoded.
func mustEncode(v any) jsonrpc.Raw {
	raw, err := encode(v)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	return raw
}

// appendValue appends the JSON text of v to dst.
func appendValue(dst []byte, v any) ([]byte, error) { return jsonrpc.AppendValue(dst, v) }

// unquoted is like textOf, but copies only strings with escapes.
func unquoted(text jsonrpc.Raw) ([]byte, bool) {
	if len(text) < 2 || text[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1], true
	}
	out, err := jsontext.AppendUnquote(nil, text)
	return out, err == nil
}

// textOf returns the value of the JSON string in text, and whether text is a string. text must be
// valid JSON.
func textOf(text jsonrpc.Raw) (string, bool) {
	out, ok := unquoted(text)
	return string(out), ok
}

// isStrict reports whether no object in text has a duplicate member.
func isStrict(text jsonrpc.Raw) bool { return jsontext.Value(text).IsValid() }

// canonical returns the canonical JSON text (RFC 8785), so that equal values have the same digest.
func canonical(text jsonrpc.Raw) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(text))
	err := v.Canonicalize()
	return v, err
}
