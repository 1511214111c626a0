package openrpc

import (
	"encoding"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"math/big"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The schemas are draft-07 (OpenRPC 1.3.2, Schema Object), so that nothing stands beside a $ref: draft-07 ignores it.
//
// jsonschema.ForType does not fit as it is. It refuses recursive types, calls []byte an array of numbers and big.Int a string,
// allows null for slices, does not see methods that change the form of a value, and requires pointers. It is used for
// scalars, where it agrees with the codec.

const schemaPrefix = "#/components/schemas/"

var textType = reflect.TypeFor[jsontext.Value]()

// known holds the form of types whose methods do not tell it. Raw text has methods of its own and is anything.
var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[time.Time]():     {Type: "string", Format: "date-time"},
	reflect.TypeFor[big.Int]():       {Type: "integer"},
	reflect.TypeFor[jsonrpc.ID]():    {Types: []string{"string", "number", "null"}},
	reflect.TypeFor[time.Duration](): never(), // the codec has no form for it
}

var (
	ownForm = []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
		reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom](),
	}
	intoText = []reflect.Type{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender]()}
	fromText = []reflect.Type{reflect.TypeFor[encoding.TextUnmarshaler]()}
)

// schemas makes JSON Schemas of Go types and gathers the named ones.
type schemas struct {
	types map[reflect.Type]*jsonschema.Schema // the program's own, before all else
	names map[reflect.Type]string
	defs  map[string]*jsonschema.Schema
}

func newSchemas(types map[reflect.Type]*jsonschema.Schema) *schemas {
	return &schemas{
		types: types,
		names: make(map[reflect.Type]string),
		defs:  make(map[string]*jsonschema.Schema),
	}
}

// of returns the schema of t: a $ref if t is named and not a scalar.
func (s *schemas) of(t reflect.Type) *jsonschema.Schema {
	if own, ok := s.types[t]; ok {
		return own.CloneSchemas()
	}
	if own, ok := known[t]; ok {
		return own.CloneSchemas()
	}
	if t.Kind() == reflect.Pointer {
		if t.Name() != "" {
			return &jsonschema.Schema{} // a named pointer may point to itself
		}
		return nullable(s.of(t.Elem()))
	}
	if t.Kind() != reflect.Interface {
		into, from := implements(t, intoText), implements(t, fromText)
		switch {
		case implements(t, ownForm):
			return &jsonschema.Schema{}
		case into && from, (into || from) && t.Kind() == reflect.String:
			return &jsonschema.Schema{Type: "string"}
		case into || from:
			return &jsonschema.Schema{} // a string on one of the two ways
		}
	}
	if t.Name() == "" || !composite(t) {
		return s.inline(t)
	}
	name, ok := s.names[t]
	if !ok {
		name = s.nameFor(t)
		s.names[t] = name
		s.defs[name] = nil // taken, also while t refers to itself
		s.defs[name] = s.inline(t)
	}
	return &jsonschema.Schema{Ref: schemaPrefix + name}
}

// composite reports whether a named t becomes a component. Bytes are strings.
func composite(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice, reflect.Array:
		return !isBytes(t)
	}
	return false
}

// isBytes reports whether the codec writes t as base64.
func isBytes(t reflect.Type) bool { return t.Elem() == reflect.TypeFor[byte]() }

func (s *schemas) inline(t reflect.Type) *jsonschema.Schema {
	switch t.Kind() {
	case reflect.Struct:
		return s.object(t)
	case reflect.Map:
		return s.dictionary(t)
	case reflect.Slice:
		if isBytes(t) {
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
		}
		return &jsonschema.Schema{Type: "array", Items: s.of(t.Elem())}
	case reflect.Array:
		n := t.Len()
		if isBytes(t) {
			chars := (n + 2) / 3 * 4
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64", MinLength: &chars, MaxLength: &chars}
		}
		return &jsonschema.Schema{Type: "array", Items: s.of(t.Elem()), MinItems: &n, MaxItems: &n}
	case reflect.Interface:
		return &jsonschema.Schema{}
	}
	scalar, err := jsonschema.ForType(t, nil)
	if err != nil {
		return never() // channels, functions: the codec refuses all
	}
	return scalar
}

func (s *schemas) object(t reflect.Type) *jsonschema.Schema {
	list, rest := members(t)
	o := &jsonschema.Schema{Type: "object", Properties: make(map[string]*jsonschema.Schema, len(list))}
	for _, m := range list {
		o.Properties[m.name] = described(s.member(m.typ, m.quoted), m.doc)
		o.PropertyOrder = append(o.PropertyOrder, m.name)
		if !m.optional {
			o.Required = append(o.Required, m.name)
		}
	}
	if rest != nil {
		o.AdditionalProperties = s.of(rest)
	} else {
		o.AdditionalProperties = never()
	}
	return o
}

// member is the schema of a struct field. A quoted number is a string of digits.
func (s *schemas) member(t reflect.Type, quoted bool) *jsonschema.Schema {
	if !quoted {
		return s.of(t)
	}
	str := &jsonschema.Schema{Type: "string", Pattern: `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`}
	switch elem(t).Kind() {
	case reflect.Float32, reflect.Float64:
	default:
		str.Pattern = `^-?(0|[1-9][0-9]*)$`
	}
	if t.Kind() == reflect.Pointer {
		return nullable(str)
	}
	return str
}

// dictionary is the schema of a map. Keys that are numbers are written as strings.
func (s *schemas) dictionary(t reflect.Type) *jsonschema.Schema {
	o := &jsonschema.Schema{Type: "object", AdditionalProperties: s.of(t.Elem())}
	switch k := t.Key(); {
	case implements(k, ownForm), implements(k, intoText), implements(k, fromText):
	case k.Kind() >= reflect.Int && k.Kind() <= reflect.Int64:
		o.PropertyNames = &jsonschema.Schema{Pattern: `^(0|-?[1-9][0-9]*)$`}
	case k.Kind() >= reflect.Uint && k.Kind() <= reflect.Uintptr:
		o.PropertyNames = &jsonschema.Schema{Pattern: `^(0|[1-9][0-9]*)$`}
	}
	return o
}

// never is the schema false, as the library writes it.
func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

// described adds a description to a schema; beside a $ref it would be ignored.
func described(s *jsonschema.Schema, doc string) *jsonschema.Schema {
	if doc == "" {
		return s
	}
	if s.Ref != "" {
		s = &jsonschema.Schema{AllOf: []*jsonschema.Schema{s}}
	}
	s.Description = doc
	return s
}

// nullable allows null as well.
func nullable(s *jsonschema.Schema) *jsonschema.Schema {
	switch {
	case reflect.DeepEqual(s, &jsonschema.Schema{}), reflect.DeepEqual(s, never()), s.Type == "null", slices.Contains(s.Types, "null"):
		return s
	case s.Type != "" && s.Enum == nil && s.Const == nil && len(s.AllOf)+len(s.AnyOf)+len(s.OneOf) == 0 && s.Not == nil:
		s.Type, s.Types = "", []string{s.Type, "null"}
		return s
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}

// implements reports whether t or *t has the methods of any of list: the codec always finds an address.
func implements(t reflect.Type, list []reflect.Type) bool {
	for _, i := range list {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

var (
	packagePath = regexp.MustCompile(`[^\[\],* ]*[./]`) // of the type arguments of a generic type
	notInName   = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// nameFor finds a free component name for t: its own, else with its package, else numbered.
func (s *schemas) nameFor(t reflect.Type) string {
	name := packagePath.ReplaceAllString(t.Name(), "")
	name = strings.Trim(notInName.ReplaceAllString(name, "_"), "_")
	if name == "" {
		name = "Type"
	}
	if _, taken := s.defs[name]; !taken {
		return name
	}
	name = notInName.ReplaceAllString(path.Base(t.PkgPath()), "_") + "_" + name
	for free, n := name, 2; ; n++ {
		if _, taken := s.defs[free]; !taken {
			return free
		}
		free = name + "_" + strconv.Itoa(n)
	}
}

// components returns the schemas of all named types so far.
func (s *schemas) components() (map[string]jsonrpc.Raw, error) {
	out := make(map[string]jsonrpc.Raw, len(s.defs))
	for _, name := range slices.Sorted(maps.Keys(s.defs)) {
		text, err := schemaText(s.defs[name])
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	return out, nil
}

func schemaText(s *jsonschema.Schema) (jsonrpc.Raw, error) {
	text, err := stdjson.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("openrpc: a schema cannot be written: %w", err)
	}
	return jsonrpc.Raw(text), nil
}
