package editor

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file contains all uses of the JSON codec, which is the one of package jsonrpc.

// appendValue appends the JSON text of v to dst. Equal values give equal bytes.
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

// appendTagged appends the object v to dst, with the member tag before all others. The variants of
// a union are encoded this way.
func appendTagged(dst []byte, tag, kind string, v any) ([]byte, error) {
	dst = append(append(append(dst, `{"`...), tag...), `":`...)
	dst = append(jsonrpc.AppendString(dst, kind), ',')
	start := len(dst)
	dst, err := appendValue(dst, v)
	if err != nil {
		return dst, err
	}
	if string(dst[start:]) == "{}" {
		return append(dst[:start-1], '}'), nil
	}
	return append(dst[:start], dst[start+1:]...), nil // without the opening brace
}
