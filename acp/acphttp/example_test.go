package acphttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
)

// This example serves and calls the released binding.
func Example() {
	s := acp.NewServer(nil)
	defer s.Close()
	s.Add(acp.Agent{
		Manifest: acp.AgentManifest{Name: "echo", Description: "Repeats your message."},
		Run:      func(ctx context.Context, j *acp.Job) error { return j.Say(ctx, j.Text()) },
	})
	handler, err := acphttp.NewREST(s, nil)
	if err != nil {
		log.Fatal(err)
	}
	// in production: an http.Server with authentication middleware
	web := httptest.NewServer(handler)
	defer web.Close()

	client, err := acphttp.Dial(web.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	run, err := client.Stream(context.Background(), acp.RunCreateRequest{AgentName: "echo", Input: acp.Ask("Howdy!")}, func(e acp.Event) error {
		fmt.Println(e.Seq, e.Type)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Text())
	// Output:
	// 1 run.created
	// 2 run.in-progress
	// 3 message.created
	// 4 message.part
	// 5 message.completed
	// 6 run.completed
	// Howdy!
}
