package a2ahttp_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

// This example serves an agent over HTTP: JSON-RPC, REST and the card at one base URL.
func Example() {
	card := a2a.AgentCard{Name: "shouter", Description: "Says it louder.", Version: "1.0",
		SupportedInterfaces: a2ahttp.Interfaces("/", "/"),
		Capabilities:        a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "shout", Name: "Shout", Description: "Makes text louder.", Tags: []string{"text"}}}}
	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(strings.ToUpper(r.Message.Text()))}})
	}), nil)
	defer s.Close()
	web := httptest.NewServer(&a2ahttp.Server{A2A: s})
	defer web.Close()

	c, found, err := a2ahttp.Dial(context.Background(), web.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	got, err := c.Send(context.Background(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found.Name, "says", got.Task.Text(), "in", c.Version())
	// Output: shouter says HELLO in 1.0
}
