// Package a2a_test tests our A2A programs with those of other projects: the official SDKs for
// JavaScript and Go, each as a client of our server and as a server for our client, in both
// versions. The defects that they revealed are covered by wire bytes in the tests of packages a2a
// and a2ahttp.
package a2a_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

// answer is the agent that all clients call. The message selects its behaviour.
func answer(ctx context.Context, r *a2a.Run) error {
	words := r.Message.Text()
	switch words {
	case "say":
		return r.Reply(ctx, a2a.Text("Hi!"))
	case "fail":
		return a2a.Fail("It did not work.")
	}
	if err := r.Working(ctx); err != nil {
		return err
	}
	first := "echo: "
	switch words {
	case "ask":
		m, err := r.Ask(ctx, a2a.Text("Which one?"))
		if err != nil {
			return err
		}
		first, words = "You said: ", m.Text()
	case "wait":
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a1", Name: "result", Parts: []a2a.Part{a2a.Text(first)}}, false, false); err != nil {
		return err
	}
	return r.Chunk(ctx, a2a.Artifact{ArtifactID: "a1", Parts: []a2a.Part{a2a.Text(words)}}, true, true)
}

// ours starts our server on loopback and returns its address.
func ours(t *testing.T) string {
	t.Helper()
	pusher := &a2ahttp.Pusher{Loopback: true}
	card := a2a.AgentCard{Name: "parley interop", Description: "Says it again.", Version: "1",
		SupportedInterfaces: a2ahttp.Interfaces("/rpc", "/rest"),
		Capabilities:        a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "echo", Name: "Echo", Description: "Says it again.", Tags: []string{"test"}}}}
	s := a2a.NewServer(card, a2a.AgentFunc(answer), &a2a.ServerOptions{Push: pusher,
		ExtendedCard: func(context.Context, a2a.Service) (*a2a.AgentCard, error) {
			known := card
			known.Name += " (known)"
			known.SupportedInterfaces = []a2a.AgentInterface{}
			return &known, nil
		},
		Report: func(what string, err error) { t.Log(what, err) }})
	h := &a2ahttp.Server{A2A: s}
	mux := newMux(h)
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		s.Close()
		pusher.Close()
	})
	return web.URL
}
