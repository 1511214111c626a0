package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// A client negotiates the protocol version, and which of MCP's HTTP transports the server supports.
func ExampleConnect() {
	s := mcp.NewServer(mcp.Implementation{Name: "calculator", Version: "1.0"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "add"}, func(_ context.Context, _ *mcp.Request, in struct {
		A int `json:"a"`
		B int `json:"b"`
	}) (int, error) {
		return in.A + in.B, nil
	})
	h := mcphttp.NewHandler(s, nil)
	web := httptest.NewServer(h)
	defer web.Close()
	defer h.Close()

	ctx := context.Background()
	c, err := mcphttp.Connect(ctx, web.URL, mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	if errors.Is(err, mcphttp.ErrUnauthorized) {
		fmt.Println("it wants a token")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	r, err := c.CallTool(ctx, "add", map[string]int{"a": 42, "b": 23}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Version(), r.Text())
	// Output: 2026-07-28 65
}
