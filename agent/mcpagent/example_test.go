package mcpagent_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/mcp"
)

// An agent is offered as a tool, and the tool is called as an agent.
func Example() {
	greeter := &agent.Agent{Card: agent.Card{Name: "greeter", Description: "Greets."}, Run: func(ctx context.Context, r *agent.Run) error {
		return r.Say(ctx, "Hello, "+r.Text()+"!")
	}}
	server := mcp.NewServer(mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	defer server.Close()
	tools := mcpagent.Add(server, greeter)
	defer tools.Close()

	c, err := mcpagent.Client(nil, func(o *mcp.ClientOptions) (*mcp.Client, error) {
		return mcp.ConnectLocal(context.Background(), server, mcp.Implementation{Name: "caller", Version: "1.0"}, o)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.Run(context.Background(), &agent.Request{Agent: "greeter", Input: agent.Prompt("Ada")}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State, result)
	// Output: completed Hello, Ada!
}
