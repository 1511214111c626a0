package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// kinds is a set of types.
type kinds uint8

const (
	typeNull kinds = 1 << iota
	typeBoolean
	typeObject
	typeArray
	typeNumber
	typeInteger
	typeString
)

var kindNames = map[string]kinds{"null": typeNull, "boolean": typeBoolean, "object": typeObject, "array": typeArray, "number": typeNumber,
	"integer": typeInteger, "string": typeString}

// words returns the names of the types for a message.
func (k kinds) words() string {
	var names []string
	for i, name := range [...]string{"null", "a boolean", "an object", "an array", "a number", "an integer", "a string"} {
		if k&(1<<i) != 0 && !(1<<i == typeInteger && k&typeNumber != 0) {
			names = append(names, name)
		}
	}
	return orList(names)
}

// name returns the name of a value's most specific type.
func (k kinds) name() string {
	if k&typeInteger != 0 {
		return "integer"
	}
	for name, kind := range kindNames {
		if k == kind {
			return name
		}
	}
	return ""
}

func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// kindOf returns the types of a value. An integer has two.
func kindOf(value any) kinds {
	switch v := value.(type) {
	case nil:
		return typeNull
	case bool:
		return typeBoolean
	case map[string]any:
		return typeObject
	case []any:
		return typeArray
	case string:
		return typeString
	case number:
		if v.isWhole() {
			return typeNumber | typeInteger
		}
		return typeNumber
	}
	return 0
}

// A number is a 64-bit integer, or else a float. A number beyond the range of floats is infinite,
// which no bound accepts.
type number struct {
	isInt bool
	i     int64
	f     float64
}

func numberOf(text json.Number) number {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return number{isInt: true, i: n}
	}
	f, _ := strconv.ParseFloat(string(text), 64) // the error concerns the range
	if f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
		return number{isInt: true, i: int64(f)}
	}
	return number{f: f}
}

func (n number) isWhole() bool {
	return n.isInt || n.f == math.Trunc(n.f) && !math.IsInf(n.f, 0)
}

func (n number) float() float64 {
	if n.isInt {
		return float64(n.i)
	}
	return n.f
}

// compare compares two numbers exactly.
func (n number) compare(m number) int {
	switch {
	case n.isInt && m.isInt:
		return cmpOrdered(n.i, m.i)
	case n.isInt:
		return -m.compareInt(n.i)
	case m.isInt:
		return n.compareInt(m.i)
	}
	return cmpOrdered(n.f, m.f)
}

// compareInt compares a float with an integer.
func (n number) compareInt(i int64) int {
	switch {
	case n.f >= 1<<63:
		return 1
	case n.f < -1<<63:
		return -1
	}
	floor := math.Floor(n.f)
	if c := cmpOrdered(int64(floor), i); c != 0 {
		return c
	}
	return cmpOrdered(n.f, floor)
}

func cmpOrdered[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// isMultipleOf allows for the rounding error of floats.
func (n number) isMultipleOf(m number) bool {
	if n.isInt && m.isInt {
		return n.i%m.i == 0
	}
	quotient := n.float() / m.float()
	if math.IsInf(quotient, 0) || math.IsNaN(quotient) {
		return math.Mod(n.float(), m.float()) == 0
	}
	return math.Abs(quotient-math.Round(quotient)) <= 1e-12*math.Abs(quotient)
}

func (n number) String() string {
	if n.isInt {
		return strconv.FormatInt(n.i, 10)
	}
	return strconv.FormatFloat(n.f, 'g', -1, 64)
}

// MarshalJSON returns the number as JSON.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(n.f, 0) {
		return []byte(`"` + n.String() + `"`), nil
	}
	return []byte(n.String()), nil
}

// decode decodes a value to objects, arrays, strings, booleans, nil and numbers of this package.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return numbers(value), nil
}

func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = numbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = numbers(inner)
		}
	case json.Number:
		return numberOf(v)
	}
	return value
}

// appendKey appends a text that is the same for equal values and differs for others. It charges the
// meter by size.
func appendKey(dst []byte, value any, m *meter) []byte {
	m.charge(1)
	switch v := value.(type) {
	case nil:
		return append(dst, 'n')
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		m.charge(len(v) / bytesPerStep)
		return strconv.AppendQuote(dst, v)
	case number:
		return append(append(dst, '#'), v.String()...)
	case []any:
		dst = append(dst, '[')
		for _, inner := range v {
			if m.spent() {
				return dst
			}
			dst = append(appendKey(dst, inner, m), ',')
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for _, name := range sortedKeys(v) {
			if m.spent() {
				return dst
			}
			dst = append(appendKey(append(strconv.AppendQuote(dst, name), ':'), v[name], m), ',')
		}
		return append(dst, '}')
	}
	return dst
}

func choiceOf(value any) choice {
	value = numbers(value)
	return choice{key: string(appendKey(nil, value, &meter{left: math.MaxInt})), text: show(value)}
}

// show formats a value of a schema for a message.
func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "a value"
	}
	return harmless.Shorten(string(text), 80)
}

// mention describes a value for a message. It shows the content only of scalars.
func mention(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return show(harmless.Shorten(v, 80))
	}
	return show(value)
}
