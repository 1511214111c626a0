package jsontag

import (
	"reflect"
	"strings"
	"testing"
)

func TestTags(t *testing.T) {
	type fields struct {
		Plain      int
		Pointer    *int     `json:"p"`
		Zero       int      `json:"z,omitzero"`
		Empty      []string `json:",omitempty,string"` //nolint:staticcheck // tags that encoding/json does not have
		Dash       int      `json:"-"`
		DashName   int      `json:"-,"` //nolint:staticcheck // likewise
		Quoted     int      `json:"'a,b',omitzero"`
		Apostrophe int      `json:"'it\\'s'"`
		Unclosed   int      `json:"'c,b"` //nolint:staticcheck // likewise
		hidden     int
		fieldsBase
	}
	want := []Tag{
		{Required: true},
		{Name: "p"},
		{Name: "z", Options: []string{"omitzero"}},
		{Options: []string{"omitempty", "string"}},
		{Name: "-", Skip: true, Required: true},
		{Name: "-", Required: true},
		{Name: "a,b", Options: []string{"omitzero"}},
		{Name: "it's", Required: true},
		{Name: "'c", Options: []string{"b"}, Required: true},
		{Skip: true, Required: true},
		{Required: true},
	}
	typ := reflect.TypeFor[fields]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		got := Of(f)
		if got.Name != want[i].Name || strings.Join(got.Options, " ") != strings.Join(want[i].Options, " ") || got.Skip != want[i].Skip || got.Required != want[i].Required {
			t.Errorf("%s: got %+v, want %+v", f.Name, got, want[i])
		}
	}
	_ = fields{}.hidden
}

type fieldsBase struct{ A int }
