// Package jsontag reads the json tags of struct fields, as the codec does: the name of a member,
// its options, and whether it is required.
package jsontag

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Tag is the json tag of a struct field.
type Tag struct {
	Name    string // empty if the tag has none
	Options []string
	Skip    bool // the field is not a member: it is tagged "-", or neither exported nor embedded
	// Required reports whether an object without the member is invalid: the field is not a pointer
	// and is tagged neither omitzero nor omitempty.
	Required bool
}

// Of returns the tag of f.
func Of(f reflect.StructField) Tag {
	text := f.Tag.Get("json")
	t := Tag{Skip: text == "-" || !f.IsExported() && !f.Anonymous}
	var options string
	t.Name, options = cutName(text)
	if options != "" {
		t.Options = strings.Split(options, ",")
	}
	t.Required = f.Type.Kind() != reflect.Pointer && !t.Has("omitzero") && !t.Has("omitempty")
	return t
}

// cutName splits a tag after the name, which may be quoted with apostrophes.
func cutName(tag string) (name, options string) {
	if strings.HasPrefix(tag, "'") {
		for end := 1; end < len(tag); end++ {
			if tag[end] == '\\' {
				end++
				continue
			}
			if tag[end] != '\'' {
				continue
			}
			inner := strings.ReplaceAll(strings.ReplaceAll(tag[1:end], `\'`, `'`), `"`, `\"`)
			if name, err := strconv.Unquote(`"` + inner + `"`); err == nil {
				return name, strings.TrimPrefix(tag[end+1:], ",")
			}
			break
		}
	}
	name, options, _ = strings.Cut(tag, ",")
	return name, options
}

// Has reports whether the tag has an option.
func (t Tag) Has(option string) bool { return slices.Contains(t.Options, option) }
