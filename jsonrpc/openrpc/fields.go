package openrpc

import (
	"reflect"
	"slices"
	"strings"
)

// A member is one member of the JSON object that the codec makes of a struct.
type member struct {
	name     string
	doc      string // from the jsonschema tag
	typ      reflect.Type
	index    []int
	named    bool // by a tag
	optional bool // a pointer, omitzero, omitempty, or below an embedded pointer
	quoted   bool // the tag option "string": numbers as JSON strings
}

// members lists what the codec reads and writes for struct type t, in the order of the fields, and the element type of the
// embedded map that takes all other members, or nil. The rules are those of the codec (go-json-experiment/json, section
// "JSON Representation of Go structs"): embedded structs are promoted, and of members with one name the shallowest wins,
// then the one with a tag, else none.
func members(t reflect.Type) (list []member, rest reflect.Type) {
	type level struct {
		typ      reflect.Type
		index    []int
		optional bool
	}
	queue := []level{{typ: t}}
	seen := map[reflect.Type]bool{t: true}
	var all []member
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for i := range at.typ.NumField() {
			f := at.typ.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Tag.Get("json") == "-" || (!f.IsExported() && !f.Anonymous) {
				continue
			}
			index := append(slices.Clone(at.index), i)
			if embedded := elem(f.Type); (f.Anonymous && name == "") || has(options, "embed") {
				switch {
				case embedded.Kind() == reflect.Struct && !seen[embedded]:
					seen[embedded] = true
					queue = append(queue, level{embedded, index, at.optional || f.Type.Kind() == reflect.Pointer})
				case embedded.Kind() == reflect.Map:
					rest = embedded.Elem()
				case embedded == textType:
					rest = reflect.TypeFor[any]()
				}
				continue
			}
			if !f.IsExported() {
				continue
			}
			m := member{
				name: name, named: name != "", typ: f.Type, index: index, doc: f.Tag.Get("jsonschema"),
				optional: at.optional || f.Type.Kind() == reflect.Pointer || has(options, "omitzero") || has(options, "omitempty"),
				quoted:   has(options, "string"),
			}
			if !m.named {
				m.name = f.Name
			}
			all = append(all, m)
		}
	}
	return dominant(all), rest
}

// dominant keeps one member of each name. The search was breadth first, so that depths only grow.
func dominant(all []member) []member {
	byName := make(map[string][]member, len(all))
	for _, m := range all {
		byName[m.name] = append(byName[m.name], m)
	}
	var list []member
	for _, same := range byName {
		if m, ok := winner(same); ok {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b member) int { return slices.Compare(a.index, b.index) })
	return list
}

func winner(same []member) (member, bool) {
	var plain, named []member
	for _, m := range same {
		switch {
		case len(m.index) > len(same[0].index):
		case m.named:
			named = append(named, m)
		default:
			plain = append(plain, m)
		}
	}
	switch {
	case len(named) == 1:
		return named[0], true
	case len(named) == 0 && len(plain) == 1:
		return plain[0], true
	}
	return member{}, false
}

// elem looks through one pointer.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func has(options, want string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == want {
			return true
		}
	}
	return false
}
