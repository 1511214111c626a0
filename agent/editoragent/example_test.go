package editoragent_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// An agent is served to an editor and called as a coding agent.
func Example() {
	greeter := &agent.Agent{Card: agent.Card{Name: "greeter", Description: "Greets."}, Run: func(ctx context.Context, r *agent.Run) error {
		return r.Say(ctx, "Hello, "+r.Text()+"!")
	}}
	here, there := inproc.Pipe(nil)
	go func() { _ = editoragent.New(greeter, nil).Serve(context.Background(), there) }()

	c, err := editoragent.Connect(context.Background(), here, &editoragent.ClientOptions{CWD: "/home/ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.Run(context.Background(), &agent.Request{Input: agent.Prompt("Ada")}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State, result)
	// Output: completed Hello, Ada!
}
