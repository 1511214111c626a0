package jsonrpc

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A plainField is a field that is encoded here, because setting up the codec takes longer than
// encoding it.
type plainField struct {
	name  string // the quoted name, with the brace or comma before it and the colon after it
	index int
}

// plains stores the fields of each struct type that was encoded. The value is nil for a type that
// the codec encodes.
var plains sync.Map

func plainOf(t reflect.Type) []plainField {
	if f, ok := plains.Load(t); ok {
		return f.([]plainField)
	}
	f := newPlain(t)
	plains.Store(t, f)
	return f
}

// newPlain lists the fields of a struct that has no methods, and whose tags contain only a name.
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
		case reflect.Int, reflect.Int64, reflect.Float64, reflect.Bool, reflect.String:
		default:
			return nil
		}
		name := string(AppendString(nil, tag)) + ":"
		if slices.ContainsFunc(all, func(p plainField) bool { return p.name[1:] == name }) {
			return nil // the codec rejects it
		}
		all = append(all, plainField{before + name, i})
		before = ","
	}
	return all
}

// appendPlain appends v to dst if it is a struct that can be encoded here. It returns false for all
// other values, and if a string needs escapes or a number an exponent.
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
		case reflect.Float64:
			x := f.Float()
			if size := math.Abs(x); x != 0 && !(1e-6 <= size && size < 1e21) {
				return dst, false // also infinity and NaN, which the codec rejects
			}
			dst = strconv.AppendFloat(dst, x, 'f', -1, 64)
		default:
			dst = strconv.AppendInt(dst, f.Int(), 10)
		}
	}
	return append(dst, '}'), fields != nil
}
