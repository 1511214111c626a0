package jsonrpc

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/internal/x/jsontag"
)

// params describes how the params of a request are decoded into a value of one Go type.
type params struct {
	shape  shape
	fields []Field
	byName map[string]int
	whole  bool    // a field's tag has options besides its name: the codec decodes the whole object
	inner  *params // for the element type of a pointer

	untagged string // a field whose name is derived
}

// A shape is the kind of params that a Go type accepts.
type shape uint8

const (
	shapeStruct  shape = iota
	shapeRaw           // the raw bytes
	shapeSelf          // a type that decodes itself
	shapeAny           // anything
	shapeList          // positional only
	shapeMap           // named only
	shapeSingle        // one positional
	shapePointer       // a pointer to any of these: optional as a whole
)

func newParams(t reflect.Type) *params {
	p := &params{shape: shapeOf(t)}
	refuseDuration(t)
	switch p.shape {
	case shapePointer:
		p.inner = newParams(t.Elem())
		p.fields = p.inner.fields
	case shapeStruct:
		p.addFields(t, nil)
		if p.whole && p.untagged != "" {
			panic(fmt.Sprintf("jsonrpc: field %s of %v needs a name in its json tag, since another field's tag has options", p.untagged, t))
		}
		p.byName = make(map[string]int, len(p.fields))
		for i, f := range p.fields {
			if _, twice := p.byName[f.Name]; twice {
				panic(fmt.Sprintf("jsonrpc: two fields of %v are named %q", t, f.Name))
			}
			p.byName[f.Name] = i
		}
	}
	return p
}

// refuseDuration panics for a type that has no JSON form, so that a method that could never be
// called is detected at once.
func refuseDuration(t reflect.Type) {
	if t == reflect.TypeFor[time.Duration]() {
		panic("jsonrpc: a time.Duration has no JSON form: use a number of some unit, or a string")
	}
}

func shapeOf(t reflect.Type) shape {
	ptr := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[Raw]():
		return shapeRaw
	case ptr.Implements(reflect.TypeFor[Parser]()):
		return shapeSelf
	case ptr.Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()):
		return shapeSelf
	case ptr.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return shapeSingle
	}
	switch t.Kind() {
	case reflect.Struct:
		return shapeStruct
	case reflect.Slice, reflect.Array:
		return shapeList
	case reflect.Map:
		return shapeMap
	case reflect.Interface:
		return shapeAny
	case reflect.Pointer:
		return shapePointer
	}
	return shapeSingle
}

// addFields adds the fields of t that are JSON members. The fields of an embedded struct replace
// it.
func (p *params) addFields(t reflect.Type, index []int) {
	for f := range t.Fields() {
		at := append(index[:len(index):len(index)], f.Index...)
		tag := jsontag.Of(f)
		name := tag.Name
		if tag.Skip {
			continue
		}
		if f.Anonymous && name == "" {
			if f.Type.Kind() == reflect.Struct && shapeOf(f.Type) == shapeStruct {
				p.addFields(f.Type, at)
				continue
			}
			if !f.IsExported() {
				continue
			}
		}
		refuseDuration(f.Type)
		if name == "" {
			name = lowerFirst(f.Name)
			p.untagged = f.Name
		}
		for _, option := range tag.Options {
			switch option {
			case "omitzero", "omitempty", "":
			default:
				if tag.Name == "" {
					panic(fmt.Sprintf("jsonrpc: field %s of %v needs a name in its json tag", f.Name, t))
				}
				p.whole = true
			}
		}
		p.fields = append(p.fields, Field{Name: name, Index: at, Type: f.Type, Required: tag.Required, Doc: f.Tag.Get("jsonschema"),
			quoted: string(AppendString(nil, name)) + ":", plain: plainKind(f.Type), nullable: isNullable(f.Type)})
	}
}

// lowerFirst converts a Go field name to a member name: Minuend to minuend, URLPath to urlPath, ID
// to id.
func lowerFirst(name string) string {
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsUpper(r) {
			break
		}
		if i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break
		}
		runes[i] = unicode.ToLower(r)
	}
	return string(runes)
}

// decode decodes text into the value that ptr points to, which is zero.
func (p *params) decode(text Raw, ptr any) *ParamFault {
	switch p.shape {
	case shapeStruct:
		return p.decodeStruct(text, ptr)
	case shapeRaw:
		*ptr.(*Raw) = text
		return nil
	case shapePointer:
		if text == nil {
			return nil
		}
		v := reflect.ValueOf(ptr).Elem()
		inner := reflect.New(v.Type().Elem())
		fault := p.inner.decode(text, inner.Interface())
		v.Set(inner)
		return fault
	case shapeSingle:
		return decodeSingle(text, ptr)
	case shapeList:
		if text != nil && text[0] != '[' {
			return &ParamFault{"", "want params by position"}
		}
	case shapeMap:
		if text != nil && text[0] != '{' {
			return &ParamFault{"", "want params by name"}
		}
	}
	if text == nil {
		if p.shape == shapeSelf {
			text = Raw("null")
		} else if p.shape == shapeList {
			text = Raw("[]")
		} else {
			return nil
		}
	}
	if p.shape == shapeSelf {
		return faultAt("", decodeValue(text, ptr))
	}
	return faultAt("", decodeExactly(text, ptr))
}

// faultAt converts a codec's error to a fault below pointer.
func faultAt(pointer string, err error) *ParamFault {
	if err == nil {
		return nil
	}
	where, why := whereAndWhy(err)
	if own, ok := errors.AsType[*ParamFault](err); ok {
		where, why = where+own.Pointer, own.Reason
	}
	return &ParamFault{pointer + where, why}
}

func decodeSingle(text Raw, ptr any) *ParamFault {
	wanted := &ParamFault{"", "want one param by position"}
	if len(text) == 0 || text[0] != '[' {
		return wanted
	}
	w := walk(text)
	first, ok := w.element()
	if !ok {
		return wanted
	}
	if _, more := w.element(); more {
		return wanted
	}
	return faultAt("/0", decodeExactly(first, ptr))
}

func (p *params) decodeStruct(text Raw, ptr any) *ParamFault {
	var few [8]bool // the fields that were present
	given := few[:]
	if len(p.fields) > len(few) {
		given = make([]bool, len(p.fields))
	}
	var fault *ParamFault
	switch {
	case text == nil:
	case p.whole:
		fault = p.decodeWhole(text, ptr, given)
	case text[0] == '[':
		fault = p.decodePositions(text, reflect.ValueOf(ptr).Elem(), given)
	default:
		fault = p.decodeNames(text, reflect.ValueOf(ptr).Elem(), given)
	}
	if fault != nil {
		return fault
	}
	for i := range p.fields {
		f := &p.fields[i]
		switch {
		case !f.Required || given[i]:
		case text != nil && text[0] == '[':
			return &ParamFault{"/" + strconv.Itoa(i), f.Name + " is required"}
		default:
			return &ParamFault{pointerTo([]byte(f.Name)), "is required"}
		}
	}
	return nil
}

func (p *params) decodePositions(text Raw, v reflect.Value, given []bool) *ParamFault {
	w := walk(text)
	for i := 0; ; i++ {
		element, ok := w.element()
		if !ok {
			return nil
		}
		if i >= len(p.fields) {
			return p.tooMany()
		}
		given[i] = true
		if fault := p.set(v, i, element); fault != nil {
			fault.Pointer = "/" + strconv.Itoa(i) + fault.Pointer
			return fault
		}
	}
}

func (p *params) tooMany() *ParamFault {
	n := strconv.Itoa(len(p.fields))
	return &ParamFault{"/" + n, "want at most " + n + " params"}
}

func (p *params) decodeNames(text Raw, v reflect.Value, given []bool) *ParamFault {
	w := walk(text)
	// Most senders write the members in the order of the fields: one comparison each.
	for i := 0; i < len(p.fields) && w.skip(p.fields[i].quoted); i++ {
		given[i] = true
		if fault := p.set(v, i, w.value()); fault != nil {
			fault.Pointer = pointerTo([]byte(p.fields[i].Name)) + fault.Pointer
			return fault
		}
	}
	for !w.atEnd('}') {
		name, value, ok := w.member()
		if !ok {
			return nil
		}
		i, known := p.byName[string(name)]
		if !known {
			return &ParamFault{pointerTo(name), "unknown member"}
		}
		if given[i] {
			return &ParamFault{pointerTo(name), "duplicate member"}
		}
		given[i] = true
		if fault := p.set(v, i, value); fault != nil {
			fault.Pointer = pointerTo(name) + fault.Pointer
			return fault
		}
	}
	return nil
}

// decodeWhole passes the object to the codec, because a tag has an option that only the codec
// implements. Positional params get their names first.
func (p *params) decodeWhole(text Raw, ptr any, given []bool) *ParamFault {
	w := walk(text)
	if text[0] == '[' {
		named := []byte{'{'}
		for i := 0; ; i++ {
			element, ok := w.element()
			if !ok {
				break
			}
			if i >= len(p.fields) {
				return p.tooMany()
			}
			given[i] = true
			if i > 0 {
				named = append(named, ',')
			}
			named = append(append(AppendString(named, p.fields[i].Name), ':'), element...)
		}
		text = append(named, '}')
	} else {
		for {
			name, _, ok := w.member()
			if !ok {
				break
			}
			if i, known := p.byName[string(name)]; known {
				given[i] = true
			}
		}
	}
	return faultAt("", decodeExactly(text, ptr))
}

// set decodes one field; the pointer of a fault is relative to it. The plain kinds are decoded
// here, because setting up the codec takes longer than decoding them.
func (p *params) set(v reflect.Value, i int, text Raw) *ParamFault {
	if len(text) == 0 {
		return &ParamFault{"", "is not valid JSON"} // a Raw that was not checked
	}
	f := &p.fields[i]
	if len(f.Index) == 1 {
		v = v.Field(f.Index[0])
	} else {
		v = v.FieldByIndex(f.Index)
	}
	if isNull(text) && !f.nullable {
		if !f.Required {
			return nil // null is equivalent to absent where the field is optional
		}
		return &ParamFault{"", "want " + wanted(f.Type) + ", got null"}
	}
	switch f.plain {
	case reflect.Int:
		if n, ok := compactInt(text); ok {
			v.SetInt(int64(n))
			return nil
		}
		// 5.0 and 5e0 are integers too (JSON Schema 2020-12, Validation, section 6.1.1), but the
		// codec rejects them.
		if x, err := strconv.ParseFloat(string(text), 64); err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			v.SetInt(int64(x))
			return nil
		}
	case reflect.Float64:
		if n, ok := compactInt(text); ok && n < 1<<53 {
			v.SetFloat(float64(n))
			return nil
		}
	case reflect.String:
		if text[0] == '"' && !isEscaped(text) {
			v.SetString(string(text[1 : len(text)-1]))
			return nil
		}
	case reflect.Bool:
		if text[0] == 't' || text[0] == 'f' {
			v.SetBool(text[0] == 't')
			return nil
		}
	case reflect.Slice: // Raw
		v.SetBytes(text.Clone())
		return nil
	}
	return faultAt("", decodeExactly(text, v.Addr().Interface()))
}

// plainKind returns the kind of a type that set decodes itself, or Invalid.
func plainKind(t reflect.Type) reflect.Kind {
	switch t {
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		return reflect.Int
	case reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[Raw]():
		return t.Kind()
	}
	return reflect.Invalid
}

// isNullable reports whether null is a value of t.
func isNullable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return true
	}
	return shapeOf(t) == shapeSelf
}

// pointerTo returns a JSON pointer with one member name, truncated to a reasonable length for an
// error.
func pointerTo(name []byte) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
		for len(name) > 0 && !utf8.Valid(name) {
			name = name[:len(name)-1]
		}
		name = append(name[:len(name):len(name)], "…"...)
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(string(name))
}
