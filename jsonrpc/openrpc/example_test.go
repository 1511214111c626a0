package openrpc_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

type Operands struct {
	Minuend    int `json:"minuend" jsonschema:"what is taken from"`
	Subtrahend int `json:"subtrahend" jsonschema:"what is taken"`
}

// A service describes itself, and a generic client reads the description.
func Example() {
	mux := new(jsonrpc.Mux)
	mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in Operands) (int, error) {
		return in.Minuend - in.Subtrahend, nil
	}))
	mux.Add("sum", jsonrpc.Func(func(_ context.Context, in []float64) (sum float64, err error) {
		for _, n := range in {
			sum += n
		}
		return sum, nil
	}))

	d := openrpc.New(mux, openrpc.Info{Title: "Arithmetic", Version: "1.0.0"})
	d.Describe("subtract", openrpc.Doc{
		Summary:  "One number less another.",
		Examples: []openrpc.ExamplePairing{openrpc.Pair("by position", []any{42, 23}, 19)},
	})
	d.Register()

	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: mux}, nil)
	doc, err := openrpc.Discover(context.Background(), peer)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(doc.Info.Title, doc.Info.Version)
	for i := range doc.Methods {
		fmt.Println(doc.Signature(&doc.Methods[i]))
	}
	// Output:
	// Arithmetic 1.0.0
	// subtract(minuend: integer, subtrahend: integer) -> integer
	// sum(...values: number) -> number
}

func ExampleParse() {
	doc, err := openrpc.Parse([]byte(`{
		"openrpc": "1.2.6",
		"info": {"title": "Pets", "version": "1.0.0"},
		"methods": [{
			"name": "get_pet",
			"params": [{"$ref": "#/components/contentDescriptors/PetId"}],
			"result": {"name": "pet", "schema": {"$ref": "#/components/schemas/Pet"}}
		}],
		"components": {
			"contentDescriptors": {"PetId": {"name": "id", "required": true, "schema": {"type": "integer"}}},
			"schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}}
		}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, _ := doc.Method("get_pet")
	fmt.Println(doc.Signature(m))
	pet, err := doc.Resolve("#/components/schemas/Pet/properties/name")
	fmt.Println(string(pet), err)
	// Output:
	// get_pet(id: integer) -> Pet
	// {"type": "string"} <nil>
}

func ExampleDiscovery_JSON() {
	mux := new(jsonrpc.Mux)
	mux.Add("echo", jsonrpc.Func(func(_ context.Context, in jsonrpc.Raw) (jsonrpc.Raw, error) { return in, nil }))
	text, err := openrpc.New(mux, openrpc.Info{Title: "Echo", Version: "1"}).JSON()
	fmt.Println(string(text), err)
	// Output:
	// {"openrpc":"1.3.2","info":{"title":"Echo","version":"1"},"methods":[{"name":"echo","paramStructure":"either","params":[{"name":"params","schema":true,"x-variadic":true}],"result":{"name":"result","schema":true}}]} <nil>
}
