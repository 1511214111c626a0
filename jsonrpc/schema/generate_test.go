package schema_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

type (
	Optional struct {
		Note string `json:"note"`
	}
	Shadowed struct {
		Name string `json:"name"`
		ID   int    `json:"id"`
	}
	presence struct {
		Plain     int     `json:"plain"`
		Pointer   *int    `json:"pointer"`
		OmitZero  int     `json:"omitZero,omitzero"`
		OmitEmpty string  `json:"omitEmpty,omitempty"`
		List      []int   `json:"list"`
		Any       any     `json:"any"`
		Standard  int     `json:"standard" extra:"default"`
		Ignored   int     `json:"-"`
		Quoted    *uint64 `json:"quoted,string"`
		*Optional
		Shadowed
		Name  string         `json:"name"`
		Named Optional       `json:"named"`
		Odd   string         `json:"'odd,name'"`
		Rest  map[string]any `json:",embed"`
	}
	notes      []note
	note       struct{ Answers notes }
	dictionary map[string]dictionary
	written    struct{ A int }
	read       struct{ A int }
	loop       struct {
		UntaggedName int
		Inner        *loop
	}
)

func (written) MarshalText() ([]byte, error) { return nil, nil }
func (*read) UnmarshalText([]byte) error     { return nil }

func of[T any](t *testing.T, g *schema.Generator) string {
	t.Helper()
	text, err := g.Of(reflect.TypeFor[T]())
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// TestRequired checks the one rule for which members are required, and what else the codec decides
// about members, in both forms of schemas.
func TestRequired(t *testing.T) {
	for _, prefix := range []string{"", "#/components/schemas/"} {
		g := &schema.Generator{Prefix: prefix, Keywords: func(f reflect.StructField) ([]schema.Keyword, bool) {
			return nil, f.Tag.Get("extra") == "default"
		}}
		text := of[presence](t, g)
		if prefix != "" {
			text = string(g.Components()["presence"])
		}
		var got struct {
			Properties map[string]any
			Required   []string
			Additional any `json:"additionalProperties"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if want := "plain list any id name named odd,name"; strings.Join(got.Required, " ") != want {
			t.Errorf("required is %v, want %s", got.Required, want)
		}
		if _, ignored := got.Properties["Ignored"]; len(got.Properties) != 13 || ignored {
			t.Errorf("properties are %v", got.Properties)
		}
		if strings.Count(text, `"name":`) != 1 {
			t.Errorf("name occurs twice: %s", text)
		}
		if got.Additional == false {
			t.Errorf("members of any name are not allowed: %s", text)
		}
		if !strings.Contains(text, `"quoted":{"type":["string","null"]`) {
			t.Errorf("null is not allowed for a quoted pointer: %s", text)
		}
	}
}

// TestTypesInOneDirection checks types that become text only when they are written, or only when
// they are read.
func TestTypesInOneDirection(t *testing.T) {
	const object = `{"type":"object","properties":{"A":{"type":"integer"}},"required":["A"],"additionalProperties":false}`
	for _, tt := range []struct {
		direction     schema.Direction
		written, read string
	}{
		{schema.Both, `{}`, `{}`},
		{schema.Output, `{"type":"string"}`, object},
		{schema.Input, object, `{"type":"string"}`},
	} {
		g := &schema.Generator{Direction: tt.direction}
		if got := of[written](t, g); got != tt.written {
			t.Errorf("%v: written: %s", tt.direction, got)
		}
		if got := of[read](t, g); got != tt.read {
			t.Errorf("%v: read: %s", tt.direction, got)
		}
	}
}

// TestRecursion checks types that contain themselves: struct, slice and map, and a struct whose
// params have other names than its members.
func TestRecursion(t *testing.T) {
	g := new(schema.Generator)
	const note = `{"type":"object","properties":{"Answers":{"type":"array","items":{"$ref":"#"}}},"required":["Answers"],"additionalProperties":false}`
	for _, tt := range []struct{ name, got, want string }{
		{"struct", of[noteRoot](t, g), note},
		{"slice", of[notes](t, g), `{"type":"array","items":{"type":"object","properties":{"Answers":{"$ref":"#"}},"required":["Answers"],"additionalProperties":false}}`},
		{"map", of[dictionary](t, g), `{"type":"object","additionalProperties":{"$ref":"#"}}`},
		{"below", of[[]dictionary](t, g), `{"type":"array","items":{"$ref":"#/$defs/dictionary"},"$defs":{"dictionary":{"type":"object","additionalProperties":{"$ref":"#/$defs/dictionary"}}}}`},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %s", tt.name, tt.got)
		}
		if _, err := schema.Compile([]byte(tt.got)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	text, err := g.Params(reflect.TypeFor[loop]())
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(t.Context(), []byte(`{"untaggedName":1,"inner":{"UntaggedName":2,"Inner":null}}`)); err != nil {
		t.Errorf("%v with %s", err, text)
	}
}

type noteRoot = note

// Nine types that all contain each other: there are 986,409 paths through them.
type (
	refs struct {
		A *ta
		B *tb
		C *tc
		D *td
		E *te
		F *tf
		G *tg
		H *th
		I *ti
	}
	ta struct{ refs }
	tb struct{ refs }
	tc struct{ refs }
	td struct{ refs }
	te struct{ refs }
	tf struct{ refs }
	tg struct{ refs }
	th struct{ refs }
	ti struct{ refs }
)

// TestManyCycles checks that the search for recursive types does not follow every path.
func TestManyCycles(t *testing.T) {
	g := new(schema.Generator)
	text := of[ta](t, g)
	if len(text) > 10_000 {
		t.Errorf("%d bytes", len(text))
	}
	if _, err := schema.Compile([]byte(text)); err != nil {
		t.Error(err)
	}
}

// TestKeywords checks where further keywords of a field are added.
func TestKeywords(t *testing.T) {
	type choices struct {
		One   string    `json:"one" extra:"enum"`
		Maybe *string   `json:"maybe" extra:"enum"`
		Many  []string  `json:"many" extra:"enum"`
		Three [3]string `json:"three" extra:"enum"`
	}
	g := &schema.Generator{Keywords: func(f reflect.StructField) ([]schema.Keyword, bool) {
		return []schema.Keyword{{Name: "enum", Value: []byte(`["a","b"]`)}}, false
	}}
	const want = `{"type":"object","properties":{"one":{"type":"string","enum":["a","b"]},"maybe":{"type":["string","null"],"enum":["a","b",null]},` +
		`"many":{"type":"array","items":{"type":"string","enum":["a","b"]}},"three":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":3,"maxItems":3}},` +
		`"required":["one","many","three"],"additionalProperties":false}`
	if got := of[choices](t, g); got != want {
		t.Errorf("got %s", got)
	}
}

// TestNoForm checks that a type without a JSON form is reported, and allows nothing.
func TestNoForm(t *testing.T) {
	g := new(schema.Generator)
	for _, typ := range []reflect.Type{reflect.TypeFor[struct{ C chan int }](), reflect.TypeFor[struct{ C func() }](), reflect.TypeFor[struct{ C time.Duration }]()} {
		text, err := g.Of(typ)
		if err == nil || !strings.Contains(err.Error(), "has no JSON form") {
			t.Errorf("%v: got %v", typ, err)
		}
		if want := `{"type":"object","properties":{"C":false},"required":["C"],"additionalProperties":false}`; string(text) != want {
			t.Errorf("%v: %s", typ, text)
		}
	}
}

// TestReferenced checks that schemas are found through others, and that those without a reference
// are not.
func TestReferenced(t *testing.T) {
	const prefix = "#/components/schemas/"
	ref := func(name string) jsonrpc.Raw { return jsonrpc.Raw(`{"$ref":"` + prefix + name + `"}`) }
	all := map[string]jsonrpc.Raw{"a": ref("b~1c"), "b/c": ref("a"), "loose": ref("a"), "d": jsonrpc.Raw(`{}`)}
	if got := slices.Sorted(maps.Keys(schema.Referenced(ref("a"), prefix, all))); strings.Join(got, " ") != "a b/c" {
		t.Errorf("got %v", got)
	}
	if got := schema.Referenced(jsonrpc.Raw(`{}`), prefix, all); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
