package main

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
)

// The client in this example is the same for JSON-RPC, over any transport.
func Example() {
	s := newServer()
	defer s.Close()
	handler, err := routes(s)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()

	ctx := context.Background()
	client, err := acphttp.Dial(web.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	run, err := client.Run(ctx, acp.RunCreateRequest{AgentName: "greeter", Input: acp.Ask("Good morning")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Status+":", run.AwaitRequest.Message.Text())
	run, err = client.ResumeStream(ctx, run.ID, acp.Answer(acp.Text("Ada")), func(e acp.Event) error {
		if e.Part != nil {
			fmt.Print("[", e.Part.Content, "]")
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n%s: %s\n", run.Status, run.Text())
	// Output:
	// awaiting: What is your name?
	// [Hello ][Ada, ][nice ][to ][meet ][you.]
	// completed: Hello Ada, nice to meet you.
}
