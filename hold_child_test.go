package parley

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/internal/x/heap"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// listenInChild listens, serves, and writes the address to stdout for startServer. It returns the
// exit code of the copy of the test program.
func listenInChild(l *Listener, at string) int {
	target, err := ParseTarget(at)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	s, err := l.Listen(context.Background(), target)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	fmt.Println(s.Targets()[0])
	if err := s.Serve(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

// serveHoldChild is the main function of the copy of the test program that serves all protocols
// over HTTP at an address.
func serveHoldChild(at string) int {
	heap.Bound() // as the command does
	tools := mcp.NewServer(mcp.Implementation{Name: "hold", Version: "1"}, nil)
	mcp.AddTool(tools, mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		_, err := r.Elicit(ctx, "q", &mcp.Elicitation{Message: strings.Repeat("x", 1<<10)})
		return "", err
	})
	long := strings.Repeat("x", 64<<10) // of all calls: it is not what a peer makes the server hold
	mcp.AddTool(tools, mcp.Tool{Name: "stream"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		for i := range 1000 {
			if err := r.Log(ctx, mcp.LevelError, "", map[string]any{"n": i, "text": long}); err != nil {
				return "", err
			}
		}
		return "", nil
	})
	mcp.AddTool(tools, mcp.Tool{Name: "task", Task: mcp.TaskOptional}, func(ctx context.Context, _ *mcp.Request, in struct {
		Text string `json:"text,omitzero"`
	}) (string, error) {
		if in.Text == "wait" {
			<-ctx.Done()
		}
		return in.Text, nil
	})
	agents := a2a.NewServer(a2a.AgentCard{Name: "hold", Capabilities: a2a.AgentCapabilities{Streaming: true}}, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		for { // its task stays open, and each message gets into its history
			if _, err := r.Ask(ctx, a2a.Text("?")); err != nil {
				return err
			}
		}
	}), nil)
	m := testMux(make(chan struct{}, 1))
	over := mcphttp.NewHandler(tools, &mcphttp.Options{Unguarded: true})
	return listenInChild(&Listener{Handler: m, Mode: m.Mode, Mounts: map[string]Mount{
		"/mcp": {Handler: over},
		"/a2a": {Handler: &a2ahttp.Server{A2A: agents, Unguarded: true}},
	}}, at)
}

// holdChild is the environment variable of that copy, with its address.
const holdChild = "PARLEY_TEST_HOLD_CHILD"
