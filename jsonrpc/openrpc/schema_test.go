package openrpc

import (
	stdjson "encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
)

type (
	node struct {
		Value int     `json:"value"`
		Next  *node   `json:"next,omitempty" jsonschema:"the one behind it"`
		Kids  []*node `json:"kids,omitzero"`
	}
	forest      []forest
	graph       map[string]graph
	itself      *itself
	celsius     float64
	weekday     int
	colour      string
	blob        []byte
	hash        [4]byte
	page[T any] struct {
		Items []T    `json:"items"`
		Next  string `json:"next,omitempty"`
	}
	pair[K, V any] struct {
		Key K `json:"key"`
		Val V `json:"val"`
	}
	base struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	Shared struct {
		Name string `json:"name"`
		Note string `json:"note"`
	}
	derived struct {
		base
		*Shared
		Name string `json:"name" jsonschema:"hides both"`
	}
	left  struct{ ID, Name string }
	right struct{ Name, Note string }
	clash struct {
		left
		right
	}
	open struct {
		Known int            `json:"known"`
		Rest  map[string]any `json:",embed"`
	}
	tags struct {
		Untagged  int
		Ignored   int     `json:"-"`
		Dash      int     `json:"a-b"`
		Quoted    int64   `json:"quoted,string"`
		QuotedOpt *uint64 `json:"quotedOpt,string,omitzero"`
		QuotedF   float64 `json:"quotedF,string"`
		hidden    int
		Pointer   *string `json:"pointer"`
	}
	ownJSON  struct{ A int }
	ownText  struct{ text string }
	halfText struct {
		A int `json:"a"`
	}
	opaque interface{ Secret() }
)

func (ownJSON) MarshalJSON() ([]byte, error)   { return []byte(`[1,2]`), nil }
func (*ownJSON) UnmarshalJSON([]byte) error    { return nil }
func (t ownText) MarshalText() ([]byte, error) { return []byte(t.text), nil }
func (*ownText) UnmarshalText([]byte) error    { return nil }
func (halfText) MarshalText() ([]byte, error)  { return []byte("half"), nil }

// forms holds special types: the schema, values that the codec writes (all must match), and texts
// that match (the codec must read them) or do not match.
var forms = []struct {
	name   string
	typ    reflect.Type
	schema string
	values []any
	good   []string
	bad    []string
}{
	{"bool", reflect.TypeFor[bool](), `{"type":"boolean"}`, []any{true}, []string{`false`}, []string{`0`, `"true"`}},
	{"int8 has bounds", reflect.TypeFor[int8](), `{"type":"integer","minimum":-128,"maximum":127}`,
		[]any{int8(-128)}, []string{`127`}, []string{`128`, `1.5`, `"1"`}},
	{"uint is not negative", reflect.TypeFor[uint](), `{"type":"integer","minimum":0}`, []any{uint(7)}, []string{`0`}, []string{`-1`}},
	{"named scalar stays in place", reflect.TypeFor[celsius](), `{"type":"number"}`, []any{celsius(1.5)}, []string{`-3`}, []string{`"cold"`}},
	{"named int", reflect.TypeFor[weekday](), `{"type":"integer"}`, []any{weekday(3)}, []string{`1`}, []string{`1.5`}},
	{"any", reflect.TypeFor[any](), `true`, []any{nil, 1, "x", []any{}}, []string{`{"a":[null]}`}, nil},
	{"other interface", reflect.TypeFor[opaque](), `true`, []any{opaque(nil)}, nil, nil},
	{"pointer may be null", reflect.TypeFor[*int32](), `{"type":["integer","null"],"minimum":-2147483648,"maximum":2147483647}`,
		[]any{(*int32)(nil), new(int32)}, []string{`null`, `5`}, []string{`"5"`, `4294967296`}},
	{"pointer to a named type", reflect.TypeFor[*node](), `{"anyOf":[{"$ref":"#/components/schemas/node"},{"type":"null"}]}`,
		[]any{(*node)(nil), &node{}}, []string{`null`, `{"value":1}`}, []string{`[]`, `{}`}},
	{"slice is never null", reflect.TypeFor[[]string](), `{"type":"array","items":{"type":"string"}}`,
		[]any{[]string(nil), []string{"a"}}, []string{`[]`}, []string{`null`, `[1]`, `"a"`}},
	{"array has a length", reflect.TypeFor[[2]int](), `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`,
		[]any{[2]int{1, 2}}, []string{`[3,4]`}, []string{`[3]`, `[3,4,5]`}},
	{"bytes are base64", reflect.TypeFor[[]byte](), `{"type":"string","contentEncoding":"base64"}`,
		[]any{[]byte(nil), []byte{0, 255}}, []string{`""`, `"aGk="`}, []string{`[1,2]`, `"a-"`}},
	{"named bytes too", reflect.TypeFor[blob](), `{"type":"string","contentEncoding":"base64"}`, []any{blob("x")}, []string{`"aGk="`}, []string{`[1]`}},
	{"byte array has a length", reflect.TypeFor[hash](), `{"type":"string","minLength":8,"maxLength":8,"contentEncoding":"base64"}`,
		[]any{hash{1, 2, 3, 4}}, []string{`"AQIDBA=="`}, []string{`"aGk="`, `[1,2,3,4]`}},
	{"time", reflect.TypeFor[time.Time](), `{"type":"string","format":"date-time"}`,
		[]any{time.Unix(0, 0).UTC()}, []string{`"2026-11-20T10:00:00.5+01:00"`}, []string{`"tomorrow"`, `0`}},
	{"raw text is anything", reflect.TypeFor[jsonrpc.Raw](), `true`, []any{jsonrpc.Raw(`{"a":1}`)}, []string{`[1]`, `"x"`}, nil},
	{"standard raw text too", reflect.TypeFor[stdjson.RawMessage](), `true`, []any{stdjson.RawMessage(`1`)}, []string{`[1]`, `"x"`}, nil},
	{"id", reflect.TypeFor[jsonrpc.ID](), `{"type":["string","number","null"]}`,
		[]any{jsonrpc.IntID(1)}, []string{`"a"`, `1`, `null`}, []string{`{}`, `[]`, `true`}},
	{"big numbers", reflect.TypeFor[big.Int](), `{"type":"integer"}`, []any{big.NewInt(1 << 60)}, []string{`123456789012345678901234567890`}, []string{`"1"`}},
	{"own text", reflect.TypeFor[netip.Addr](), `{"type":"string"}`, []any{netip.MustParseAddr("::1")}, []string{`"127.0.0.1"`}, []string{`1`}},
	{"own text by a pointer", reflect.TypeFor[ownText](), `{"type":"string"}`, []any{ownText{}}, []string{`"x"`}, []string{`{}`}},
	{"text on one way only", reflect.TypeFor[halfText](), `true`, []any{halfText{}}, []string{`{"a":1}`}, nil},
	{"own form", reflect.TypeFor[ownJSON](), `true`, []any{ownJSON{}}, []string{`{"a":1}`, `3`}, nil},
	{"map", reflect.TypeFor[map[string]int](), `{"type":"object","additionalProperties":{"type":"integer"}}`,
		[]any{map[string]int(nil), map[string]int{"a": 1}}, []string{`{}`}, []string{`[]`, `{"a":"b"}`}},
	{"map with numbers for keys", reflect.TypeFor[map[int]bool](),
		`{"type":"object","additionalProperties":{"type":"boolean"},"propertyNames":{"pattern":"^(0|-?[1-9][0-9]*)$"}}`,
		[]any{map[int]bool{-1: true, 0: false}}, []string{`{"12":true}`}, []string{`{"a":true}`, `{"01":true}`}},
	{"map with counts for keys", reflect.TypeFor[map[uint8]bool](),
		`{"type":"object","additionalProperties":{"type":"boolean"},"propertyNames":{"pattern":"^(0|[1-9][0-9]*)$"}}`,
		[]any{map[uint8]bool{7: true}}, []string{`{"0":true}`}, []string{`{"-1":true}`}},
	{"map with addresses for keys", reflect.TypeFor[map[netip.Addr]int](), `{"type":"object","additionalProperties":{"type":"integer"}}`,
		[]any{map[netip.Addr]int{netip.MustParseAddr("::1"): 1}}, []string{`{"127.0.0.1":1}`}, []string{`{"::1":""}`}},
	{"empty struct", reflect.TypeFor[struct{}](), `{"type":"object","properties":{},"additionalProperties":false}`,
		[]any{struct{}{}}, []string{`{}`}, []string{`{"a":1}`, `[]`}},
	{"tag options", reflect.TypeFor[tags](), `{"type":"object",
		"properties":{"Untagged":{"type":"integer"},"a-b":{"type":"integer"},
			"quoted":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)$"},
			"quotedOpt":{"type":["string","null"],"pattern":"^-?(0|[1-9][0-9]*)$"},
			"quotedF":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?$"},
			"pointer":{"type":["string","null"]}},
		"required":["Untagged","a-b","quoted","quotedF"],"additionalProperties":false}`,
		[]any{tags{}, tags{QuotedOpt: new(uint64), Quoted: -5, QuotedF: 2.5e-30, hidden: 1}},
		[]string{`{"Untagged":1,"a-b":2,"quoted":"3","quotedF":"0.5","pointer":null}`},
		[]string{`{"Untagged":1,"a-b":2,"quoted":3,"quotedF":"1"}`, `{"untagged":1,"a-b":2,"quoted":"3","quotedF":"1"}`}},
	{"recursive struct", reflect.TypeFor[node](), `{"$ref":"#/components/schemas/node"}`,
		[]any{node{Next: &node{Value: 2}, Kids: []*node{{}, nil}}}, []string{`{"value":1,"next":{"value":2}}`},
		[]string{`{"value":1,"next":{"value":"2"}}`, `{"next":null}`}},
	{"recursive slice", reflect.TypeFor[forest](), `{"$ref":"#/components/schemas/forest"}`,
		[]any{forest{{}, {{}}}}, []string{`[[],[[]]]`}, []string{`[1]`, `[[[{}]]]`}},
	{"recursive map", reflect.TypeFor[graph](), `{"$ref":"#/components/schemas/graph"}`,
		[]any{graph{"a": {"b": nil}}}, []string{`{"a":{}}`}, []string{`{"a":1}`}},
	{"pointer to itself", reflect.TypeFor[itself](), `true`, []any{itself(nil)}, nil, nil},
	{"generic", reflect.TypeFor[page[node]](), `{"$ref":"#/components/schemas/page_node"}`,
		[]any{page[node]{Items: []node{{}}}}, []string{`{"items":[]}`}, []string{`{}`, `{"items":[1]}`}},
	{"generic of a generic", reflect.TypeFor[pair[string, page[int]]](), `{"$ref":"#/components/schemas/pair_string_page_int"}`,
		[]any{pair[string, page[int]]{}}, []string{`{"key":"","val":{"items":[1]}}`}, []string{`{"key":"","val":[]}`}},
	{"embedded, hidden and optional by a pointer", reflect.TypeFor[derived](), `{"$ref":"#/components/schemas/derived"}`,
		[]any{derived{}, derived{Shared: &Shared{}}}, []string{`{"id":"","name":""}`, `{"id":"","name":"","note":""}`},
		[]string{`{"id":""}`, `{"id":"","name":"","other":1}`}},
	{"two embedded of one name cancel out", reflect.TypeFor[clash](), `{"$ref":"#/components/schemas/clash"}`,
		[]any{clash{}}, []string{`{"ID":"","Note":""}`}, []string{`{"ID":"","Note":"","Name":""}`}},
	{"members of any name", reflect.TypeFor[open](), `{"$ref":"#/components/schemas/open"}`,
		[]any{open{Rest: map[string]any{"x": 1}}}, []string{`{"known":1,"more":[]}`}, []string{`{"more":1}`}},
	{"what JSON cannot hold", reflect.TypeFor[func()](), `false`, nil, nil, []string{`{}`, `1`, `null`}},
	{"a duration has no form", reflect.TypeFor[time.Duration](), `false`, nil, nil, []string{`5`, `"5s"`}},
	{"own schema", reflect.TypeFor[colour](), `{"type":"string","enum":["red","green"]}`, []any{colour("red")}, []string{`"green"`}, []string{`"blue"`}},
	{"pointer to own schema", reflect.TypeFor[*colour](), `{"anyOf":[{"type":"string","enum":["red","green"]},{"type":"null"}]}`,
		[]any{(*colour)(nil)}, []string{`"green"`, `null`}, []string{`"blue"`}},
}

var ownTypes = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[colour](): {Type: "string", Enum: []any{"red", "green"}},
}

func TestSchemasOfTypes(t *testing.T) {
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			s := mustSchemas(t, ownTypes)
			text := inPlace(s, tt.typ)
			if diff := cmp.Diff(generic(t, []byte(tt.schema)), generic(t, text)); diff != "" {
				t.Errorf("schema differs (-want +got):\n%s\n%s", diff, text)
			}
			document := documentOf(t, s, text)
			checkDocument(t, document)
			schema := compileIn(t, document, "/methods/0/params/0/schema")
			for _, v := range tt.values {
				written, err := encode(v)
				if err != nil {
					t.Fatal(err)
				}
				if !accepts(t, schema, string(written)) {
					t.Errorf("the schema refuses %s, which the codec writes", written)
				}
			}
			for _, good := range tt.good {
				if !accepts(t, schema, good) {
					t.Errorf("the schema refuses %s", good)
				}
				if err := json.Unmarshal([]byte(good), reflect.New(tt.typ).Interface(), json.RejectUnknownMembers(true)); err != nil {
					t.Errorf("the codec refuses %s, which fits the schema: %v", good, err)
				}
			}
			for _, bad := range tt.bad {
				if accepts(t, schema, bad) {
					t.Errorf("the schema takes %s", bad)
				}
			}
		})
	}
}

func mustSchemas(t *testing.T, types map[reflect.Type]*jsonschema.Schema) *schemas {
	t.Helper()
	s, err := newSchemas(types)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inPlace is like schemas.of, except that it expands the structs whose members are shown in the
// table.
func inPlace(s *schemas, t reflect.Type) jsonrpc.Raw {
	ref := s.of(t)
	if t == reflect.TypeFor[tags]() {
		return s.Components()["tags"]
	}
	return ref
}

// documentOf makes a document of one schema and those it refers to.
func documentOf(t *testing.T, s *schemas, schema jsonrpc.Raw) []byte {
	t.Helper()
	text, err := encode(&Document{
		OpenRPC:    Version13,
		Methods:    []Method{{Name: "m", Params: []ContentDescriptor{{Name: "p", Schema: schema}}}},
		Components: &Components{Schemas: s.Components()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestComponents(t *testing.T) {
	s := mustSchemas(t, nil)
	type node struct{ Other bool } // a second type with that name
	for _, typ := range []reflect.Type{reflect.TypeFor[forest](), reflect.TypeFor[derived](), nodeType, reflect.TypeFor[node]()} {
		s.of(typ)
		s.of(typ)
	}
	got := s.Components()
	want := map[string]string{
		"forest": `{"type":"array","items":{"$ref":"#/components/schemas/forest"}}`,
		"derived": `{"type":"object",
			"properties":{"id":{"type":"string"},"note":{"type":"string"},"name":{"type":"string","description":"hides both"}},
			"required":["id","name"],"additionalProperties":false}`,
		"node": `{"type":"object",
			"properties":{"value":{"type":"integer"},
				"next":{"anyOf":[{"$ref":"#/components/schemas/node"},{"type":"null"}],"description":"the one behind it"},
				"kids":{"type":"array","items":{"anyOf":[{"$ref":"#/components/schemas/node"},{"type":"null"}]}}},
			"required":["value"],"additionalProperties":false}`,
		"openrpc_node": `{"type":"object","properties":{"Other":{"type":"boolean"}},"required":["Other"],"additionalProperties":false}`,
	}
	if len(got) != len(want) {
		t.Errorf("got %d components, want %d: %s", len(got), len(want), got)
	}
	for name, schema := range want {
		if diff := cmp.Diff(generic(t, []byte(schema)), generic(t, got[name])); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
}

var nodeType = reflect.TypeFor[node]()

func TestDescriptionBesideReference(t *testing.T) {
	s := mustSchemas(t, nil)
	type holder struct {
		N node `json:"n" jsonschema:"not beside the $ref, where draft-07 ignores it"`
	}
	s.of(reflect.TypeFor[holder]())
	text := s.Components()["holder"]
	want := `{"type":"object","properties":{"n":{"description":"not beside the $ref, where draft-07 ignores it",
		"allOf":[{"$ref":"#/components/schemas/node"}]}},"required":["n"],"additionalProperties":false}`
	if diff := cmp.Diff(generic(t, []byte(want)), generic(t, text)); diff != "" {
		t.Errorf("schema differs (-want +got):\n%s", diff)
	}
}
