// Command a2a serves an agent in the Agent2Agent protocol: over HTTP with its card, JSON-RPC, REST
// and WebSocket, or on its stdin and stdout.
//
//	$ go run ./examples/a2a 127.0.0.1:9000 &
//	$ curl -s localhost:9000/tasks
//	{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}
//	$ echo '{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}' | go run ./examples/a2a
//	{"jsonrpc":"2.0","result":{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0},"id":1}
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// plan is the agent: it asks one question, and sends its plan line by line.
func plan(ctx context.Context, r *a2a.Run) error {
	days, err := r.Ask(ctx, a2a.Text("For how many days?"))
	if err != nil {
		return err
	}
	if err := r.Working(ctx, a2a.Text("Looking at the map")); err != nil {
		return err
	}
	lines := []string{"A trip to " + r.Message.Text() + ", " + days.Text() + " days:\n", "go there,\n", "come back.\n"}
	for i, line := range lines {
		piece := a2a.Artifact{ArtifactID: "plan", Name: "Plan", Parts: []a2a.Part{a2a.Text(line)}}
		if err := r.Chunk(ctx, piece, i > 0, i == len(lines)-1); err != nil {
			return err
		}
	}
	return nil
}

func newServer() *a2a.Server {
	return a2a.NewServer(a2a.AgentCard{
		Name: "planner", Description: "Plans a trip.", Version: "1.0",
		SupportedInterfaces: a2ahttp.Interfaces("/", "/"),
		Capabilities:        a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:   []string{"text/plain"},
		DefaultOutputModes:  []string{"text/plain"},
		Skills:              []a2a.AgentSkill{{ID: "plan", Name: "Plan a trip", Description: "Says where to go.", Tags: []string{"travel"}}},
	}, a2a.AgentFunc(plan), nil)
}

// routes serves the agent at the root, and a WebSocket at /ws.
func routes(h *a2ahttp.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/ws", h.WebSocket())
	return mux
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := newServer()
	defer s.Close()
	var err error
	if len(os.Args) > 1 {
		err = listen(ctx, s, os.Args[1])
	} else {
		err = s.Serve(ctx, stdio.New(nil))
	}
	if err != nil {
		log.Print(err)
	}
}

func listen(ctx context.Context, s *a2a.Server, address string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("serving http://%s\n", l.Addr())
	h := &a2ahttp.Server{A2A: s}
	web := &http.Server{Handler: routes(h), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = h.Drain(grace) // this closes the remaining streams
		_ = web.Shutdown(grace)
	}()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
