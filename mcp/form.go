package mcp

import (
	"fmt"
	"reflect"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// formOf returns the flat schema of a form: a schema without objects, whose lists are only lists of
// choices (MCP 2025-11-25, Elicitation, Requested Schema).
func formOf[T any]() jsonrpc.Raw {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("mcp: a form needs a struct, not a %v", t))
	}
	text, err := derive(t, formSchema)
	if err != nil {
		panic(fmt.Sprintf("mcp: form %v: %v", t, err))
	}
	// Only type, properties and required are copied: a form has no other members.
	out := []byte(`{"type":"object","properties":{`)
	first := true
	for name, value := range lastMember(text, "properties").Members() {
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), formField(t, string(name), value)...)
	}
	out = append(out, '}')
	if required := lastMember(text, "required"); required != nil {
		out = append(append(out, `,"required":`...), required...)
	}
	return append(out, '}')
}

// formField returns the schema of one field, reduced to what a form allows.
func formField(t reflect.Type, name string, schema jsonrpc.Raw) jsonrpc.Raw {
	kind, _ := textOf(lastMember(schema, "type"))
	switch kind {
	case "string", "integer", "number", "boolean":
	case "array":
		items := lastMember(schema, "items")
		if itemKind, _ := textOf(lastMember(items, "type")); itemKind != "string" {
			panic(fmt.Sprintf("mcp: form %v: field %s is a list whose elements are not strings", t, name))
		}
		choices := lastMember(items, "enum")
		if choices == nil {
			panic(fmt.Sprintf("mcp: form %v: field %s is a list without choices: it needs enum=a|b in its mcp tag", t, name))
		}
		out := append([]byte(`{"type":"array","items":{"type":"string","enum":`), choices...)
		out = append(out, '}')
		return append(formRest(out, schema), '}')
	default:
		panic(fmt.Sprintf("mcp: form %v: field %s is not a string, number, boolean or list of choices", t, name))
	}
	out := jsonrpc.AppendString([]byte(`{"type":`), kind)
	if choices := lastMember(schema, "enum"); choices != nil {
		out = append(append(out, `,"enum":`...), choices...)
	}
	return append(formRest(out, schema), '}')
}

// formRest copies the other members that a form field may have.
func formRest(out []byte, schema jsonrpc.Raw) []byte {
	for _, key := range []string{"title", "description", "format", "default", "minimum", "maximum"} {
		if value := lastMember(schema, key); value != nil {
			out = append(append(jsonrpc.AppendString(append(out, ','), key), ':'), value...)
		}
	}
	return out
}
