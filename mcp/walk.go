package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Params come from the core as checked JSON text. What is needed of them on the way to a tool are a few spans: these
// functions find them without building anything. They rely on the check.

// members calls f for each member of the object in text, which is valid JSON. The name is unescaped, and valid until f returns.
func members(text jsonrpc.Raw, f func(name []byte, value jsonrpc.Raw)) {
	if len(text) == 0 || text[0] != '{' {
		return
	}
	i := space(text, 1)
	for text[i] != '}' {
		end := stringEnd(text, i)
		name := []byte(text[i+1 : end-1])
		if bytes.IndexByte(name, '\\') >= 0 {
			name, _ = jsontext.AppendUnquote(nil, text[i:end]) // valid already
		}
		start := space(text, space(text, end)+1) // behind the colon
		end = valueEnd(text, start)
		f(name, text[start:end:end])
		if i = space(text, end); text[i] == ',' {
			i = space(text, i+1)
		}
	}
}

// elements calls f for each element of the array in text, which is valid JSON.
func elements(text jsonrpc.Raw, f func(element jsonrpc.Raw)) {
	if len(text) == 0 || text[0] != '[' {
		return
	}
	i := space(text, 1)
	for text[i] != ']' {
		end := valueEnd(text, i)
		f(text[i:end:end])
		if i = space(text, end); text[i] == ',' {
			i = space(text, i+1)
		}
	}
}

// member returns one member of the object in text, nil when there is none.
func member(text jsonrpc.Raw, name string) (found jsonrpc.Raw) {
	members(text, func(n []byte, value jsonrpc.Raw) {
		if string(n) == name {
			found = value
		}
	})
	return found
}

// space returns the index of the first byte from i on that is no white space.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index behind the string that begins at i.
func stringEnd(text []byte, i int) int {
	for {
		i += 1 + bytes.IndexByte(text[i+1:], '"')
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// valueEnd returns the index behind the value that begins at i.
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		depth := 0
		for ; ; i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(text) {
		switch text[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

// isObject reports whether the checked value in text is an object.
func isObject(text jsonrpc.Raw) bool { return len(text) > 0 && text[0] == '{' }

// isNull reports whether the checked value in text is null.
func isNull(text jsonrpc.Raw) bool { return len(text) == 4 && text[0] == 'n' }
