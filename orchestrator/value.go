package orchestrator

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Values are JSON text from end to end, so that a number goes on as it came.

func boolValue(b bool) jsonrpc.Raw { return jsonrpc.Raw(strconv.FormatBool(b)) }

func textValue(s string) jsonrpc.Raw {
	b, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return jsonrpc.Raw(`""`) // valid UTF-8 has a quoted form
	}
	return b
}

// valueOf is the JSON text of a Go value that has one.
func valueOf(v any) (jsonrpc.Raw, error) {
	return json.Marshal(v, json.Deterministic(true))
}

func kind(v jsonrpc.Raw) byte {
	v = bytes.TrimLeft(v, " \t\r\n")
	if len(v) == 0 {
		return 'n' // absent is null
	}
	return v[0]
}

func stringOf(v jsonrpc.Raw) (string, bool) {
	if kind(v) != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(v))
	return string(b), err == nil
}

// textOf is a value as text: a string without its quotes, nothing for null, the text member of a step's result, JSON for others.
func textOf(v jsonrpc.Raw) string {
	switch kind(v) {
	case '"':
		s, _ := stringOf(v)
		return s
	case 'n':
		return ""
	case '{':
		if t := member(v, "text"); kind(t) == '"' && kind(member(v, "state")) == '"' {
			s, _ := stringOf(t)
			return s
		}
	}
	return string(v)
}

func truthy(v jsonrpc.Raw) bool {
	switch kind(v) {
	case 'n', 'f':
		return false
	case '"':
		s, _ := stringOf(v)
		return s != ""
	case '0', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		f, err := strconv.ParseFloat(string(bytes.TrimSpace(v)), 64)
		return err != nil || f != 0
	case '[', '{':
		return lengthOf(v) > 0
	}
	return true
}

func object(v jsonrpc.Raw) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	if kind(v) != '{' || json.Unmarshal(v, &m) != nil {
		return nil
	}
	return m
}

func list(v jsonrpc.Raw) []jsontext.Value {
	var l []jsontext.Value
	if kind(v) != '[' || json.Unmarshal(v, &l) != nil {
		return nil
	}
	return l
}

func member(v jsonrpc.Raw, name string) jsonrpc.Raw {
	if m, ok := object(v)[name]; ok {
		return jsonrpc.Raw(m)
	}
	return jsonrpc.Raw("null")
}

func element(v jsonrpc.Raw, i int) jsonrpc.Raw {
	l := list(v)
	if i < 0 {
		i += len(l)
	}
	if i < 0 || i >= len(l) {
		return jsonrpc.Raw("null")
	}
	return jsonrpc.Raw(l[i])
}

func lengthOf(v jsonrpc.Raw) int {
	switch kind(v) {
	case '[':
		return len(list(v))
	case '{':
		return len(object(v))
	case '"':
		s, _ := stringOf(v)
		return len([]rune(s))
	}
	return 0
}

func number(v jsonrpc.Raw) (float64, bool) {
	text := string(bytes.TrimSpace(v))
	if s, ok := stringOf(v); ok {
		text = strings.TrimSpace(s) // agents say numbers as text
	} else if c := kind(v); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func compare(op string, a, b jsonrpc.Raw) (jsonrpc.Raw, error) {
	switch op {
	case "==", "!=":
		return boolValue(same(a, b) == (op == "==")), nil
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
	case kind(a) == '"' && kind(b) == '"':
		order = strings.Compare(textOf(a), textOf(b))
	default:
		return nil, fmt.Errorf("%s and %s have no order", clip(string(a)), clip(string(b)))
	}
	switch op {
	case "<":
		return boolValue(order < 0), nil
	case "<=":
		return boolValue(order <= 0), nil
	case ">":
		return boolValue(order > 0), nil
	}
	return boolValue(order >= 0), nil
}

// same compares numbers by value, the result of a step by its text, and everything else by its canonical JSON.
func same(a, b jsonrpc.Raw) bool {
	if kind(a) == '"' || kind(b) == '"' {
		return (kind(a) == 'n') == (kind(b) == 'n') && textOf(a) == textOf(b)
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
	args int
	do   func([]jsonrpc.Raw) (jsonrpc.Raw, error)
}

var functions = map[string]function{
	"text":   {1, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) { return textValue(textOf(a[0])), nil }},
	"lower":  {1, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) { return textValue(strings.ToLower(textOf(a[0]))), nil }},
	"trim":   {1, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) { return textValue(strings.TrimSpace(textOf(a[0]))), nil }},
	"length": {1, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) { return jsonrpc.Raw(strconv.Itoa(lengthOf(a[0]))), nil }},
	"first":  {1, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) { return element(a[0], 0), nil }},
	"last":   {1, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) { return element(a[0], -1), nil }},
	"lines":  {1, lines},
	"json":   {1, parseJSON},
	"join":   {2, join},
	"default": {2, func(a []jsonrpc.Raw) (jsonrpc.Raw, error) {
		if truthy(a[0]) {
			return a[0], nil
		}
		return a[1], nil
	}},
	"contains": {2, contains},
}

func functionNames() string {
	return strings.Join(slices.Sorted(maps.Keys(functions)), ", ")
}

// lines makes a list of the lines of a text that are not empty.
func lines(a []jsonrpc.Raw) (jsonrpc.Raw, error) {
	out := []string{}
	for line := range strings.Lines(textOf(a[0])) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return valueOf(out)
}

// parseJSON reads a text as JSON; agents like to put it between ``` lines.
func parseJSON(a []jsonrpc.Raw) (jsonrpc.Raw, error) {
	s := strings.TrimSpace(textOf(a[0]))
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		s, _, _ = strings.Cut(rest, "```")
	}
	raw, err := jsonrpc.ParseRaw([]byte(strings.TrimSpace(s)))
	if err != nil {
		return nil, fmt.Errorf("%q is no JSON", clip(s))
	}
	return raw, nil
}

func join(a []jsonrpc.Raw) (jsonrpc.Raw, error) {
	if kind(a[0]) != '[' {
		return nil, errors.New("join takes a list first")
	}
	var texts []string
	for _, v := range list(a[0]) {
		texts = append(texts, textOf(jsonrpc.Raw(v)))
	}
	return textValue(strings.Join(texts, textOf(a[1]))), nil
}

// contains tells whether a list has a value, an object a member, or a text another.
func contains(a []jsonrpc.Raw) (jsonrpc.Raw, error) {
	switch kind(a[0]) {
	case '[':
		return boolValue(slices.ContainsFunc(list(a[0]), func(v jsontext.Value) bool { return same(jsonrpc.Raw(v), a[1]) })), nil
	case '{':
		if kind(member(a[0], "state")) != '"' {
			_, ok := object(a[0])[textOf(a[1])]
			return boolValue(ok), nil
		}
	}
	return boolValue(strings.Contains(textOf(a[0]), textOf(a[1]))), nil
}
