package schemaview_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// An example value has the required members, and those with a default.
func ExampleExample() {
	schema := jsonrpc.Raw(`{
		"type": "object",
		"required": ["restaurant", "guests"],
		"properties": {
			"restaurant": {"enum": ["Blue Door", "Zur Linde"]},
			"guests": {"type": "integer", "minimum": 1},
			"time": {"type": "string", "default": "21:00"},
			"wish": {"type": "string"}
		}
	}`)
	fmt.Println(string(schemaview.Example(schema)))
	// Output:
	// {"restaurant":"Blue Door","guests":1,"time":"21:00"}
}
