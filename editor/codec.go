package editor

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This is the one file that knows the JSON codec; it is that of package jsonrpc.

// appendValue adds the JSON text of v to dst; equal values give equal bytes.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case jsonrpc.Raw:
		return append(dst, v...), nil
	case jsonrpc.Appender:
		return v.AppendJSON(dst)
	}
	b := bytes.NewBuffer(dst)
	if err := json.MarshalWrite(b, v, json.Deterministic(true), jsontext.PreserveRawStrings(true)); err != nil {
		return dst, err
	}
	return b.Bytes(), nil
}

// appendString adds s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // the error is about invalid UTF-8, which has been replaced
	return out
}

// appendTagged adds the object v to dst, with the member tag before all others. It is how the variants of a union are written.
func appendTagged(dst []byte, tag, kind string, v any) ([]byte, error) {
	dst = append(append(append(dst, `{"`...), tag...), `":`...)
	dst = append(appendString(dst, kind), ',')
	start := len(dst)
	dst, err := appendValue(dst, v)
	if err != nil {
		return dst, err
	}
	if string(dst[start:]) == "{}" {
		return append(dst[:start-1], '}'), nil
	}
	return append(dst[:start], dst[start+1:]...), nil // without the brace
}
