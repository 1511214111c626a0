package playground

import (
	"bytes"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file reads the part of JSON Schema that forms and lint need: it says where a value does not fit. What it does not know, it
// lets pass: the server has the last word.

// maxSchemaDepth bounds how deep a schema is followed, references included.
const maxSchemaDepth = 32

// A schema is one schema, in the document that its references lead into.
type schema struct {
	root jsonrpc.Raw
	text jsonrpc.Raw
}

// keywords are what is understood of a schema.
type keywords struct {
	Ref              string                 `json:"$ref"`
	Type             jsonrpc.Raw            `json:"type"`
	Enum             []jsonrpc.Raw          `json:"enum"`
	Const            jsonrpc.Raw            `json:"const"`
	Default          jsonrpc.Raw            `json:"default"`
	Properties       map[string]jsonrpc.Raw `json:"properties"`
	Required         []string               `json:"required"`
	Additional       jsonrpc.Raw            `json:"additionalProperties"`
	Items            jsonrpc.Raw            `json:"items"`
	MinItems         *int                   `json:"minItems"`
	MaxItems         *int                   `json:"maxItems"`
	MinLength        *int                   `json:"minLength"`
	MaxLength        *int                   `json:"maxLength"`
	Pattern          string                 `json:"pattern"`
	Minimum          jsonrpc.Raw            `json:"minimum"`
	Maximum          jsonrpc.Raw            `json:"maximum"`
	ExclusiveMinimum jsonrpc.Raw            `json:"exclusiveMinimum"`
	ExclusiveMaximum jsonrpc.Raw            `json:"exclusiveMaximum"`
	OneOf            []jsonrpc.Raw          `json:"oneOf"`
	AnyOf            []jsonrpc.Raw          `json:"anyOf"`
	AllOf            []jsonrpc.Raw          `json:"allOf"`
	Order            []string               `json:"x-order"`
	Variadic         bool                   `json:"x-variadic"`
	Title            jsonrpc.Raw            `json:"title"`
	Description      jsonrpc.Raw            `json:"description"`
	Examples         jsonrpc.Raw            `json:"examples"`
}

// A misfit is where a value does not fit its schema, and how.
type misfit struct {
	pointer string
	text    string
}

// keys reads the schema, and follows its reference.
func (s schema) keys(depth int) (keywords, schema, bool) {
	var k keywords
	if depth > maxSchemaDepth || len(s.text) == 0 || s.text[0] != '{' || decodeLoosely(s.text, &k) != nil {
		return k, s, false
	}
	if k.Ref == "" {
		return k, s, true
	}
	pointer, local := strings.CutPrefix(k.Ref, "#")
	if !local {
		return k, s, false
	}
	target := jsontext.Value(s.root)
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var next jsontext.Value
		members(jsonrpc.Raw(target), func(name string, value jsonrpc.Raw) {
			if name == part {
				next = jsontext.Value(value)
			}
		})
		if next == nil {
			return k, s, false
		}
		target = next
	}
	return schema{s.root, jsonrpc.Raw(target)}.keys(depth + 1)
}

// members calls f for each member of an object, in order.
func members(object jsonrpc.Raw, f func(name string, value jsonrpc.Raw)) {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '{' {
		return
	}
	_, _ = d.ReadToken() // it was peeked at
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		f(key, jsonrpc.Raw(bytes.Clone(value)))
	}
}

// elements returns the elements of an array.
func elements(array jsonrpc.Raw) []jsonrpc.Raw {
	d := jsontext.NewDecoder(bytes.NewReader(array), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return nil
	}
	_, _ = d.ReadToken() // it was peeked at
	var list []jsonrpc.Raw
	for d.PeekKind() != ']' && d.PeekKind() != 0 {
		value, err := d.ReadValue()
		if err != nil {
			return list
		}
		list = append(list, jsonrpc.Raw(bytes.Clone(value)))
	}
	return list
}

// kindOf names the JSON type of a value.
func kindOf(value jsonrpc.Raw) string {
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
	if r, ok := number(value); ok && r.IsInt() {
		return "integer"
	}
	return "number"
}

// number reads a number exactly. One with a huge exponent is not read.
func number(value jsonrpc.Raw) (*big.Rat, bool) {
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

// check adds to list where value does not fit.
func (s schema) check(value jsonrpc.Raw, at string, depth int, list *[]misfit) {
	k, s, ok := s.keys(depth)
	if !ok || len(*list) >= 20 {
		return
	}
	say := func(format string, args ...any) { *list = append(*list, misfit{at, fmt.Sprintf(format, args...)}) }
	kind := kindOf(value)
	if types := typesOf(k.Type); len(types) > 0 && !fitsType(kind, types) {
		say("is %s; %s is wanted", article(kind), article(strings.Join(types, " or ")))
		return
	}
	if len(k.Enum) > 0 && !containsValue(k.Enum, value) {
		say("is not one of %s", joinValues(k.Enum))
	}
	if len(k.Const) > 0 && !sameValue(k.Const, value) {
		say("is not %s", k.Const)
	}
	switch kind {
	case "string":
		k.checkString(value, say)
	case "integer", "number":
		k.checkNumber(value, say)
	case "object":
		s.checkObject(&k, value, at, depth, list)
	case "array":
		items := elements(value)
		if k.MinItems != nil && len(items) < *k.MinItems {
			say("has %d items; at least %d are wanted", len(items), *k.MinItems)
		}
		if k.MaxItems != nil && len(items) > *k.MaxItems {
			say("has %d items; at most %d are wanted", len(items), *k.MaxItems)
		}
		for i, item := range items {
			schema{s.root, k.Items}.check(item, at+"/"+strconv.Itoa(i), depth+1, list)
		}
	}
	for _, part := range k.AllOf {
		schema{s.root, part}.check(value, at, depth+1, list)
	}
	if alternatives := append(k.OneOf[:len(k.OneOf):len(k.OneOf)], k.AnyOf...); len(alternatives) > 0 && !s.fitsAny(alternatives, value, depth) {
		say("fits none of its alternatives")
	}
}

func (s schema) fitsAny(alternatives []jsonrpc.Raw, value jsonrpc.Raw, depth int) bool {
	for _, a := range alternatives {
		var own []misfit
		if (schema{s.root, a}).check(value, "", depth+1, &own); len(own) == 0 {
			return true
		}
	}
	return false
}

func (s schema) checkObject(k *keywords, value jsonrpc.Raw, at string, depth int, list *[]misfit) {
	has := make(map[string]bool)
	members(value, func(name string, member jsonrpc.Raw) {
		has[name] = true
		here := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if part, ok := k.Properties[name]; ok {
			schema{s.root, part}.check(member, here, depth+1, list)
		} else if string(k.Additional) == "false" {
			*list = append(*list, misfit{here, "is not known"})
		} else {
			schema{s.root, k.Additional}.check(member, here, depth+1, list)
		}
	})
	for _, name := range k.Required {
		if !has[name] {
			*list = append(*list, misfit{at, "lacks " + strconv.Quote(name)})
		}
	}
}

func (k *keywords) checkString(value jsonrpc.Raw, say func(string, ...any)) {
	var text string
	if value.Decode(&text) != nil {
		return
	}
	n := utf8.RuneCountInString(text)
	if k.MinLength != nil && n < *k.MinLength {
		say("has %d characters; at least %d are wanted", n, *k.MinLength)
	}
	if k.MaxLength != nil && n > *k.MaxLength {
		say("has %d characters; at most %d are wanted", n, *k.MaxLength)
	}
	if k.Pattern != "" && len(k.Pattern) < 1000 {
		if p, err := regexp.Compile(k.Pattern); err == nil && !p.MatchString(text) {
			say("does not fit the pattern %s", k.Pattern)
		}
	}
}

func (k *keywords) checkNumber(value jsonrpc.Raw, say func(string, ...any)) {
	n, ok := number(value)
	if !ok {
		return
	}
	for _, bound := range []struct {
		text jsonrpc.Raw
		bad  func(cmp int) bool
		say  string
	}{
		{k.Minimum, func(c int) bool { return c < 0 }, "is less than %s"},
		{k.Maximum, func(c int) bool { return c > 0 }, "is more than %s"},
		{k.ExclusiveMinimum, func(c int) bool { return c <= 0 }, "is not more than %s"},
		{k.ExclusiveMaximum, func(c int) bool { return c >= 0 }, "is not less than %s"},
	} {
		if b, ok := number(bound.text); ok && len(bound.text) > 0 && bound.bad(n.Cmp(b)) {
			say(bound.say, bound.text)
		}
	}
}

// typesOf reads the keyword type: one name or several.
func typesOf(text jsonrpc.Raw) []string {
	var one string
	if len(text) == 0 {
		return nil
	}
	if text.Decode(&one) == nil {
		return []string{one}
	}
	var many []string
	_ = text.Decode(&many) // what is neither says nothing
	return many
}

func fitsType(kind string, types []string) bool {
	for _, t := range types {
		if t == kind || t == "number" && kind == "integer" {
			return true
		}
	}
	return false
}

// article is a JSON type as people say it.
func article(kind string) string {
	switch {
	case kind == "null":
		return kind
	case strings.HasPrefix(kind, "a"), strings.HasPrefix(kind, "o"), strings.HasPrefix(kind, "i"):
		return "an " + kind
	}
	return "a " + kind
}

func containsValue(list []jsonrpc.Raw, value jsonrpc.Raw) bool {
	for _, v := range list {
		if sameValue(v, value) {
			return true
		}
	}
	return false
}

// sameValue compares two values as JSON does: white space, escapes and the spelling of numbers do not matter.
func sameValue(a, b jsonrpc.Raw) bool {
	if x, ok := number(a); ok && len(a) > 0 {
		y, ok := number(b)
		return ok && len(b) > 0 && x.Cmp(y) == 0
	}
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}

func joinValues(list []jsonrpc.Raw) string {
	var b strings.Builder
	for i, v := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == 8 {
			b.WriteString("…")
			break
		}
		b.Write(v)
	}
	return b.String()
}

// exampleOf is a value to begin with: what is required, with defaults where there are some.
func exampleOf(text jsonrpc.Raw) jsonrpc.Raw {
	if len(text) == 0 {
		return jsonrpc.Raw(`{}`)
	}
	return schema{text, text}.example(0)
}

func (s schema) example(depth int) jsonrpc.Raw {
	k, s, ok := s.keys(depth)
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
		return schema{s.root, k.OneOf[0]}.example(depth + 1)
	case len(k.AnyOf) > 0:
		return schema{s.root, k.AnyOf[0]}.example(depth + 1)
	}
	types := typesOf(k.Type)
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
		members(propertiesOf(s.text), func(name string, part jsonrpc.Raw) {
			sub, _, _ := schema{s.root, part}.keys(depth + 1)
			if !required[name] && len(sub.Default) == 0 {
				return
			}
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, raw(name)...), ':')
			dst = append(dst, schema{s.root, part}.example(depth+1)...)
		})
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

// propertiesOf is the member properties of a schema, in the order in which it was written.
func propertiesOf(text jsonrpc.Raw) (found jsonrpc.Raw) {
	members(text, func(name string, value jsonrpc.Raw) {
		if name == "properties" {
			found = value
		}
	})
	return found
}
