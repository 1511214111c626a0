package openrpc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestResolve(t *testing.T) {
	d, err := Parse(documents(t)["1.2-pets.json"])
	if err != nil {
		t.Fatal(err)
	}
	d.Components.Schemas["a/b c~d"] = jsonrpc.Raw(`"odd name"`)
	d.Components.Schemas["hop"] = jsonrpc.Raw(`{"$ref":"#/components/schemas/Id"}`)
	d.Components.Schemas["A"] = jsonrpc.Raw(`{"$ref":"#/components/schemas/B"}`)
	d.Components.Schemas["B"] = jsonrpc.Raw(`{"$ref":"#/components/schemas/A"}`)
	tests := []struct {
		ref, want string // "" for an error
	}{
		{"#/components/schemas/Id", `{"type":"integer","minimum":0}`},
		{"#/components/schemas/Pet/properties/name", `{"type":"string"}`},
		{"#/components/schemas/Pet/required/1", `"name"`},
		{"#/components/schemas/Pet/properties/id", `{"type":"integer","minimum":0}`},
		{"#/components/schemas/hop", `{"type":"integer","minimum":0}`},
		{"#/components/schemas/a~1b%20c~0d", `"odd name"`},
		{"#/components/contentDescriptors/PetId/name", `"petId"`},
		{"#/methods/1/name", `"get_pet"`},
		{"#/methods/0/params/0/schema/minimum", `1`},
		{"#/components/schemas/A", ""},
		{"#/components/schemas/Missing", ""},
		{"#/components/schemas/Pet/required/9", ""},
		{"#/components/schemas/Pet/required/-1", ""},
		{"#/components/schemas/Id/type/deeper", ""},
		{"#/methods/x", ""},
		{"#components", ""},
		{"#/%zz", ""},
		{"https://example.com/schema.json", ""},
		{"file:///etc/passwd", ""},
		{"other.json#/a", ""},
		{"", ""},
	}
	for _, tt := range tests {
		got, err := d.Resolve(tt.ref)
		if tt.want == "" {
			if !errors.Is(err, ErrReference) {
				t.Errorf("Resolve(%q) = %s, %v, want ErrReference", tt.ref, got, err)
			}
			continue
		}
		if err != nil || cmp.Diff(generic(t, []byte(tt.want)), generic(t, got)) != "" {
			t.Errorf("Resolve(%q) = %s, %v, want %s", tt.ref, got, err, tt.want)
		}
	}
	if whole, err := d.Resolve("#"); err != nil || !strings.Contains(string(whole), `"openrpc":"1.2.6"`) {
		t.Errorf("Resolve(#) = %.60s, %v, want the document", whole, err)
	}
}

func TestParamsAndResult(t *testing.T) {
	d, err := Parse(documents(t)["1.0-positions.json"])
	if err != nil {
		t.Fatal(err)
	}
	m, ok := d.Method("chain_getBlock")
	if !ok {
		t.Fatal("no chain_getBlock")
	}
	m.Params = append(m.Params, ContentDescriptor{Ref: "#/components/contentDescriptors/Nowhere"})
	var names []string
	for _, p := range d.Params(m) {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"hash", "full", "Nowhere"}, names); diff != "" {
		t.Errorf("parameters differ (-want +got):\n%s", diff)
	}
	if r, ok := d.Result(m); !ok || r.Name != "block" {
		t.Errorf("Result = %v, %v, want block", r, ok)
	}
	if _, ok := d.Result(&Method{Name: "notification"}); ok {
		t.Error("a method without result has one")
	}
	if m, ok := d.Method("chain_none"); ok {
		t.Errorf("Method(chain_none) = %v", m)
	}
}
