package jsonrpc

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A plainField is a field that is written here, since the codec takes longer to set up than to write it.
type plainField struct {
	name  string // with quotes, and what stands around them
	index int
}

// plains holds the fields of each struct type that was written: nil for one that is left to the codec.
var plains sync.Map

func plainOf(t reflect.Type) []plainField {
	if f, ok := plains.Load(t); ok {
		return f.([]plainField)
	}
	f := newPlain(t)
	plains.Store(t, f)
	return f
}

// newPlain lists the fields of a struct without methods of its own whose tags say no more than a name.
func newPlain(t reflect.Type) []plainField {
	if t.NumMethod() > 0 || reflect.PointerTo(t).NumMethod() > 0 {
		return nil
	}
	var all []plainField
	before := "{"
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if !f.IsExported() || f.Anonymous || f.Type.PkgPath() != "" || tag == "" || strings.ContainsAny(tag, "-,'\\\"") {
			return nil
		}
		switch f.Type.Kind() {
		case reflect.Int, reflect.Int64, reflect.Bool, reflect.String:
		default:
			return nil
		}
		name := string(appendString(nil, tag)) + ":"
		if slices.ContainsFunc(all, func(p plainField) bool { return p.name[1:] == name }) {
			return nil // the codec refuses it
		}
		all = append(all, plainField{before + name, i})
		before = ","
	}
	return all
}

// appendPlain adds v to dst if it is a struct that can be written here. It reports false for all others, and when a
// string needs more than quotes.
func appendPlain(dst []byte, value any) ([]byte, bool) {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Struct {
		return dst, false
	}
	fields := plainOf(v.Type())
	for i := range fields {
		f := v.Field(fields[i].index)
		dst = append(dst, fields[i].name...)
		switch f.Kind() {
		case reflect.Bool:
			dst = strconv.AppendBool(dst, f.Bool())
		case reflect.String:
			s := f.String()
			for i := range len(s) {
				if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
					return dst, false
				}
			}
			dst = append(append(append(dst, '"'), s...), '"')
		default:
			dst = strconv.AppendInt(dst, f.Int(), 10)
		}
	}
	return append(dst, '}'), fields != nil
}
