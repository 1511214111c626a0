package mcp

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Schemas of Go types, JSON Schema 2020-12, with the rules of jsonrpc.Func: a field is required unless it is a pointer, omitzero or
// omitempty, and there are no other members. They are written as text at once, so that properties keep the order of the fields.
//
// The description of a field is its jsonschema tag. Its mcp tag may say more, separated by commas: title=…, enum=a|b, default=…, format=…,
// min=…, max=…, header=Name for x-mcp-header.

// A derived schema is that of a Go type.
type derived struct {
	text     jsonrpc.Raw
	complete bool // decoding into the type as jsonrpc.Func does holds all that the schema says
}

var derivedSchemas sync.Map // of schemaKey to derived

type schemaKey struct {
	t     reflect.Type
	input bool
}

// schemaOf returns the schema of what is written for a type.
func schemaOf(t reflect.Type) derived { return derive(schemaKey{t: t}) }

// inputSchemaOf returns the schema of the arguments that a type takes.
func inputSchemaOf(t reflect.Type) (derived, error) {
	switch {
	case t == reflect.TypeFor[jsonrpc.Raw](), t.Kind() == reflect.Interface:
		return derived{jsonrpc.Raw(`{"type":"object"}`), true}, nil
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String, t.Kind() == reflect.Struct && !writesItself(t):
		return derive(schemaKey{t, true}), nil
	}
	return derived{}, fmt.Errorf("arguments are an object, which a %v does not take", t)
}

func derive(k schemaKey) derived {
	if found, ok := derivedSchemas.Load(k); ok {
		return found.(derived)
	}
	w := &schemaWriter{input: k.input, complete: true, named: map[reflect.Type]string{}, uses: map[reflect.Type]int{}}
	w.count(k.t)
	w.root = k.t
	text := w.value(nil, k.t, true)
	if len(w.defs) > 0 {
		text = append(text[:len(text)-1], `,"$defs":{`...)
		for i, d := range w.defs {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(append(appendString(text, d.name), ':'), d.text...)
		}
		text = append(text, `}}`...)
	}
	d := derived{text, w.complete}
	derivedSchemas.Store(k, d)
	return d
}

type schemaWriter struct {
	input    bool
	complete bool
	root     reflect.Type
	named    map[reflect.Type]string // recursive types that have a place in $defs
	uses     map[reflect.Type]int    // recursive types
	defs     []definition
	path     []reflect.Type
}

type definition struct {
	name string
	text []byte
}

// count finds the types that contain themselves.
func (w *schemaWriter) count(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		if t.Name() == "" {
			w.count(t.Elem())
		}
	case reflect.Struct:
		if writesItself(t) {
			return
		}
		if slices.Contains(w.path, t) {
			w.uses[t]++
			return
		}
		w.path = append(w.path, t)
		for _, f := range schemaFields(t, false) {
			w.count(f.typ)
		}
		w.path = w.path[:len(w.path)-1]
	}
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	unmarshaler   = reflect.TypeFor[json.Unmarshaler]()
	appender      = reflect.TypeFor[jsonrpc.Appender]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// writesItself reports whether methods of a type decide its form.
func writesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(unmarshaler) || p.Implements(appender) || p.Implements(textMarshaler)
}

// value writes the schema of a type. top is the type that was asked for.
func (w *schemaWriter) value(dst []byte, t reflect.Type, top bool) []byte {
	switch t {
	case reflect.TypeFor[time.Time]():
		return append(dst, `{"type":"string","format":"date-time"}`...)
	case reflect.TypeFor[big.Int]():
		return append(dst, `{"type":"integer"}`...)
	case reflect.TypeFor[time.Duration]():
		panic("mcp: a time.Duration has no JSON form: take a number of some unit, or a string")
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && writesItself(t) {
		p := reflect.PointerTo(t)
		if p.Implements(textMarshaler) && !p.Implements(marshaler) && !p.Implements(appender) {
			return append(dst, `{"type":"string"}`...)
		}
		return append(dst, `{}`...)
	}
	switch t.Kind() {
	case reflect.Bool:
		return append(dst, `{"type":"boolean"}`...)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return append(dst, `{"type":"integer"}`...)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return append(dst, `{"type":"integer","minimum":0}`...)
	case reflect.Float32, reflect.Float64:
		return append(dst, `{"type":"number"}`...)
	case reflect.String:
		return append(dst, `{"type":"string"}`...)
	case reflect.Interface:
		return append(dst, `{}`...)
	case reflect.Pointer:
		return w.nullable(dst, t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return append(dst, `{"type":"string","contentEncoding":"base64"}`...)
		}
		w.complete = false
		dst = w.value(append(dst, `{"type":"array","items":`...), t.Elem(), false)
		if t.Kind() == reflect.Array {
			dst = fmt.Appendf(dst, `,"minItems":%d,"maxItems":%d`, t.Len(), t.Len())
		}
		return append(dst, '}')
	case reflect.Map:
		w.complete = w.complete && top && t.Elem().Kind() == reflect.Interface
		dst = w.value(append(dst, `{"type":"object","additionalProperties":`...), t.Elem(), false)
		return append(dst, '}')
	case reflect.Struct:
		return w.object(dst, t, top)
	}
	panic(fmt.Sprintf("mcp: a %v has no JSON form", t))
}

// nullable writes the schema of what a pointer points to, or null.
func (w *schemaWriter) nullable(dst []byte, t reflect.Type) []byte {
	inner := w.value(nil, t, false)
	if kind, ok := textOf(member(inner, "type")); ok {
		rest := strings.TrimPrefix(string(inner), `{"type":"`+kind+`"`)
		return append(append(dst, `{"type":["`+kind+`","null"]`...), rest...)
	}
	if string(inner) == "{}" {
		return append(dst, inner...)
	}
	return append(append(append(dst, `{"anyOf":[`...), inner...), `,{"type":"null"}]}`...)
}

func (w *schemaWriter) object(dst []byte, t reflect.Type, top bool) []byte {
	if !top {
		w.complete = false
		if t == w.root {
			return append(dst, `{"$ref":"#"}`...)
		}
		if w.uses[t] > 0 {
			name, ok := w.named[t]
			if !ok {
				name = strings.Map(func(r rune) rune {
					if unicode.IsLetter(r) || unicode.IsDigit(r) {
						return r
					}
					return '_'
				}, t.Name()) + strings.Repeat("_", len(w.named))
				w.named[t] = name
				text := w.members(nil, t)
				w.defs = append(w.defs, definition{name, text})
			}
			return append(appendString(append(dst, `{"$ref":`...), "#/$defs/"+name), '}')
		}
	}
	return w.members(dst, t)
}

func (w *schemaWriter) members(dst []byte, t reflect.Type) []byte {
	fields := schemaFields(t, w.input && t == w.root)
	dst = append(dst, `{"type":"object"`...)
	var required []string
	if len(fields) > 0 {
		dst = append(dst, `,"properties":{`...)
		for i, f := range fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, f.name), ':')
			dst = w.described(dst, f)
			if f.required {
				required = append(required, f.name)
			}
		}
		dst = append(dst, '}')
	}
	if required != nil {
		dst = append(append(dst, `,"required":`...), mustEncode(required)...)
	}
	return append(dst, `,"additionalProperties":false}`...)
}

// described writes the schema of a field with what its tags say.
func (w *schemaWriter) described(dst []byte, f schemaField) []byte {
	start := len(dst)
	if f.quoted {
		dst = append(dst, `{"type":"string"}`...)
		w.complete = false
	} else {
		dst = w.value(dst, f.typ, false)
	}
	var more []byte
	add := func(key string, value jsonrpc.Raw) {
		more = append(append(appendString(append(more, ','), key), ':'), value...)
	}
	if f.doc != "" {
		add("description", appendString(nil, f.doc))
	}
	for part := range strings.SplitSeq(f.more, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "":
		case "title", "format":
			add(key, appendString(nil, value))
		case "default":
			add(key, scalarText(value, f.typ))
		case "min":
			add("minimum", scalarText(value, f.typ))
			w.complete = false
		case "max":
			add("maximum", scalarText(value, f.typ))
			w.complete = false
		case "enum":
			list := []byte{'['}
			for i, one := range strings.Split(value, "|") {
				if i > 0 {
					list = append(list, ',')
				}
				list = append(list, scalarText(one, f.typ)...)
			}
			list = append(list, ']')
			w.complete = false
			if kind := elemKind(f.typ); kind == reflect.Slice || kind == reflect.Array { // the choices are those of the elements
				inner := strings.TrimSuffix(string(dst[start:]), "}}")
				dst = append(append(append(append(dst[:start], inner...), `,"enum":`...), list...), "}}"...)
				continue
			}
			add("enum", list)
		case "header":
			add(headerKeyword, appendString(nil, value))
		default:
			panic(fmt.Sprintf("mcp: the mcp tag of field %s says %q, which has no meaning", f.name, part))
		}
	}
	if more == nil {
		return dst
	}
	if len(dst) == start+2 { // {}
		more = more[1:]
	}
	return append(append(dst[:len(dst)-1], more...), '}')
}

// scalarText is a word of a tag as JSON: a string for strings.
func scalarText(word string, t reflect.Type) jsonrpc.Raw {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.String {
		if raw, err := jsonrpc.ParseRaw([]byte(word)); err == nil {
			return raw
		}
	}
	return appendString(nil, word)
}

// elemKind is the kind of a type, or of what it points to.
func elemKind(t reflect.Type) reflect.Kind {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind()
}

// A schemaField is a member of a struct on the wire.
type schemaField struct {
	name, doc, more string
	typ             reflect.Type
	required        bool
	quoted          bool
}

// schemaFields lists the members of a struct, those of embedded ones in their place. derive: names without a tag begin in lower case, as
// jsonrpc.Func takes them.
func schemaFields(t reflect.Type, derive bool) (fields []schemaField) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous && name == "" {
			e := f.Type
			if e.Kind() == reflect.Pointer {
				e = e.Elem()
			}
			if e.Kind() == reflect.Struct && !writesItself(e) {
				fields = append(fields, schemaFields(e, derive)...)
				continue
			}
			if !f.IsExported() {
				continue
			}
		}
		m := schemaField{name: name, doc: f.Tag.Get("jsonschema"), more: f.Tag.Get("mcp"), typ: f.Type, required: f.Type.Kind() != reflect.Pointer}
		if unquoted, err := strconv.Unquote(strings.ReplaceAll(name, "'", `"`)); err == nil && name != "" {
			m.name = unquoted
		}
		if m.name == "" {
			if m.name = f.Name; derive {
				m.name = lowerFirst(f.Name)
			}
		}
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitzero", "omitempty":
				m.required = false
			case "string":
				m.quoted = true
			}
		}
		fields = append(fields, m)
	}
	return fields
}

// lowerFirst turns a field's name into a member's, as jsonrpc.Func does: Minuend to minuend, URLPath to urlPath.
func lowerFirst(name string) string {
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsUpper(r) || i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break
		}
		runes[i] = unicode.ToLower(r)
	}
	return string(runes)
}
