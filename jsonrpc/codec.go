package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// This is the only file that depends on the JSON codec. encoding/json/v2 can replace it once every
// supported Go version has it. The codec is strict: case-sensitive names, no duplicate members,
// valid UTF-8.

// encodeOptions writes maps in the order of their keys, so that equal values give equal bytes. A
// Raw or an ID inside a value retains its escapes.
var encodeOptions = json.JoinOptions(json.Deterministic(true), jsontext.PreserveRawStrings(true))

// lenientText accepts a string with an escaped lone surrogate and replaces that with U+FFFD. It is
// used for error messages.
var lenientText = jsontext.AllowInvalidUTF8(true)

var encoders = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// appendValue appends the JSON text of v to dst.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case Raw:
		if v == nil {
			return append(dst, "null"...), nil
		}
		return append(dst, v...), nil
	case Appender:
		return v.AppendJSON(dst)
	case string:
		if utf8.ValidString(v) { // otherwise the codec returns its error
			return AppendString(dst, v), nil
		}
	case bool:
		return strconv.AppendBool(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 && !(v == 0 && math.Signbit(v)) {
			return strconv.AppendInt(dst, int64(v), 10), nil
		}
	}
	if out, ok := appendPlain(dst, v); ok {
		return out, nil
	}
	b := encoders.Get().(*bytes.Buffer)
	*b = *bytes.NewBuffer(dst)
	err := json.MarshalWrite(b, v, encodeOptions)
	if err == nil {
		dst = b.Bytes()
	}
	*b = bytes.Buffer{}
	encoders.Put(b)
	return dst, err
}

// decodeValue decodes text, which is valid JSON, into the value that v points to.
func decodeValue(text Raw, v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case *Raw:
		*v = text.Clone()
		return nil
	case Parser:
		return v.ParseJSON(text)
	case *int:
		if n, ok := compactInt(text); ok {
			*v = int(n)
			return nil
		}
	case *int64:
		if n, ok := compactInt(text); ok {
			*v = int64(n)
			return nil
		}
	case *float64:
		if n, ok := compactInt(text); ok && n < 1<<53 {
			*v = float64(n)
			return nil
		}
	}
	return json.Unmarshal(text, v)
}

// decodeExactly is decodeValue, but rejects members that the type does not have.
func decodeExactly(text Raw, v any) error {
	return json.Unmarshal(text, v, json.RejectUnknownMembers(true))
}

// decodeError decodes the error of a response. In version 1.0 it may be any value.
func decodeError(text Raw, version Version) (*Error, error) {
	var e struct {
		Code    *int64  `json:"code"`
		Message *string `json:"message"`
		Data    Raw     `json:"data"`
	}
	err := json.Unmarshal(text, &e, lenientText)
	switch {
	case err == nil && e.Code != nil && e.Message != nil:
		return &Error{Code: *e.Code, Message: *e.Message, Data: e.Data}, nil
	case version == Version1 && text[0] == '"':
		return &Error{Message: textOf(text), Data: text.Clone()}, nil
	case version == Version1:
		return &Error{Message: "error", Data: text.Clone()}, nil
	case err == nil:
		err = errors.New("code or message is missing")
	}
	return nil, fmt.Errorf("%w: %w", ErrBadResponse, err)
}

// whereAndWhy returns two parts of a codec's error: the JSON pointer relative to the decoded value,
// and the reason.
func whereAndWhy(err error) (pointer, reason string) {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return string(e.JSONPointer), "unknown member"
		}
		if e.GoType == nil {
			return string(e.JSONPointer), "wrong value"
		}
		if e.Err != nil && shapeOf(e.GoType) == shapeSelf && e.GoType != reflect.TypeFor[time.Time]() {
			return string(e.JSONPointer), "wrong value"
		}
		want, got := wanted(e.GoType), kindName(byte(e.JSONKind))
		switch {
		case e.JSONKind == 0:
			return string(e.JSONPointer), "want " + want
		case want == got:
			return string(e.JSONPointer), "wrong value"
		}
		return string(e.JSONPointer), "want " + want + ", got " + got
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return string(e.JSONPointer), "duplicate member"
		}
		return string(e.JSONPointer), "text is not valid Unicode"
	}
	return "", "wrong value"
}

// wanted returns the JSON name of a Go type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "integer in range"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map:
		return "object"
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return "time"
		}
		return "object"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "other value"
}

// kindName returns the name of a JSON value's kind, from its first byte.
func kindName(c byte) string {
	switch c {
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
	return "number"
}
