// Package schemaview reads JSON Schemas for what the page shows: examples, and the completion of
// members and values. Package jsonrpc/schema validates.
package schemaview

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// MaxDepth limits how deep a schema is followed, including references.
const MaxDepth = 32

// Limits on how much of a schema is read. Each repeated read counts, because references multiply.
// What exceeds them is ignored.
const (
	bytesPerUnit = 64
	maxUnits     = 1 << 19 // 32 MiB, for completion
	minUnits     = 1 << 10 // for an example, which may take 16 times the schema
)

// A View is one schema, with the document that its references refer to.
type View struct {
	root jsonrpc.Raw
	Text jsonrpc.Raw
	left *int // units left to read, shared by all schemas made from one New
}

// New returns the schema of a whole document, with a new allowance to read.
func New(root jsonrpc.Raw) View {
	left := maxUnits
	return View{root, root, &left}
}

// Sub returns a schema in the same document.
func (s View) Sub(part jsonrpc.Raw) View { return View{s.root, part, s.left} }

// charge reports whether that many bytes may be read.
func (s View) charge(bytes int) bool {
	*s.left -= 1 + bytes/bytesPerUnit
	return *s.left >= 0
}

// Keywords are the supported Keywords of a schema.
type Keywords struct {
	Ref         string                 `json:"$ref"`
	Type        jsonrpc.Raw            `json:"type"`
	Enum        []jsonrpc.Raw          `json:"enum"`
	Const       jsonrpc.Raw            `json:"const"`
	Default     jsonrpc.Raw            `json:"default"`
	Properties  map[string]jsonrpc.Raw `json:"properties"`
	Required    []string               `json:"required"`
	Additional  jsonrpc.Raw            `json:"additionalProperties"`
	Items       jsonrpc.Raw            `json:"items"`
	Minimum     jsonrpc.Raw            `json:"minimum"`
	OneOf       []jsonrpc.Raw          `json:"oneOf"`
	AnyOf       []jsonrpc.Raw          `json:"anyOf"`
	AllOf       []jsonrpc.Raw          `json:"allOf"`
	Order       []string               `json:"x-order"`
	Variadic    bool                   `json:"x-variadic"`
	Title       jsonrpc.Raw            `json:"title"`
	Description jsonrpc.Raw            `json:"description"`
	Examples    jsonrpc.Raw            `json:"examples"`
}

// Keys decodes the schema and follows its reference.
func (s View) Keys(depth int) (Keywords, View, bool) {
	var k Keywords
	if depth > MaxDepth || len(s.Text) == 0 || s.Text[0] != '{' || !s.charge(len(s.Text)) || json.Unmarshal(s.Text, &k) != nil {
		return k, s, false
	}
	if k.Ref == "" {
		return k, s, true
	}
	pointer, local := strings.CutPrefix(k.Ref, "#")
	if !local {
		return k, s, false
	}
	target := s.root
	for part := range jsontext.Pointer(pointer).Tokens() {
		if part == "" {
			continue
		}
		if !s.charge(len(target)) {
			return k, s, false
		}
		if target = LastMember(target, part); target == nil {
			return k, s, false
		}
	}
	return s.Sub(target).Keys(depth + 1)
}

// LastMember returns a member of an object, the last one if it is duplicated, or nil.
func LastMember(object jsonrpc.Raw, name string) (found jsonrpc.Raw) {
	for n, value := range object.Members() {
		if string(n) == name {
			found = value
		}
	}
	return found
}

// KindOf returns the JSON type of a value.
func KindOf(value jsonrpc.Raw) string {
	if len(value) == 0 {
		return ""
	}
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if r, ok := Number(value); ok && r.IsInt() {
		return "integer"
	}
	return "number"
}

// Number parses a number exactly. A number with a huge exponent is not parsed.
func Number(value jsonrpc.Raw) (*big.Rat, bool) {
	if i := bytes.IndexAny(value, "eE"); i >= 0 {
		if n, err := strconv.Atoi(string(value[i+1:])); err != nil || n > 400 || n < -400 {
			return nil, false
		}
	}
	if len(value) > 1000 {
		return nil, false
	}
	return new(big.Rat).SetString(string(value))
}

// TypesOf decodes the keyword type: one name or several.
func TypesOf(text jsonrpc.Raw) []string {
	var one string
	if len(text) == 0 {
		return nil
	}
	if text.Decode(&one) == nil {
		return []string{one}
	}
	var many []string
	_ = text.Decode(&many) // other values are ignored
	return many
}

// Article returns a JSON type with its Article.
func Article(kind string) string {
	switch {
	case kind == "null":
		return kind
	case strings.HasPrefix(kind, "a"), strings.HasPrefix(kind, "o"), strings.HasPrefix(kind, "i"):
		return "an " + kind
	}
	return "a " + kind
}

// SameValue compares two JSON values. White space, escapes and the spelling of numbers do not
// matter.
func SameValue(a, b jsonrpc.Raw) bool {
	if x, ok := Number(a); ok && len(a) > 0 {
		y, ok := Number(b)
		return ok && len(b) > 0 && x.Cmp(y) == 0
	}
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}

// Example returns an example value: the required members, with defaults if there are any.
func Example(text jsonrpc.Raw) jsonrpc.Raw {
	if len(text) == 0 {
		return jsonrpc.Raw(`{}`)
	}
	left := minUnits + 16*len(text)/bytesPerUnit
	return View{text, text, &left}.Example(0)
}

// Example returns an example value of a schema that is depth levels deep.
func (s View) Example(depth int) jsonrpc.Raw {
	k, s, ok := s.Keys(depth)
	switch {
	case !ok:
		return jsonrpc.Raw("null")
	case len(k.Default) > 0:
		return k.Default
	case len(k.Const) > 0:
		return k.Const
	case len(k.Enum) > 0:
		return k.Enum[0]
	case len(k.OneOf) > 0:
		return s.Sub(k.OneOf[0]).Example(depth + 1)
	case len(k.AnyOf) > 0:
		return s.Sub(k.AnyOf[0]).Example(depth + 1)
	}
	types := TypesOf(k.Type)
	if len(types) == 0 {
		if k.Properties == nil {
			return jsonrpc.Raw("null")
		}
		types = []string{"object"}
	}
	switch types[0] {
	case "object":
		required := make(map[string]bool)
		for _, name := range k.Required {
			required[name] = true
		}
		dst := []byte{'{'}
		for member, part := range Properties(s.Text).Members() {
			name := string(member)
			sub, _, _ := s.Sub(part).Keys(depth + 1)
			if !required[name] && len(sub.Default) == 0 {
				continue
			}
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendString(dst, name), ':')
			if one := s.Sub(part).Example(depth + 1); s.charge(len(one)) {
				dst = append(dst, one...)
			} else {
				dst = append(dst, "null"...)
			}
		}
		return append(dst, '}')
	case "array":
		return jsonrpc.Raw(`[]`)
	case "string":
		return jsonrpc.Raw(`""`)
	case "boolean":
		return jsonrpc.Raw(`false`)
	case "integer", "number":
		if len(k.Minimum) > 0 {
			return k.Minimum
		}
		return jsonrpc.Raw(`0`)
	}
	return jsonrpc.Raw("null")
}

// Properties returns the member properties of a schema, in its original order.
func Properties(text jsonrpc.Raw) jsonrpc.Raw { return LastMember(text, "properties") }
