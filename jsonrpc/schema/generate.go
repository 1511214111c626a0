package schema

import (
	"encoding"
	"fmt"
	"math/big"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/internal/x/jsontag"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Direction is the use of the values that a schema describes. It matters for types that become
// text in one direction only.
type Direction uint8

// The directions. [Both] describes values that are written and read.
const (
	Both Direction = iota
	Input
	Output
)

// A Keyword is one member of a schema.
type Keyword struct {
	Name  string
	Value jsonrpc.Raw
}

// A Generator creates the schemas of Go types. They describe what the codec reads and writes.
//
// A member of a struct is required unless its field is a pointer, is tagged omitzero or omitempty,
// is promoted from an embedded pointer, or is made optional by Keywords. Members that the struct
// does not have are not allowed. The description of a member is the field's jsonschema tag.
//
// The zero value creates schemas of 2020-12, each of which is complete: types are written where
// they are used, and types that contain themselves are in "$defs". Set the fields before the first
// use. A Generator is not safe for concurrent use.
type Generator struct {
	// Direction is the use of the values. The default is [Both].
	Direction Direction

	// Prefix is the start of references to named types, such as "#/components/schemas/". If it is
	// not empty, the schemas are draft-07, and each named struct, map, slice and array is collected
	// for [Generator.Components].
	Prefix string

	// Types holds the schemas of types whose form cannot be found by reflection.
	Types map[reflect.Type]jsonrpc.Raw

	// Brief omits what the codec checks anyway and rarely helps a reader: the ranges of integers,
	// the length of encoded bytes, the syntax of numbers in strings.
	Brief bool

	// NoNull omits null for pointers.
	NoNull bool

	// Keywords returns further keywords of a struct field, and whether they make the member
	// optional. For a list, "enum" applies to the items. If nil, no keywords are added.
	Keywords func(f reflect.StructField) (more []Keyword, optional bool)

	names map[reflect.Type]string // of types with a definition
	defs  map[string]jsonrpc.Raw

	// The fields below belong to one schema.
	root      reflect.Type          // the type that "#" refers to
	recursive map[reflect.Type]bool // types that contain themselves
	order     []string              // names in defs
	err       error
}

// Of returns the schema of a type. A type without a JSON form, such as a channel, gets a schema
// that allows nothing, and is reported by the error; the rest of the schema is valid.
func (g *Generator) Of(t reflect.Type) (jsonrpc.Raw, error) {
	return g.complete(t, t, func() form {
		if g.Prefix != "" {
			return g.value(t)
		}
		return g.inPlace(t)
	})
}

// Params returns the schema of params by name for a struct type, as [jsonrpc.Func] decodes them. It
// is [Generator.Of] except for the names of untagged fields, which start with a lower-case letter.
func (g *Generator) Params(t reflect.Type) (jsonrpc.Raw, error) {
	params := paramsOf(t)
	root := t
	if all, _ := members(t); !sameNames(params, all) {
		root = nil // inside itself, the type has the names of the codec
	}
	return g.complete(t, root, func() form { return g.object(params, nil) })
}

// Field returns the schema of the values of a struct field, without its description and its further
// keywords. Unlike [Generator.Of], it obeys the tag option "string".
func (g *Generator) Field(f reflect.StructField) (jsonrpc.Raw, error) {
	return g.complete(f.Type, nil, func() form { return g.field(f) })
}

// Components returns the schemas of all named types so far, by name.
func (g *Generator) Components() map[string]jsonrpc.Raw { return g.defs }

// complete makes one schema, with the definitions that it refers to.
func (g *Generator) complete(t, root reflect.Type, build func() form) (jsonrpc.Raw, error) {
	if g.Prefix != "" {
		g.err = nil
		return g.text(build()), g.err
	}
	g.names, g.defs, g.order = nil, nil, nil
	g.root, g.recursive, g.err = root, map[reflect.Type]bool{}, nil
	s := search{g: g, done: map[reflect.Type]bool{}}
	s.visit(t)
	n := build()
	if len(g.order) > 0 {
		defs := []byte{'{'}
		for i, name := range g.order {
			if i > 0 {
				defs = append(defs, ',')
			}
			defs = append(append(jsonrpc.AppendString(defs, name), ':'), g.defs[name]...)
		}
		n = append(n, Keyword{"$defs", append(defs, '}')})
	}
	return g.text(n), g.err
}

// A search finds the types that contain themselves.
type search struct {
	g      *Generator
	path   []reflect.Type
	visits int
	done   map[reflect.Type]bool
}

// maxVisits bounds a search that follows every path. After it, each type is visited once: this
// still finds a type of every cycle.
const maxVisits = 10_000

func (s *search) visit(t reflect.Type) {
	if _, own := s.g.special(t); own {
		return
	}
	if named := t.Name() != ""; named && composite(t) {
		if slices.Contains(s.path, t) {
			s.g.recursive[t] = true
			return
		}
		if s.visits++; s.visits > maxVisits && s.done[t] {
			return
		}
		s.path = append(s.path, t)
		defer func() { s.path, s.done[t] = s.path[:len(s.path)-1], true }()
	} else if named {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		s.visit(t.Elem())
	case reflect.Struct:
		list, rest := members(t)
		for _, m := range list {
			s.visit(m.field.Type)
		}
		if rest != nil {
			s.visit(rest)
		}
	}
}

var (
	ownForm = []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](),
		reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom](),
	}
	intoText = []reflect.Type{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender]()}
	fromText = []reflect.Type{reflect.TypeFor[encoding.TextUnmarshaler]()}
)

// special returns the schema of a type that is not described by its kind.
func (g *Generator) special(t reflect.Type) (form, bool) {
	if own, ok := g.Types[t]; ok {
		return parseForm(own), true
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return typed("string", Keyword{"format", quote("date-time")}), true
	case reflect.TypeFor[big.Int]():
		return typed("integer"), true
	case reflect.TypeFor[jsonrpc.ID]():
		if g.Brief {
			return form{}, true
		}
		return form{{"type", jsonrpc.Raw(`["string","number","null"]`)}}, true
	case reflect.TypeFor[time.Duration]():
		return g.none("a time.Duration has no JSON form: use a number of some unit, or a string"), true
	}
	if k := t.Kind(); k == reflect.Interface || k == reflect.Pointer {
		return nil, false
	}
	into, from := implements(t, intoText), implements(t, fromText)
	text := t.Kind() == reflect.String
	switch {
	case implements(t, ownForm):
		return form{}, true
	case into && (from || text || g.Direction == Output), from && (text || g.Direction == Input):
		return typed("string"), true
	case (into || from) && g.Direction == Both:
		return form{}, true // a string in one of the two directions
	}
	return nil, false
}

// value returns the schema of t where it is used: a $ref if it has a definition.
func (g *Generator) value(t reflect.Type) form {
	if n, ok := g.special(t); ok {
		return n
	}
	if t.Kind() == reflect.Pointer {
		switch {
		case t.Name() != "":
			return form{} // a named pointer may point to itself
		case g.NoNull:
			return g.value(t.Elem())
		}
		return g.nullable(g.value(t.Elem()))
	}
	if t.Name() == "" || !composite(t) {
		return g.inPlace(t)
	}
	if g.Prefix == "" {
		switch {
		case t == g.root:
			return form{{"$ref", jsonrpc.Raw(`"#"`)}}
		case !g.recursive[t]:
			return g.inPlace(t)
		}
	}
	name, ok := g.names[t]
	if !ok {
		if g.defs == nil {
			g.names, g.defs = map[reflect.Type]string{}, map[string]jsonrpc.Raw{}
		}
		name = g.nameFor(t)
		g.names[t], g.defs[name] = name, nil // reserved, also while t refers to itself
		g.defs[name] = g.text(g.inPlace(t))
		g.order = append(g.order, name)
	}
	prefix := g.Prefix
	if prefix == "" {
		prefix = "#/$defs/"
	}
	return form{{"$ref", quote(prefix + name)}}
}

// composite reports whether a named t may have a definition. Bytes are strings.
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

// inPlace returns the schema of t, without a reference to t itself.
func (g *Generator) inPlace(t reflect.Type) form {
	if n, ok := g.special(t); ok {
		return n
	}
	switch t.Kind() {
	case reflect.Bool:
		return typed("boolean")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := typed("integer")
		if bits := t.Bits(); bits < 64 && t.Kind() != reflect.Int && !g.Brief {
			limit := int64(1) << (bits - 1)
			n = append(n, Keyword{"minimum", decimal(-limit)}, Keyword{"maximum", decimal(limit - 1)})
		}
		return n
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n := typed("integer", Keyword{"minimum", decimal(0)})
		if bits := t.Bits(); bits < 64 && t.Kind() != reflect.Uint && t.Kind() != reflect.Uintptr && !g.Brief {
			n = append(n, Keyword{"maximum", decimal(int64(1)<<bits - 1)})
		}
		return n
	case reflect.Float32, reflect.Float64:
		return typed("number")
	case reflect.String:
		return typed("string")
	case reflect.Interface:
		return form{}
	case reflect.Pointer:
		return g.value(t)
	case reflect.Slice, reflect.Array:
		return g.list(t)
	case reflect.Map:
		return g.dictionary(t)
	case reflect.Struct:
		return g.object(members(t))
	}
	return g.none(fmt.Sprintf("a %v has no JSON form", t))
}

func (g *Generator) list(t reflect.Type) form {
	length := func(n form, least, most string, count int) form {
		return append(n, Keyword{least, decimal(int64(count))}, Keyword{most, decimal(int64(count))})
	}
	array := t.Kind() == reflect.Array
	if isBytes(t) {
		n := typed("string")
		if array && !g.Brief {
			n = length(n, "minLength", "maxLength", (t.Len()+2)/3*4)
		}
		return append(n, Keyword{"contentEncoding", quote("base64")})
	}
	n := typed("array", Keyword{"items", g.text(g.value(t.Elem()))})
	if array {
		n = length(n, "minItems", "maxItems", t.Len())
	}
	return n
}

// dictionary returns the schema of a map. Numeric keys are written as strings.
func (g *Generator) dictionary(t reflect.Type) form {
	n := typed("object", Keyword{"additionalProperties", g.text(g.value(t.Elem()))})
	pattern := ""
	switch k := t.Key(); {
	case g.Brief, implements(k, ownForm), implements(k, intoText), implements(k, fromText):
	case k.Kind() >= reflect.Int && k.Kind() <= reflect.Int64:
		pattern = `^(0|-?[1-9][0-9]*)$`
	case k.Kind() >= reflect.Uint && k.Kind() <= reflect.Uintptr:
		pattern = `^(0|[1-9][0-9]*)$`
	}
	if pattern != "" {
		n = append(n, Keyword{"propertyNames", g.text(form{{"pattern", quote(pattern)}})})
	}
	return n
}

// object returns the schema of an object with these members, and others of type rest.
func (g *Generator) object(list []member, rest reflect.Type) form {
	properties, required := []byte{'{'}, []byte{'['}
	for _, m := range list {
		if len(properties) > 1 {
			properties = append(properties, ',')
		}
		n, optional := g.described(m)
		properties = append(append(jsonrpc.AppendString(properties, m.name), ':'), g.text(n)...)
		if m.required && !optional {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required = jsonrpc.AppendString(required, m.name)
		}
	}
	n := typed("object")
	if len(list) > 0 || !g.Brief {
		n = append(n, Keyword{"properties", append(properties, '}')})
	}
	if len(required) > 1 {
		n = append(n, Keyword{"required", append(required, ']')})
	}
	others := jsonrpc.Raw("false")
	if rest != nil {
		others = g.text(g.value(rest))
	}
	return append(n, Keyword{"additionalProperties", others})
}

// field returns the schema of a field. With the tag option "string", a number is written as digits
// in a string.
func (g *Generator) field(f reflect.StructField) form {
	if !jsontag.Of(f).Has("string") {
		return g.value(f.Type)
	}
	n := typed("string")
	if !g.Brief {
		pattern := `^-?(0|[1-9][0-9]*)$`
		if k := elem(f.Type).Kind(); k == reflect.Float32 || k == reflect.Float64 {
			pattern = `^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`
		}
		n = append(n, Keyword{"pattern", quote(pattern)})
	}
	if f.Type.Kind() == reflect.Pointer && !g.NoNull {
		return g.nullable(n)
	}
	return n
}

// described returns the schema of a member with what its tags add.
func (g *Generator) described(m member) (n form, optional bool) {
	n = g.field(m.field)
	if doc := m.field.Tag.Get("jsonschema"); doc != "" {
		description := Keyword{"description", quote(doc)}
		switch {
		case g.Prefix == "":
			n = append(n, description)
		case n.get("$ref") != nil: // draft-07 ignores what is beside a $ref
			n = form{description, {"allOf", jsonrpc.Raw("[" + string(g.text(n)) + "]")}}
		default:
			n = n.describe(description)
		}
	}
	if g.Keywords == nil {
		return n, false
	}
	more, optional := g.Keywords(m.field)
	for _, k := range more {
		if k.Name == "enum" {
			if items := n.get("items"); items != nil {
				n.set("items", g.text(append(parseForm(items), k)))
				continue
			}
			if types := n.get("type"); len(types) > 0 && types[0] == '[' { // a pointer
				k.Value = append(k.Value[:len(k.Value)-1:len(k.Value)-1], `,null]`...)
			}
		}
		n = append(n, k)
	}
	return n, optional
}

// none returns a schema that allows nothing, for a type without a JSON form.
func (g *Generator) none(reason string) form {
	if g.err == nil {
		g.err = fmt.Errorf("schema: %s", reason)
	}
	return form{{"not", jsonrpc.Raw("true")}}
}

// implements reports whether t or *t implements any interface of list: the codec always finds an
// address.
func implements(t reflect.Type, list []reflect.Type) bool {
	for _, i := range list {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

var (
	packagePath = regexp.MustCompile(`[^\[\],* ]*[./]`) // in the type arguments of a generic type
	notInName   = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
)

// nameFor returns a free name for the definition of t. A component has the name of the type, else
// with its package, else numbered.
func (g *Generator) nameFor(t reflect.Type) string {
	if g.Prefix == "" {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return r
			}
			return '_'
		}, t.Name()) + strings.Repeat("_", len(g.names))
	}
	name := packagePath.ReplaceAllString(t.Name(), "")
	name = strings.Trim(notInName.ReplaceAllString(name, "_"), "_")
	if name == "" {
		name = "Type"
	}
	if _, taken := g.defs[name]; !taken {
		return name
	}
	name = notInName.ReplaceAllString(path.Base(t.PkgPath()), "_") + "_" + name
	for free, n := name, 2; ; n++ {
		if _, taken := g.defs[free]; !taken {
			return free
		}
		free = name + "_" + strconv.Itoa(n)
	}
}
