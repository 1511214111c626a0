package complete_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/complete"
	"github.com/da1ed7bb/parley/playground/internal/outline"
)

// The member names of a method's params are offered while one is being typed.
func ExampleAt() {
	known := &outline.Description{Methods: []outline.Method{{
		Name: "greet", From: "client",
		Params: jsonrpc.Raw(`{"type":"object","properties":{"name":{"type":"string","description":"who is greeted"},"nation":{"type":"string"},"loud":{"type":"boolean"}}}`),
	}}}
	text := `{"method": "greet", "params": {"na`
	r := complete.At(context.Background(), complete.Request{Text: text, At: len(text)}, func() complete.Target {
		return complete.Target{Protocol: outline.ProtocolJSONRPC, Known: known}
	})
	fmt.Println("replace", text[r.From:r.To])
	for _, o := range r.Options {
		fmt.Printf("%s %s: %s, %s\n", o.Kind, o.Label, o.Insert, o.About)
	}
	// Output:
	// replace "na
	// member name: "name": "", string: who is greeted
	// member nation: "nation": "", string
}
