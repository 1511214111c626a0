package imports_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/capture/imports"
)

// Read the history of the MCP Inspector.
func Example() {
	recording, err := imports.Read([]byte(`[{
		"timestamp": "2026-11-20T12:00:01Z", "direction": "request", "duration": 4.5,
		"message": {"jsonrpc": "2.0", "id": 1, "method": "ping"}, "response": {"jsonrpc": "2.0", "id": 1, "result": {}}
	}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(recording.Format)
	for _, e := range recording.Events {
		if e.Data != nil {
			fmt.Println(e.Dir, string(e.Data))
		}
	}
	// Output:
	// MCP Inspector
	// out {"jsonrpc":"2.0","id":1,"method":"ping"}
	// in {"jsonrpc":"2.0","id":1,"result":{}}
}
