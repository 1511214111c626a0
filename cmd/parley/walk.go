package main

import (
	"bytes"
	"encoding/json"
	"iter"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// walk returns a decoder over text that is known to be valid. Members may repeat; what a server sent is shown as it is.
func walk(text jsonrpc.Raw) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// elements yields the elements of a list, and anything else as it is.
func elements(value jsonrpc.Raw) iter.Seq[jsonrpc.Raw] {
	return func(yield func(jsonrpc.Raw) bool) {
		if kind(value) != '[' {
			yield(value)
			return
		}
		d := walk(value)
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() != ']' {
			element, err := d.ReadValue()
			if err != nil || !yield(jsonrpc.Raw(element)) {
				return
			}
		}
	}
}

// members yields the members of an object in the order they were written: the name as a JSON string, and the value. Both
// are valid until the next step.
func members(object jsonrpc.Raw) iter.Seq2[jsonrpc.Raw, jsonrpc.Raw] {
	return func(yield func(name, value jsonrpc.Raw) bool) {
		d := walk(object)
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() == '"' {
			name, err := d.ReadValue()
			if err != nil {
				return
			}
			key := bytes.Clone(name)
			value, err := d.ReadValue()
			if err != nil || !yield(key, jsonrpc.Raw(value)) {
				return
			}
		}
	}
}

// newNumberDecoder reads values for a jq filter, with numbers as they are written.
func newNumberDecoder(text jsonrpc.Raw) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d
}
