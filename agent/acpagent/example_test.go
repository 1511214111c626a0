package acpagent_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
)

// An agent is served over ACP and called over it.
func Example() {
	greeter := &agent.Agent{Card: agent.Card{Name: "greeter", Description: "Greets."}, Run: func(ctx context.Context, r *agent.Run) error {
		return r.Say(ctx, "Hello, "+r.Text()+"!")
	}}
	server := acp.NewServer(nil)
	server.Add(acpagent.New(greeter))
	defer server.Close()

	c := acpagent.Client(acp.Local(server, nil))
	result, err := c.Run(context.Background(), &agent.Request{Agent: "greeter", Input: agent.Prompt("Ada")}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State, result)
	// Output: completed Hello, Ada!
}
