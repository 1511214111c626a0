package a2a_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func card() a2a.AgentCard {
	return a2a.AgentCard{Name: "test", Description: "An agent for tests.", Version: "1.0",
		SupportedInterfaces: []a2a.AgentInterface{
			{URL: "http://127.0.0.1/a2a", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"},
			{URL: "http://127.0.0.1/a2a", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "0.3"},
		},
		Capabilities:       a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills:             []a2a.AgentSkill{{ID: "echo", Name: "Echo", Description: "Says it again.", Tags: []string{"test"}}}}
}

func echo(ctx context.Context, r *a2a.Run) error {
	return r.Artifact(ctx, a2a.Artifact{Name: "echo", Parts: []a2a.Part{a2a.Text(r.Message.Text())}})
}

// connect serves s to one client in memory, and checks all messages against the schemas.
func connect(t testing.TB, s *a2a.Server, o *a2a.ClientOptions) *a2a.Client {
	t.Helper()
	here, there := inproc.Pipe(nil)
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), there) }()
	c := a2a.Connect(context.Background(), &tap{Transport: here, t: t, methods: map[string]string{}}, o)
	t.Cleanup(func() {
		_ = c.Close()
		// The client disconnected while the server wrote.
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve = %v", err)
		}
		s.Close()
	})
	return c
}

func text(s string) *a2a.SendRequest { return &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text(s))} }
