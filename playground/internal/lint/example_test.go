package lint_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/lint"
	"github.com/da1ed7bb/parley/playground/internal/outline"
)

// A request has a param of the wrong type.
func ExampleCheck() {
	known := &outline.Description{Methods: []outline.Method{{
		Name: "greet", From: "client",
		Params: jsonrpc.Raw(`{"type":"object","x-order":["name"],"properties":{"name":{"type":"string"}}}`),
	}}}
	text := `{"jsonrpc":"2.0","id":1,"method":"greet","params":{"name":7}}`
	kind, marks := lint.Check([]byte(text), known, outline.ProtocolJSONRPC)
	fmt.Println(kind)
	for _, m := range marks {
		fmt.Println(m.Level, m.Pointer, text[m.From:m.To])
		fmt.Println(m.Text)
		fmt.Println(m.Answer)
	}
	// Output:
	// request
	// doubt /params/name 7
	// /params/name is an integer, but must be a string.
	// A conforming server responds with -32602 (Invalid params).
}
