package outline_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/playground/internal/outline"
)

// The method picker lists the notifications that a client of MCP may send.
func Example() {
	for _, m := range outline.Methods[outline.ProtocolMCP] {
		if m.Notification && m.From == "client" {
			fmt.Println(m.Name+":", m.Title)
		}
	}
	// Output:
	// notifications/initialized: initialization is complete
	// notifications/cancelled: cancel a request
	// notifications/roots/list_changed: the roots changed
}
