package openrpc

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds of one signature, because documents come from peers.
const (
	maxName    = 64 // runes of a name
	maxMembers = 8  // members of an object, an enumeration or a choice
	maxNesting = 4  // types inside types
	maxParams  = 64
)

// Signature returns the method in one line, for display:
//
//	subtract(minuend: integer, subtrahend: integer) -> integer
//	find(name: string, limit?: integer) -> User[]
//	sum(...values: number) -> number
//	log(text: string)                        only for notifications
//
// A question mark means optional, three dots mean any number of values. References are shown by
// their last part; parameters that are references are resolved only by [Document.Signature]. Names
// with characters other than letters, digits and common punctuation are quoted, and long names are
// truncated, so that the text is safe on a terminal.
func (m *Method) Signature() string { return new(Document).Signature(m) }

// Signature is like [Method.Signature], with parameters and results that are references resolved in
// d.
func (d *Document) Signature(m *Method) string {
	if m.Ref != "" {
		m = d.resolveMethod(m)
	}
	var b strings.Builder
	b.WriteString(safe(m.Name))
	b.WriteByte('(')
	for i, p := range m.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxParams {
			b.WriteString("…")
			break
		}
		p = d.descriptor(p)
		many := string(p.Extra[Variadic]) == "true"
		if many {
			b.WriteString("...")
		}
		b.WriteString(safe(p.Name))
		if !p.Required && !many {
			b.WriteByte('?')
		}
		b.WriteString(": ")
		b.WriteString(typeOf(p.Schema, 0))
	}
	b.WriteByte(')')
	if r, ok := d.Result(m); ok {
		b.WriteString(" -> ")
		b.WriteString(typeOf(r.Schema, 0))
	}
	return b.String()
}

func (d *Document) resolveMethod(m *Method) *Method {
	text, err := d.Resolve(m.Ref)
	resolved := new(Method)
	if err != nil || decode(text, resolved) != nil {
		return &Method{Name: lastOf(m.Ref)}
	}
	return resolved
}

// A shape holds the parts of a schema that a signature shows.
type shape struct {
	Ref                  string                    `json:"$ref"`
	Type                 jsontext.Value            `json:"type"`
	Enum                 []jsontext.Value          `json:"enum"`
	Const                jsontext.Value            `json:"const"`
	Items                jsontext.Value            `json:"items"`
	Properties           map[string]jsontext.Value `json:"properties"`
	AdditionalProperties jsontext.Value            `json:"additionalProperties"`
	// Required is a bool in documents that follow draft-03.
	Required jsontext.Value   `json:"required"`
	AllOf    []jsontext.Value `json:"allOf"`
	AnyOf    []jsontext.Value `json:"anyOf"`
	OneOf    []jsontext.Value `json:"oneOf"`
	Title    string           `json:"title"`
}

// typeOf returns a schema as a type. An unsupported schema is "any".
func typeOf(schema jsonrpc.Raw, depth int) string {
	if string(schema) == "false" {
		return "never"
	}
	var s shape
	if depth > maxNesting || jsontext.Value(schema).Kind() != '{' || decode(schema, &s) != nil {
		return "any"
	}
	switch {
	case s.Ref != "":
		return safe(lastOf(s.Ref))
	case len(s.Const) > 0:
		return literal(s.Const)
	case len(s.Enum) > 0:
		return choice(s.Enum, literal)
	case len(s.AnyOf) > 0:
		return choice(s.AnyOf, func(v jsontext.Value) string { return typeOf(jsonrpc.Raw(v), depth+1) })
	case len(s.OneOf) > 0:
		return choice(s.OneOf, func(v jsontext.Value) string { return typeOf(jsonrpc.Raw(v), depth+1) })
	case len(s.AllOf) == 1 && len(s.Type) == 0:
		return typeOf(jsonrpc.Raw(s.AllOf[0]), depth+1)
	}
	var names []string
	if s.Type.Kind() == '[' {
		_ = decode(s.Type, &names) // remains empty: any
	} else {
		var one string
		if decode(s.Type, &one) == nil && one != "" {
			names = []string{one}
		}
	}
	for i, name := range names {
		switch name {
		case "object":
			names[i] = s.object(depth)
		case "array":
			names[i] = s.array(depth)
		default:
			names[i] = safe(name)
		}
	}
	switch {
	case len(names) > maxMembers:
		return "any"
	case len(names) > 0:
		return strings.Join(names, " | ")
	case len(s.Properties) > 0:
		return s.object(depth)
	case len(s.Items) > 0:
		return s.array(depth)
	}
	return "any"
}

func (s *shape) array(depth int) string {
	if s.Items.Kind() != '{' {
		return "any[]"
	}
	item := typeOf(jsonrpc.Raw(s.Items), depth+1)
	if strings.Contains(item, " | ") {
		return "(" + item + ")[]"
	}
	return item + "[]"
}

// object returns the members of an anonymous object, or the values of a dictionary.
func (s *shape) object(depth int) string {
	if len(s.Properties) == 0 {
		if s.AdditionalProperties.Kind() == '{' {
			return "{[name]: " + typeOf(jsonrpc.Raw(s.AdditionalProperties), depth+1) + "}"
		}
		return "object"
	}
	if s.Title != "" {
		return safe(s.Title)
	}
	if depth >= 2 || len(s.Properties) > maxMembers {
		return "object"
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	var required []string
	_ = decode(s.Required, &required) // remains empty: all optional
	parts := make([]string, 0, len(names))
	for _, name := range names {
		mark := "?: "
		if slices.Contains(required, name) {
			mark = ": "
		}
		parts = append(parts, safe(name)+mark+typeOf(jsonrpc.Raw(s.Properties[name]), depth+1))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// choice joins the forms of the schemas or values of list, each once.
func choice(list []jsontext.Value, show func(jsontext.Value) string) string {
	var parts []string
	for _, v := range list {
		if len(parts) == maxMembers {
			parts = append(parts, "…")
			break
		}
		if text := show(v); !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " | ")
}

// literal returns a short JSON value unchanged.
func literal(v jsontext.Value) string {
	switch v.Kind() {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		var text string
		if decode(v, &text) != nil {
			return "string"
		}
		return strconv.QuoteToGraphic(cut(text))
	}
	return cut(string(v))
}

// safe quotes unusual names, so that a peer's text cannot move the cursor or look like our
// punctuation.
func safe(name string) string {
	name = cut(name)
	plain := name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./$@:…", r)
	})
	if plain && utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// cut shortens a text to maxName runes.
func cut(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxName {
			return text[:i] + "…"
		}
	}
	return text
}
