package gateway

import (
	"bytes"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// memberIn returns a member of the object in text, or nil.
func memberIn(text jsonrpc.Raw, name string) jsonrpc.Raw {
	for key, value := range text.Members() {
		if string(key) == name {
			return value
		}
	}
	return nil
}

// stringIn returns the value of the JSON string in text.
func stringIn(text jsonrpc.Raw) (s string, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return "", false
	}
	return s, text.Decode(&s) == nil
}

// edited returns an object whose members are those that edit returns, in the same order. A member
// for which edit reports false is left out.
func edited(text jsonrpc.Raw, edit func(name string, value jsonrpc.Raw) (jsonrpc.Raw, bool)) jsonrpc.Raw {
	out := make([]byte, 0, len(text))
	out = append(out, '{')
	for key, value := range text.Members() {
		name := string(key)
		value, keep := edit(name, value)
		if !keep {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, name), ':'), value...)
	}
	return append(out, '}')
}

// withMember returns an object in which the member name has another value. An object without that
// member does not get it.
func withMember(text jsonrpc.Raw, name string, value jsonrpc.Raw) jsonrpc.Raw {
	return edited(text, func(key string, old jsonrpc.Raw) (jsonrpc.Raw, bool) {
		if key == name {
			return value, true
		}
		return old, true
	})
}

// withoutMember returns an object without the member name.
func withoutMember(text jsonrpc.Raw, name string) jsonrpc.Raw {
	if !bytes.Contains(text, []byte(`"`+name+`"`)) {
		return text
	}
	return edited(text, func(key string, value jsonrpc.Raw) (jsonrpc.Raw, bool) { return value, key != name })
}

// quoted returns the JSON text of a string.
func quoted(s string) jsonrpc.Raw { return jsonrpc.AppendString(nil, s) }
