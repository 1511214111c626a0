package acp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func Example() {
	s := acp.NewServer(nil)
	defer s.Close()
	s.Add(acp.Agent{
		Manifest: acp.AgentManifest{Name: "echo", Description: "Repeats your message."},
		Run:      func(ctx context.Context, j *acp.Job) error { return j.Say(ctx, j.Text()) },
	})

	c := acp.Local(s, nil)
	defer c.Close()
	run, err := c.Run(context.Background(), acp.RunCreateRequest{AgentName: "echo", Input: acp.Ask("Howdy!")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Status, run.Text())
	// Output: completed Howdy!
}

// A run that asks a question is awaiting until it gets an answer. Its events are sent over a pipe
// here; any transport works.
func ExampleClient_Stream() {
	s := acp.NewServer(nil)
	defer s.Close()
	s.Add(acp.Agent{
		Manifest: acp.AgentManifest{Name: "greeter", Description: "Greets you by name."},
		Run: func(ctx context.Context, j *acp.Job) error {
			name, err := j.Await(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("Your name?")}})
			if err != nil {
				return err
			}
			return j.Say(ctx, "Hello "+name.Text())
		},
	})
	here, there := inproc.Pipe(nil)
	go func() { _ = s.Serve(context.Background(), there) }()

	ctx := context.Background()
	c := acp.Connect(ctx, here, nil)
	defer c.Close()
	show := func(e acp.Event) error {
		fmt.Println(e.Seq, e.Type)
		return nil
	}
	run, err := c.Stream(ctx, acp.RunCreateRequest{AgentName: "greeter", Input: acp.Ask("hi")}, show)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.AwaitRequest.Message.Text())
	run, err = c.ResumeStream(ctx, run.ID, acp.Answer(acp.Text("Ada")), show)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Text())
	// Output:
	// 1 run.created
	// 2 run.in-progress
	// 3 run.awaiting
	// Your name?
	// 4 run.in-progress
	// 5 message.created
	// 6 message.part
	// 7 message.completed
	// 8 run.completed
	// Hello Ada
}
