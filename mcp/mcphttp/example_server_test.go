package mcphttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// One server at one address for clients of both eras, with the transport of the first version
// beside it.
func ExampleNewHandler() {
	s := mcp.NewServer(mcp.Implementation{Name: "calculator", Version: "1.0"}, nil)
	type operands struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "calculator/add", Description: "Adds two numbers."},
		func(_ context.Context, _ *mcp.Request, in operands) (string, error) {
			return fmt.Sprint(in.A + in.B), nil
		})

	h := mcphttp.NewHandler(s, nil)
	defer h.Close()
	pair := h.Pair("/messages")
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.Handle("/sse", pair)
	mux.Handle("/messages", pair)
	web := httptest.NewServer(mux) // http.ListenAndServe("127.0.0.1:3000", mux) in a program
	defer web.Close()

	for _, version := range []mcp.Version{mcp.V20260728, mcp.V20251125} {
		o := &mcphttp.ClientOptions{Client: mcp.ClientOptions{Versions: []mcp.Version{version}}}
		c, err := mcphttp.Connect(context.Background(), web.URL+"/mcp", mcp.Implementation{Name: "example", Version: "1.0"}, o)
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := c.CallTool(context.Background(), "calculator/add", operands{A: 42, B: 23}, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.Version(), result.Text(), h.Sessions())
		if err := c.Close(); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(h.Sessions())
	// Output:
	// 2026-07-28 65 0
	// 2025-11-25 65 1
	// 0
}
