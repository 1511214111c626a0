package openrpc

import (
	"strings"
	"testing"
)

func TestSignatures(t *testing.T) {
	want := map[string][]string{
		"1.0-positions.json": {
			"chain_getBlock(hash: string, full: boolean) -> Block | null",
			"chain_logs(filter?: {from?: string, to?: string}) -> Log[]",
		},
		"1.2-pets.json": {
			"list_pets(limit?: integer) -> Pet[]",
			"get_pet(petId: Id) -> Pet",
		},
		"1.3-extensions.json": {
			`log(text: any, level?: "debug" | "info" | null | 3)`,
			"sum(...values: number) -> number | null",
		},
		"1.4-newer.json": {
			`ping() -> "pong"`,
			"echo() -> any",
		},
	}
	for name, text := range documents(t) {
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(want[name]) != len(d.Methods) {
			t.Errorf("%s has %d methods and %d wanted signatures", name, len(d.Methods), len(want[name]))
			continue
		}
		for i := range d.Methods {
			if got := d.Signature(&d.Methods[i]); got != want[name][i] {
				t.Errorf("%s: got  %s\nwant %s", name, got, want[name][i])
			}
		}
	}
}

func TestSignatureOfSchemas(t *testing.T) {
	tests := []struct{ schema, want string }{
		{``, "any"},
		{`true`, "any"},
		{`false`, "never"},
		{`{}`, "any"},
		{`17`, "any"},
		{`{"type":"integer","minimum":0}`, "integer"},
		{`{"type":["string","null"]}`, "string | null"},
		{`{"type":"array"}`, "any[]"},
		{`{"type":"array","items":[{"type":"string"}]}`, "any[]"},
		{`{"type":"array","items":{"type":["string","null"]}}`, "(string | null)[]"},
		{`{"items":{"type":"number"}}`, "number[]"},
		{`{"type":"object"}`, "object"},
		{`{"type":"object","additionalProperties":{"type":"number"}}`, "{[name]: number}"},
		{`{"type":"object","title":"Point","properties":{"x":{}}}`, "Point"},
		{`{"properties":{"y":{"type":"number"},"x":{"type":"number"}},"required":["x"]}`, "{x: number, y?: number}"},
		{`{"properties":{"a":{"properties":{"b":{"properties":{"c":{}}}}}}}`, "{a?: {b?: object}}"},
		{`{"const":{"a":1}}`, "object"},
		{`{"enum":["a\u001b[31m",1,null,[1]]}`, `"a\x1b[31m" | 1 | null | array`},
		{`{"enum":[1,2,3,4,5,6,7,8,9]}`, "1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | …"},
		{`{"anyOf":[{"$ref":"#/components/schemas/A"},{"type":"null"}]}`, "A | null"},
		{`{"oneOf":[{"type":"string"},{"type":"string","format":"uri"}]}`, "string"},
		{`{"allOf":[{"$ref":"https://example.com/schema.json#/definitions/User"}],"description":"who"}`, "User"},
		{`{"$ref":"https://example.com/schema.json"}`, "schema.json"},
		{`{"$ref":"#/components/schemas/a~1b%20c"}`, `"a/b c"`},
		{`{"type":7}`, "any"},
		{`{"type":"evil\nname"}`, `"evil\nname"`},
		{`{"type":["a","b","c","d","e","f","g","h","i"]}`, "any"},
		{`{"anyOf":[{"anyOf":[{"anyOf":[{"anyOf":[{"anyOf":[{"type":"string"}]}]}]}]}]}`, "any"},
		{`{"required":true,"type":"string"}`, "string"},
	}
	for _, tt := range tests {
		m := &Method{Name: "m", Params: []ContentDescriptor{{Name: "p", Required: true, Schema: []byte(tt.schema)}}}
		if got, want := m.Signature(), "m(p: "+tt.want+")"; got != want {
			t.Errorf("schema %s\ngot  %s\nwant %s", tt.schema, got, want)
		}
	}
}

func TestSignatureIsSafe(t *testing.T) {
	long := strings.Repeat("n", 1000)
	tests := []struct {
		name   string
		method Method
		want   string
	}{
		{"control characters", Method{Name: "a\x1b[2Jb"}, `"a\x1b[2Jb"()`},
		{"text that runs the other way", Method{Name: "a\u202eb"}, `"a\u202eb"()`},
		{"no name", Method{}, `""()`},
		{"punctuation of ours", Method{Name: "f() -> x"}, `"f() -> x"()`},
		{"usual names stay", Method{Name: "$/cancel.Request_2@v1:größe-x"}, `$/cancel.Request_2@v1:größe-x()`},
		{"long name", Method{Name: long}, strings.Repeat("n", maxName) + "…()"},
		{"long name in a reference", Method{Params: []ContentDescriptor{{Name: "p", Schema: []byte(`{"$ref":"#/` + long + `"}`)}}},
			`""(p?: ` + strings.Repeat("n", maxName) + "…)"},
		{"bad UTF-8", Method{Name: "a\xff"}, `"a\xff"()`},
		{"a reference without its document", Method{Ref: "#/components/x/run"}, "run()"},
	}
	for _, tt := range tests {
		if got := tt.method.Signature(); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
	many := Method{Name: "many", Params: make([]ContentDescriptor, 100_000)}
	if got := many.Signature(); len(got) > 2000 || !strings.HasSuffix(got, ", …)") {
		t.Errorf("a method of 100,000 parameters has a signature of %d bytes that ends in %q", len(got), got[len(got)-10:])
	}
}
