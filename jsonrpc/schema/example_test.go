package schema_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

func Example() {
	type order struct {
		Guests int      `json:"guests" jsonschema:"at the table"`
		Extras []string `json:"extras,omitzero"`
	}
	var g schema.Generator
	text, err := g.Of(reflect.TypeFor[order]())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.ReplaceAll(string(text), `,"`, `,`+"\n\""))

	s, err := schema.Compile(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = s.Validate(context.Background(), []byte(`{"extras":["bread",1]}`))
	if invalid, ok := errors.AsType[*schema.InvalidError](err); ok {
		for _, p := range invalid.Problems {
			fmt.Println(p)
		}
	}
	// Output:
	// {"type":"object",
	// "properties":{"guests":{"type":"integer",
	// "description":"at the table"},
	// "extras":{"type":"array",
	// "items":{"type":"string"}}},
	// "required":["guests"],
	// "additionalProperties":false}
	// at /guests: is required
	// at /extras/1: must be a string, not a number
}
