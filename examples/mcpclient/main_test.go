package main

import (
	"net/http/httptest"
	"os"

	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

func Example() {
	tools := demo.NewMCP("test", nil)
	defer tools.Close()
	handler := mcphttp.NewHandler(tools.Server, nil)
	server := httptest.NewServer(handler)
	defer server.Close()
	defer handler.Close()

	os.Args = []string{"mcpclient", server.URL + "/mcp"}
	main()
	// Output:
	// It can calculate in 4 ways.
	// false {"result":65,"exact":true}
	// 1 of 3: looking for a table
	// 2 of 3: 19:30 is full, asking
	// It asks: 19:30 is full. Two later tables are free for 4. Which one?
	// 1 of 3: looking for a table
	// 2 of 3: 19:30 is full, asking
	// 3 of 3: booked
	// Zur Linde, 4 guests, 20:15, garden.
}
