package expr

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Values are JSON text throughout, so that numbers are passed on unchanged.

var (
	null     = jsonrpc.Raw("null")
	rawTrue  = jsonrpc.Raw("true")
	rawFalse = jsonrpc.Raw("false")
)

// Bool returns a bool as a value, which must not be changed.
func Bool(b bool) jsonrpc.Raw {
	if b {
		return rawTrue
	}
	return rawFalse
}

// Quote returns a text as a value. Invalid UTF-8 is replaced.
func Quote(s string) jsonrpc.Raw { return jsonrpc.AppendString(nil, s) }

// ValueOf returns the JSON text of a Go value that encodes as JSON.
func ValueOf(v any) (jsonrpc.Raw, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// Kind returns the first byte of a value, and 'n' if it is missing.
func Kind(v jsonrpc.Raw) byte {
	for _, c := range v {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 'n' // a missing value is null
}

// StringOf returns the text of a string.
func StringOf(v jsonrpc.Raw) (string, bool) {
	b, ok := textBytes(v)
	return string(b), ok
}

// textBytes returns the text of a string, without a copy if it has no escapes.
func textBytes(v jsonrpc.Raw) ([]byte, bool) {
	if Kind(v) != '"' {
		return nil, false
	}
	v = bytes.TrimSpace(v)
	if len(v) >= 2 && bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1], true
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return b, err == nil
}

// show returns a value for an error message.
func show(v jsonrpc.Raw) string {
	if v == nil {
		v = null
	}
	return Clip(string(v))
}

// TextOf returns a value as text: a string without quotes, "" for null, the text member of a step's
// result, and JSON for other values.
func TextOf(v jsonrpc.Raw) string {
	switch Kind(v) {
	case '"':
		s, _ := StringOf(v)
		return s
	case 'n':
		return ""
	case '{':
		if t := onlyMember(v, "text"); Kind(t) == '"' && Kind(onlyMember(v, "state")) == '"' {
			s, _ := StringOf(t)
			return s
		}
	}
	return string(v)
}

// Truthy reports whether a value counts as true: not null, false, 0, and not empty.
func Truthy(v jsonrpc.Raw) bool {
	switch Kind(v) {
	case 'n', 'f':
		return false
	case '"':
		s, _ := StringOf(v)
		return s != ""
	case '0', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(v)), 64)
		return err != nil || f != 0
	case '[', '{':
		return lengthOf(v) > 0
	}
	return true
}

// Object returns the members of an object, or nil for other values.
func Object(v jsonrpc.Raw) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	if Kind(v) != '{' || json.Unmarshal(v, &m) != nil {
		return nil
	}
	return m
}

// List returns the elements of a list, or nil for other values.
func List(v jsonrpc.Raw) []jsontext.Value {
	var l []jsontext.Value
	if Kind(v) != '[' || json.Unmarshal(v, &l) != nil {
		return nil
	}
	return l
}

// MemberOf returns a member of an object, or null.
func MemberOf(v jsonrpc.Raw, name string) jsonrpc.Raw {
	if m := onlyMember(v, name); m != nil {
		return m
	}
	return null
}

// onlyMember returns the member of that name if the object has exactly one, and otherwise nil: with
// duplicates it is unclear which one counts.
func onlyMember(v jsonrpc.Raw, name string) jsonrpc.Raw {
	var found jsonrpc.Raw
	for n, value := range v.Members() {
		if string(n) == name {
			if found != nil {
				return nil
			}
			found = value
		}
	}
	return found
}

// element returns an element of a list, or nil. Negative indexes count from the end.
func element(v jsonrpc.Raw, i int) jsonrpc.Raw {
	if i < 0 {
		for range v.Elements() {
			i++
		}
		if i < 0 {
			return nil
		}
	}
	for e := range v.Elements() {
		if i == 0 {
			return e
		}
		i--
	}
	return nil
}

func lengthOf(v jsonrpc.Raw) int {
	switch Kind(v) {
	case '[':
		return len(List(v))
	case '{':
		return len(Object(v))
	case '"':
		s, _ := StringOf(v)
		return len([]rune(s))
	}
	return 0
}

func number(v jsonrpc.Raw) (float64, bool) {
	text := string(bytes.TrimSpace(v))
	if s, ok := StringOf(v); ok {
		text = strings.TrimSpace(s) // agents often send numbers as text
	} else if c := Kind(v); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func compare(op string, a, b jsonrpc.Raw) (jsonrpc.Raw, error) {
	switch op {
	case "==", "!=":
		return Bool(same(a, b) == (op == "==")), nil
	}
	x, okX := number(a)
	y, okY := number(b)
	order := 0
	switch {
	case okX && okY && x < y:
		order = -1
	case okX && okY && x > y:
		order = 1
	case okX && okY:
	case Kind(a) == '"' && Kind(b) == '"':
		order = strings.Compare(TextOf(a), TextOf(b))
	default:
		return nil, fmt.Errorf("%s and %s cannot be compared", show(a), show(b))
	}
	return ordered(op, order), nil
}

// ordered returns the value of a comparison. order is negative if its left side is less, positive
// if it is greater.
func ordered(op string, order int) jsonrpc.Raw {
	switch op {
	case "<":
		return Bool(order < 0)
	case "<=":
		return Bool(order <= 0)
	case ">":
		return Bool(order > 0)
	}
	return Bool(order >= 0)
}

// same compares numbers by value, step results by text, and everything else by canonical JSON.
func same(a, b jsonrpc.Raw) bool {
	if Kind(a) == 'n' && Kind(b) == 'n' {
		return true
	}
	if Kind(a) == '"' || Kind(b) == '"' {
		return (Kind(a) == 'n') == (Kind(b) == 'n') && TextOf(a) == TextOf(b)
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok && x == y {
			return true
		}
	}
	return bytes.Equal(canonical(a), canonical(b))
}

func canonical(v jsonrpc.Raw) []byte {
	c := jsontext.Value(bytes.Clone(v))
	if c.Canonicalize() != nil {
		return v
	}
	return c
}

type function struct {
	args   int // 1 or 2
	strict bool
	do     func(a, b jsonrpc.Raw) (jsonrpc.Raw, error)
}

var functions = map[string]function{
	"text":     {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return Quote(TextOf(a)), nil }},
	"lower":    {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return Quote(strings.ToLower(TextOf(a))), nil }},
	"trim":     {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return Quote(strings.TrimSpace(TextOf(a))), nil }},
	"length":   {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return jsonrpc.Raw(strconv.Itoa(lengthOf(a))), nil }},
	"first":    {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return element(a, 0), nil }},
	"last":     {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return element(a, -1), nil }},
	"lines":    {args: 1, do: lines},
	"json":     {args: 1, do: func(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) { return ParseJSON(TextOf(a)) }},
	"join":     {args: 2, do: join},
	"default":  {args: 2, do: orDefault},
	"contains": {args: 2, do: contains},
	"has":      {args: 2, strict: true, do: has},
	"glob":     {args: 2, strict: true, do: matchGlob},
	"matches":  {args: 2, strict: true}, // see Expr.matches
}

func functionNames(strict bool) string {
	var names []string
	for name, f := range functions {
		if strict || !f.strict {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// lines returns the non-empty lines of a text as a list.
func lines(a, _ jsonrpc.Raw) (jsonrpc.Raw, error) {
	out := []string{}
	for line := range strings.Lines(TextOf(a)) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return ValueOf(out)
}

// ParseJSON parses a text as JSON, also if it is enclosed in ``` lines, which agents often add.
func ParseJSON(s string) (jsonrpc.Raw, error) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		s, _, _ = strings.Cut(rest, "```")
	}
	raw, err := jsonrpc.ParseRaw([]byte(strings.TrimSpace(s)))
	if err != nil {
		return nil, fmt.Errorf("%q is not JSON", Clip(s))
	}
	return raw, nil
}

func join(a, b jsonrpc.Raw) (jsonrpc.Raw, error) {
	if Kind(a) != '[' {
		return nil, errors.New("the first argument of join must be a list")
	}
	var texts []string
	for _, v := range List(a) {
		texts = append(texts, TextOf(jsonrpc.Raw(v)))
	}
	return Quote(strings.Join(texts, TextOf(b))), nil
}

func orDefault(a, b jsonrpc.Raw) (jsonrpc.Raw, error) {
	if Truthy(a) {
		return a, nil
	}
	return b, nil
}

// contains reports whether a list contains a value, an object has a member, or a text contains
// another.
func contains(a, b jsonrpc.Raw) (jsonrpc.Raw, error) {
	switch Kind(a) {
	case '[':
		return Bool(slices.ContainsFunc(List(a), func(v jsontext.Value) bool { return same(jsonrpc.Raw(v), b) })), nil
	case '{':
		if Kind(onlyMember(a, "state")) != '"' {
			_, ok := Object(a)[TextOf(b)]
			return Bool(ok), nil
		}
	}
	return Bool(strings.Contains(TextOf(a), TextOf(b))), nil
}
