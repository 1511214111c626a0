package mcp

import "github.com/da1ed7bb/parley/jsonrpc"

// Params arrive from package jsonrpc as validated JSON text. On the way to a tool only a few of
// their parts are needed. They are found without decoding.

// lastMember returns a member of the object in text, the last one if it is duplicated, or nil.
func lastMember(text jsonrpc.Raw, name string) (found jsonrpc.Raw) {
	for n, value := range text.Members() {
		if string(n) == name {
			found = value
		}
	}
	return found
}

// isObject reports whether the valid JSON value in text is an object.
func isObject(text jsonrpc.Raw) bool { return len(text) > 0 && text[0] == '{' }

// isNull reports whether the valid JSON value in text is null.
func isNull(text jsonrpc.Raw) bool { return len(text) == 4 && text[0] == 'n' }
