package jsonrpc

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// params knows how the params of a request become a value of one Go type.
type params struct {
	shape  shape
	fields []Field
	byName map[string]int
	whole  bool    // a field's tag says more than its name: the codec reads the object as a whole
	inner  *params // of what a pointer points to

	untagged string // a field whose name is derived
}

// A shape is what a Go type takes.
type shape uint8

const (
	shapeStruct  shape = iota
	shapeRaw           // the bytes
	shapeSelf          // a type that reads itself
	shapeAny           // anything
	shapeList          // positional only
	shapeMap           // named only
	shapeSingle        // one positional
	shapePointer       // of any of these: optional as a whole
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

// refuseDuration panics for a type that has no JSON form, so that a method which could never be called shows at once.
func refuseDuration(t reflect.Type) {
	if t == reflect.TypeFor[time.Duration]() {
		panic("jsonrpc: a time.Duration has no JSON form: take a number of some unit, or a string")
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

// addFields lists the fields of t that are members on the wire, those of embedded structs in their place.
func (p *params) addFields(t reflect.Type, index []int) {
	for f := range t.Fields() {
		at := append(index[:len(index):len(index)], f.Index...)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if tag == "-" || (!f.IsExported() && !f.Anonymous) {
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
		required := f.Type.Kind() != reflect.Pointer
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitzero", "omitempty":
				required = false
			case "":
			default:
				if !tagged || strings.HasPrefix(tag, ",") {
					panic(fmt.Sprintf("jsonrpc: field %s of %v needs a name in its json tag", f.Name, t))
				}
				p.whole = true
			}
		}
		p.fields = append(p.fields, Field{Name: name, Index: at, Type: f.Type, Required: required, Doc: f.Tag.Get("jsonschema")})
	}
}

// lowerFirst turns a field's name into a member's: Minuend to minuend, URLPath to urlPath, ID to id.
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

// decode reads text into the value that ptr points to, which is zero.
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

// faultAt turns a codec's error into a fault below pointer.
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
	if len(text) == 0 || text[0] != '[' {
		return &ParamFault{"", "want one param by position"}
	}
	n := 0
	var fault *ParamFault
	elements(text, func(i int, element Raw) {
		if n++; i == 0 {
			fault = faultAt("/0", decodeExactly(element, ptr))
		}
	})
	if n != 1 {
		return &ParamFault{"", "want one param by position"}
	}
	return fault
}

func (p *params) decodeStruct(text Raw, ptr any) *ParamFault {
	v := reflect.ValueOf(ptr).Elem()
	var few [8]bool // which fields were given
	given := few[:]
	if len(p.fields) > len(few) {
		given = make([]bool, len(p.fields))
	}
	var fault *ParamFault
	switch {
	case text == nil:
	case text[0] == '[':
		if p.whole {
			return p.decodeWhole(text, ptr)
		}
		elements(text, func(i int, element Raw) {
			switch {
			case fault != nil:
			case i >= len(p.fields):
				fault = &ParamFault{"/" + strconv.Itoa(i), "want at most " + strconv.Itoa(len(p.fields)) + " params"}
			default:
				given[i] = true
				fault = p.set(v, i, element, func() string { return "/" + strconv.Itoa(i) })
			}
		})
		if fault == nil {
			return p.missing(given)
		}
		return fault
	default:
		if p.whole {
			return p.decodeWhole(text, ptr)
		}
		members(text, func(name []byte, value Raw) {
			i, known := p.byName[string(name)]
			switch {
			case fault != nil:
			case !known:
				fault = &ParamFault{pointerTo(name), "unknown member"}
			case given[i]:
				fault = &ParamFault{pointerTo(name), "member comes twice"}
			default:
				given[i] = true
				fault = p.set(v, i, value, func() string { return pointerTo(name) })
			}
		})
	}
	if fault == nil {
		fault = p.missing(given)
	}
	return fault
}

// missing names the first required field that was not given.
func (p *params) missing(given []bool) *ParamFault {
	for i := range p.fields {
		if f := &p.fields[i]; f.Required && !given[i] {
			return &ParamFault{pointerTo([]byte(f.Name)), "is required"}
		}
	}
	return nil
}

// decodeWhole leaves the object to the codec, since a tag asks for what only the codec knows. Positions get their names first.
func (p *params) decodeWhole(text Raw, ptr any) *ParamFault {
	given := make([]bool, len(p.fields))
	if text[0] == '[' {
		named := []byte{'{'}
		n := 0
		elements(text, func(i int, element Raw) {
			if n++; i < len(p.fields) {
				given[i] = true
				if i > 0 {
					named = append(named, ',')
				}
				named = append(append(appendString(named, p.fields[i].Name), ':'), element...)
			}
		})
		if n > len(p.fields) {
			return &ParamFault{"/" + strconv.Itoa(len(p.fields)), "want at most " + strconv.Itoa(len(p.fields)) + " params"}
		}
		text = append(named, '}')
	} else {
		members(text, func(name []byte, _ Raw) {
			if i, known := p.byName[string(name)]; known {
				given[i] = true
			}
		})
	}
	if fault := faultAt("", decodeExactly(text, ptr)); fault != nil {
		return fault
	}
	return p.missing(given)
}

// set decodes one field. The plain kinds are read here, since a codec takes longer to set up than to read them.
func (p *params) set(v reflect.Value, i int, text Raw, pointer func() string) *ParamFault {
	f := &p.fields[i]
	v = v.FieldByIndex(f.Index)
	if isNull(text) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		default:
			if !f.Required {
				return nil // null is as good as absent where absent is allowed
			}
			if shapeOf(f.Type) != shapeSelf {
				return &ParamFault{pointer(), "want " + wanted(f.Type) + ", got null"}
			}
		}
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		if n, ok := compactInt(text); ok && v.Type().PkgPath() == "" {
			v.SetInt(int64(n))
			return nil
		}
	case reflect.Float64:
		if n, ok := compactInt(text); ok && n < 1<<53 && v.Type().PkgPath() == "" {
			v.SetFloat(float64(n))
			return nil
		}
	case reflect.String:
		if v.Type().PkgPath() == "" && text[0] == '"' && !isEscaped(text) {
			v.SetString(string(text[1 : len(text)-1]))
			return nil
		}
	case reflect.Bool:
		if v.Type().PkgPath() == "" && (text[0] == 't' || text[0] == 'f') {
			v.SetBool(text[0] == 't')
			return nil
		}
	}
	if v.Type() == reflect.TypeFor[Raw]() {
		v.SetBytes(text.Clone())
		return nil
	}
	if err := decodeExactly(text, v.Addr().Interface()); err != nil {
		return faultAt(pointer(), err)
	}
	return nil
}

// pointerTo makes a JSON pointer of one member name, cut to a length that is fit for an error.
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

// elements calls f for each element of the array in text, which is valid JSON.
func elements(text Raw, f func(i int, element Raw)) {
	s := checkedBefore()
	i := skipSpace(text, 1)
	for n := 0; text[i] != ']'; n++ {
		start := skipSpace(text, i)
		end, _ := s.value(text, start) // valid already
		f(n, text[start:end:end])
		if i = skipSpace(text, end); text[i] == ',' {
			i++
		}
	}
}

// members calls f for each member of the object in text, which is valid JSON. The name is unescaped and valid until f returns.
func members(text Raw, f func(name []byte, value Raw)) {
	s := checkedBefore()
	i := skipSpace(text, 1)
	for text[i] != '}' {
		end, _ := s.str(text, i) // valid already
		name := []byte(text[i+1 : end-1])
		if isEscaped(text[i:end]) {
			name = unescape(nil, text[i:end])
		}
		start := skipSpace(text, skipSpace(text, end)+1) // past the colon
		end, _ = s.value(text, start)
		f(name, text[start:end:end])
		if i = skipSpace(text, end); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
}

// checkedBefore makes a scanner for text that is known to be valid.
func checkedBefore() scanner {
	const most = 1 << 30
	return scanner{depth: most, tokens: most}
}
