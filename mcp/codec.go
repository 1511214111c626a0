package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This is the one file that knows the JSON codec, which is that of package jsonrpc.

// encode returns the JSON text of v; equal values give equal bytes.
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

// mustEncode is encode for our own types, which always have a text.
func mustEncode(v any) jsonrpc.Raw {
	raw, err := encode(v)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	return raw
}

// appendValue adds the JSON text of v to dst.
func appendValue(dst []byte, v any) ([]byte, error) { return jsonrpc.AppendValue(dst, v) }

// appendString adds s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // the error is about invalid UTF-8, which has been replaced
	return out
}

// unquoted is textOf without a copy, except of what has escapes.
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

// textOf returns what the checked JSON string in text means, and whether it is a string.
func textOf(text jsonrpc.Raw) (string, bool) {
	out, ok := unquoted(text)
	return string(out), ok
}

// isStrict reports whether no object in text has a member twice.
func isStrict(text jsonrpc.Raw) bool { return jsontext.Value(text).IsValid() }

// canonical returns the text of RFC 8785, so that equal values have one digest.
func canonical(text jsonrpc.Raw) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(text))
	err := v.Canonicalize()
	return v, err
}
