package schema

import (
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/jsontag"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A member is one member of the JSON object that the codec creates for a struct.
type member struct {
	name     string
	field    reflect.StructField
	index    []int
	named    bool // by a tag
	required bool
}

// members lists the members that the codec reads and writes for struct type t, in field order, and
// the element type of the embedded map for all other members, or nil. It follows the rules of the
// codec (go-json-experiment/json, section "JSON Representation of Go structs"): embedded structs
// are promoted. Of members with the same name the shallowest is used, then the one with a tag,
// otherwise none of them.
func members(t reflect.Type) (list []member, rest reflect.Type) {
	type level struct {
		typ      reflect.Type
		index    []int
		required bool
	}
	queue := []level{{typ: t, required: true}}
	seen := map[reflect.Type]bool{t: true}
	var all []member
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for f := range at.typ.Fields() {
			tag := jsontag.Of(f)
			if tag.Skip {
				continue
			}
			index := append(slices.Clone(at.index), f.Index...)
			if embedded := elem(f.Type); (f.Anonymous && tag.Name == "") || tag.Has("embed") {
				switch {
				case embedded.Kind() == reflect.Struct && !seen[embedded]:
					seen[embedded] = true
					// without the struct, its members are absent
					queue = append(queue, level{embedded, index, at.required && f.Type.Kind() != reflect.Pointer})
				case embedded.Kind() == reflect.Map:
					rest = embedded.Elem()
				case embedded == reflect.TypeFor[jsontext.Value]():
					rest = reflect.TypeFor[any]()
				}
				continue
			}
			if !f.IsExported() {
				continue
			}
			m := member{name: tag.Name, field: f, index: index, named: tag.Name != "", required: at.required && tag.Required}
			if !m.named {
				m.name = f.Name
			}
			all = append(all, m)
		}
	}
	return dominant(all), rest
}

// paramsOf lists the members of params by name for struct type t, as [jsonrpc.Func] decodes them.
func paramsOf(t reflect.Type) (list []member) {
	for _, f := range jsonrpc.FieldsOf(t) {
		list = append(list, member{name: f.Name, field: t.FieldByIndex(f.Index), index: f.Index, required: f.Required})
	}
	return list
}

// sameNames reports whether two lists have the same members.
func sameNames(a, b []member) bool {
	return slices.EqualFunc(a, b, func(a, b member) bool { return a.name == b.name })
}

// dominant selects one member of each name. The search is breadth first, so depths only increase.
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

// elem removes one level of pointer.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
