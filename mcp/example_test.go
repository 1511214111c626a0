package mcp_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func Example() {
	s := mcp.NewServer(mcp.Implementation{Name: "calculator", Version: "1.0"}, nil)
	type operands struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	type sum struct {
		Sum float64 `json:"sum"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "calculator/add", Description: "Adds two numbers."},
		func(ctx context.Context, r *mcp.Request, in operands) (sum, error) {
			return sum{in.A + in.B}, nil
		})

	// Any transport will do: stdio, a Unix socket, WebSocket. This one stays in the process.
	here, there := inproc.Pipe(nil)
	served := make(chan error)
	go func() { served <- s.Serve(context.Background(), there) }()

	c, err := mcp.Connect(context.Background(), here, mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.CallTool(context.Background(), "calculator/add", operands{A: 42, B: 23}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Version(), result.Text())
	if err := c.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-served)
	// Output:
	// 2026-07-28 {"sum":65}
	// <nil>
}
