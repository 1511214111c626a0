package main

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

// The client in this example is the same for every agent, whatever its protocol version.
func Example() {
	s := newServer()
	defer s.Close()
	web := httptest.NewServer(routes(&a2ahttp.Server{A2A: s}))
	defer web.Close()

	ctx := context.Background()
	client, card, err := a2ahttp.Dial(ctx, web.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(card.Name+":", card.Skills[0].Description)

	asked, err := client.Send(ctx, &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("Lisbon"))})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(asked.Task.Status.State, asked.Task.Status.Message.Text())

	answer := a2a.UserMessage(a2a.Text("3"))
	answer.TaskID = asked.Task.ID
	task := *asked.Task
	for event, err := range client.Stream(ctx, &a2a.SendRequest{Message: answer}) {
		if err != nil {
			log.Fatal(err)
		}
		task.Apply(event)
		if event.Artifact != nil {
			fmt.Print(a2a.TextOf(event.Artifact.Artifact.Parts))
		}
	}
	fmt.Println(task.Status.State)
	// Output:
	// planner: Says where to go.
	// TASK_STATE_INPUT_REQUIRED For how many days?
	// A trip to Lisbon, 3 days:
	// go there,
	// come back.
	// TASK_STATE_COMPLETED
}
