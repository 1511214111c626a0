package a2aagent_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// An agent is served over A2A and called over it.
func Example() {
	greeter := &agent.Agent{Card: agent.Card{Name: "greeter", Description: "Greets."}, Run: func(ctx context.Context, r *agent.Run) error {
		return r.Say(ctx, "Hello, "+r.Text()+"!")
	}}
	server := a2a.NewServer(a2aagent.Card(&greeter.Card), a2aagent.New(greeter), nil)
	defer server.Close()
	here, there := inproc.Pipe(nil)
	go func() { _ = server.Serve(context.Background(), there) }()

	c := a2aagent.Client(a2a.Connect(context.Background(), here, nil), nil)
	defer c.Close()
	result, err := c.Run(context.Background(), &agent.Request{Input: agent.Prompt("Ada")}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State, result)
	// Output: completed Hello, Ada!
}
