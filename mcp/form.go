package mcp

import (
	"fmt"
	"reflect"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// formOf writes the flat schema of a form: one that holds no objects, and lists only of choices
// (MCP 2025-11-25, Elicitation, Requested Schema).
func formOf[T any]() jsonrpc.Raw {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("mcp: a form is made of a struct, not of a %v", t))
	}
	text := schemaOf(t).text
	// The members that a form does not have, and which no client misses.
	out := []byte(`{"type":"object","properties":{`)
	first := true
	members(member(text, "properties"), func(name []byte, value jsonrpc.Raw) {
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(appendString(out, string(name)), ':'), formField(t, string(name), value)...)
	})
	out = append(out, '}')
	if required := member(text, "required"); required != nil {
		out = append(append(out, `,"required":`...), required...)
	}
	return append(out, '}')
}

// formField makes the schema of one field fit for a form.
func formField(t reflect.Type, name string, schema jsonrpc.Raw) jsonrpc.Raw {
	var kind string
	kindText := member(schema, "type")
	if list := kindText; len(list) > 0 && list[0] == '[' { // a pointer: optional, and then absent, not null
		elements(list, func(one jsonrpc.Raw) {
			if text, _ := textOf(one); text != "null" {
				kind = text
			}
		})
	} else {
		kind, _ = textOf(kindText)
	}
	switch kind {
	case "string", "integer", "number", "boolean":
	case "array":
		items := member(schema, "items")
		if itemKind, _ := textOf(member(items, "type")); itemKind != "string" {
			panic(fmt.Sprintf("mcp: form %v: field %s is a list of other things than strings", t, name))
		}
		choices := member(items, "enum")
		if choices == nil {
			panic(fmt.Sprintf("mcp: form %v: field %s is a list without choices: it needs enum=a|b in its mcp tag", t, name))
		}
		out := append([]byte(`{"type":"array","items":{"type":"string","enum":`), choices...)
		out = append(out, '}')
		return append(formRest(out, schema), '}')
	default:
		panic(fmt.Sprintf("mcp: form %v: field %s is no string, number, boolean or list of choices", t, name))
	}
	out := appendString([]byte(`{"type":`), kind)
	if choices := member(schema, "enum"); choices != nil {
		out = append(append(out, `,"enum":`...), choices...)
	}
	return append(formRest(out, schema), '}')
}

// formRest copies what else a field of a form may say.
func formRest(out []byte, schema jsonrpc.Raw) []byte {
	for _, key := range []string{"title", "description", "format", "default", "minimum", "maximum"} {
		if value := member(schema, key); value != nil {
			out = append(append(appendString(append(out, ','), key), ':'), value...)
		}
	}
	return out
}
