package mcp

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/jsontag"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

// The schemas of Go types are made by package jsonrpc/schema. The description of a field is its
// jsonschema tag. Its mcp tag may add more, separated by commas: title=…, enum=a|b, default=…,
// format=…, min=…, max=…, header=Name for x-mcp-header. A member with a default is optional,
// because the default is filled in.

// A schemaUse is what a derived schema describes.
type schemaUse uint8

const (
	resultSchema  schemaUse = iota // the encoded form of a result
	shownInput                     // arguments, as shown to clients
	acceptedInput                  // arguments, as validated
	formSchema                     // what a user fills in
)

// schemaOf returns the schema of the encoded form of a type. A pointer has the schema of its
// element: many clients do not support lists of types, and they treat a function that returns nil
// as failed.
func schemaOf(t reflect.Type) (jsonrpc.Raw, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[jsonrpc.Appender]()) {
		return jsonrpc.Raw(`{}`), nil // it may append anything
	}
	return derive(t, resultSchema)
}

// An argumentsSchema describes the arguments that a type accepts.
//
// The schema shown to clients does not allow null, because models restricted to other schema
// dialects do not support lists of types. Null is accepted nevertheless: the second schema allows
// it.
type argumentsSchema struct {
	shown, accepted jsonrpc.Raw
	complete        bool // decoding into the type checks everything in the schema
}

var argumentsSchemas sync.Map // of reflect.Type to *argumentsSchema

func argumentsSchemaOf(t reflect.Type) (*argumentsSchema, error) {
	if found, ok := argumentsSchemas.Load(t); ok {
		return found.(*argumentsSchema), nil
	}
	switch {
	case t == reflect.TypeFor[jsonrpc.Raw](), t.Kind() == reflect.Interface:
		anything := jsonrpc.Raw(`{"type":"object"}`)
		return &argumentsSchema{anything, anything, true}, nil
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
	case t.Kind() != reflect.Struct || decodesItself(t):
		return nil, fmt.Errorf("arguments must be an object, which a %v cannot hold", t)
	}
	shown, err := generate(t, shownInput)
	if err != nil {
		return nil, err
	}
	accepted, err := generate(t, acceptedInput)
	if err != nil {
		return nil, err
	}
	s := &argumentsSchema{shown, accepted, decodingChecks(t)}
	argumentsSchemas.Store(t, s)
	return s, nil
}

type schemaKey struct {
	t   reflect.Type
	use schemaUse
}

var derivedSchemas sync.Map // of schemaKey to jsonrpc.Raw

// derive returns a generated schema, from the cache if it is there.
func derive(t reflect.Type, use schemaUse) (jsonrpc.Raw, error) {
	if found, ok := derivedSchemas.Load(schemaKey{t, use}); ok {
		return found.(jsonrpc.Raw), nil
	}
	text, err := generate(t, use)
	if err != nil {
		return nil, err
	}
	derivedSchemas.Store(schemaKey{t, use}, text)
	return text, nil
}

func generate(t reflect.Type, use schemaUse) (jsonrpc.Raw, error) {
	g := schema.Generator{Direction: schema.Input, Brief: true, NoNull: use == shownInput || use == formSchema, Keywords: tagKeywords}
	if use == resultSchema {
		g.Direction = schema.Output
	}
	if (use == shownInput || use == acceptedInput) && t.Kind() == reflect.Struct {
		return g.Params(t)
	}
	return g.Of(t)
}

// decodingChecks reports whether decoding arguments into t checks everything in their schema.
func decodingChecks(t reflect.Type) bool {
	if t.Kind() == reflect.Map {
		return t.Elem().Kind() == reflect.Interface
	}
	for _, f := range jsonrpc.FieldsOf(t) {
		field := t.FieldByIndex(f.Index)
		if jsontag.Of(field).Has("string") {
			return false
		}
		for option := range strings.SplitSeq(field.Tag.Get("mcp"), ",") {
			switch key, _, _ := strings.Cut(option, "="); key {
			case "min", "max", "enum":
				return false
			}
		}
		element := f.Type
		for element.Kind() == reflect.Pointer {
			element = element.Elem()
		}
		if decodesItself(element) {
			continue
		}
		switch element.Kind() {
		case reflect.Slice, reflect.Array:
			if element.Elem().Kind() != reflect.Uint8 {
				return false
			}
		case reflect.Map, reflect.Struct:
			return false
		}
	}
	return true
}

// decodesItself reports whether a type has a method that decodes it.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		p.Implements(reflect.TypeFor[jsonrpc.Parser]())
}

// tagKeywords returns what the mcp tag of a field adds to its schema, and whether the field has a
// default.
func tagKeywords(f reflect.StructField) (more []schema.Keyword, hasDefault bool) {
	add := func(name string, value jsonrpc.Raw) { more = append(more, schema.Keyword{Name: name, Value: value}) }
	for option := range strings.SplitSeq(f.Tag.Get("mcp"), ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "":
		case "title", "format":
			add(key, jsonrpc.AppendString(nil, value))
		case "default":
			hasDefault = true
			add(key, scalarText(value, f.Type))
		case "min":
			add("minimum", scalarText(value, f.Type))
		case "max":
			add("maximum", scalarText(value, f.Type))
		case "enum":
			list := []byte{'['}
			for one := range strings.SplitSeq(value, "|") {
				if len(list) > 1 {
					list = append(list, ',')
				}
				list = append(list, scalarText(one, f.Type)...)
			}
			add(key, append(list, ']'))
		case "header":
			add(headerKeyword, jsonrpc.AppendString(nil, value))
		default:
			panic(fmt.Sprintf("mcp: the mcp tag of field %s has the unknown option %q", f.Name, option))
		}
	}
	return more, hasDefault
}

// scalarText returns a word of a tag as JSON: as a string if the type is a string.
func scalarText(word string, t reflect.Type) jsonrpc.Raw {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.String {
		if raw, err := jsonrpc.ParseRaw([]byte(word)); err == nil {
			return raw
		}
	}
	return jsonrpc.AppendString(nil, word)
}
