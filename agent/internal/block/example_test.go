package block_test

import (
	"fmt"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/internal/block"
)

// A JSON value becomes an embedded resource and is converted back by the receiver. Data that a
// block has no field for is in its _meta.
func Example() {
	b := block.Write("mcp", agent.Value(map[string]int{"n": 1}).Named("answer"))
	fmt.Println(b.Kind, b.URI, b.MIMEType, b.Text)
	fmt.Println(string(b.Meta[agent.MetaPart]))

	p := block.Read("mcp", &b)
	fmt.Println(p.Name, string(p.JSON))
	// Output:
	// resource parley:part/answer application/json {"n":1}
	// {"name":"answer","json":true}
	// answer {"n":1}
}
