package openrpc

import (
	"context"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name, method string
		doc          Doc
		want         string // contained in the error; "" for no error
	}{
		{"fits", "subtract", Doc{Examples: []ExamplePairing{Pair("x", []any{1, 2}, 3)}}, ""},
		{"any number of values", "sum", Doc{Examples: []ExamplePairing{Pair("x", []any{1, 2.5, 3}, 3), Pair("none", nil, 0)}}, ""},
		{"named schemas", "mixed", Doc{Examples: []ExamplePairing{Pair("x", []any{"q", 1, node{Next: &node{}}}, node{})}}, ""},
		{"optional ones left out", "mixed", Doc{Examples: []ExamplePairing{Pair("x", []any{"q"}, nil)}}, ""},
		{"a notification has no result", "sum", Doc{Notification: true, Examples: []ExamplePairing{{Name: "x"}}}, ""},
		{"no method", "typo", Doc{}, `"typo" has a description, but is not a method`},
		{"too many", "subtract", Doc{Examples: []ExamplePairing{Pair("x", []any{1, 2, 3}, 3)}}, "it has 3 params; the method takes at most 2"},
		{"too few", "subtract", Doc{Examples: []ExamplePairing{Pair("x", []any{1}, 3)}}, `param "subtrahend" is missing`},
		{"wrong type", "subtract", Doc{Examples: []ExamplePairing{Pair("x", []any{1, "2"}, 3)}}, `param "subtrahend": `},
		{"wrong in a named schema", "mixed", Doc{Examples: []ExamplePairing{Pair("x", []any{"q", 1, map[string]any{"value": "1"}}, nil)}}, `param "after": `},
		{"wrong result", "subtract", Doc{Examples: []ExamplePairing{Pair("x", []any{1, 2}, "3")}}, "result: "},
		{"a code twice", "subtract", Doc{Errors: []*jsonrpc.Error{jsonrpc.NewError(1, "a"), jsonrpc.NewError(1, "b")}}, "duplicate error code 1"},
	}
	for _, tt := range tests {
		d := New(zoo(), Info{})
		d.Describe(tt.method, tt.doc)
		err := d.Check()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: Check = %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

func TestCheckJoins(t *testing.T) {
	mux := new(jsonrpc.Mux)
	mux.Add("m", jsonrpc.Func(func(context.Context, struct{}) (int, error) { return 1, nil }))
	d := New(mux, Info{})
	d.Describe("a", Doc{})
	d.Describe("b", Doc{})
	d.Describe("m", Doc{Examples: []ExamplePairing{Pair("x", []any{1}, 1), Pair("y", nil, "no")}})
	if err := d.Check(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("Check = %v, want four lines", err)
	}
}
