package main

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// days answers the agent's question.
func days(_ context.Context, q *agent.Question) (*agent.Answer, error) {
	fmt.Println(q.Text)
	return agent.Reply("3"), nil
}

// The same function, called through four protocols with equal results.
func Example() {
	ctx := context.Background()
	run := func(protocol string, c *agent.Client) {
		result, err := c.Run(ctx, &agent.Request{Agent: "packer", Input: agent.Prompt("socks, shirt")}, agent.Funcs{OnAsk: days})
		if err != nil {
			fmt.Println(protocol, err)
			return
		}
		fmt.Printf("%s: %q\n", protocol, result)
	}
	run("here", agent.Local(packer))

	server := acp.NewServer(nil)
	server.Add(acpagent.New(packer))
	defer server.Close()
	run("ACP", acpagent.Client(acp.Local(server, nil)))

	offer := mcp.NewServer(mcp.Implementation{Name: "packer", Version: "1.0"}, nil)
	tools := mcpagent.Add(offer, packer)
	defer tools.Close()
	c, err := mcpagent.Client(nil, func(o *mcp.ClientOptions) (*mcp.Client, error) {
		return mcp.ConnectLocal(ctx, offer, mcp.Implementation{Name: "example", Version: "1.0"}, o)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	run("MCP", c)

	here, there := inproc.Pipe(nil)
	go func() { _ = editoragent.New(packer, nil).Serve(ctx, there) }()
	e, err := editoragent.Connect(ctx, here, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	run("editor", e)
	// Output:
	// For how many days?
	// here: "3 × socks\n3 × shirt\n{\"days\":3,\"things\":2}"
	// For how many days?
	// ACP: "3 × socks\n3 × shirt\n{\"days\":3,\"things\":2}"
	// For how many days?
	// MCP: "3 × socks\n3 × shirt\n{\"days\":3,\"things\":2}"
	// For how many days?
	// editor: "3 × socks\n3 × shirt\n{\"days\":3,\"things\":2}"
}
