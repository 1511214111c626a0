// Command acp serves an agent in the Agent Communication Protocol: over HTTP as REST and as
// JSON-RPC, or on its stdin and stdout.
//
//	$ go run ./examples/acp 127.0.0.1:8000 &
//	$ curl -s localhost:8000/agents/greeter
//	{"name":"greeter","description":"Asks for your name, and greets you word by word.",…}
//	$ echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | go run ./examples/acp
//	{"jsonrpc":"2.0","result":{},"id":1}
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
	"strings"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// greet is the agent: it asks for a name, and greets word by word.
func greet(ctx context.Context, j *acp.Job) error {
	name, err := j.Await(ctx, acp.UserMessage(acp.Text("What is your name?")))
	if err != nil {
		return err
	}
	for word := range strings.SplitAfterSeq("Hello "+name.Text()+", nice to meet you.", " ") {
		if err := j.Say(ctx, word); err != nil {
			return err
		}
	}
	return nil
}

func newServer() *acp.Server {
	s := acp.NewServer(nil)
	s.Add(acp.Agent{
		Manifest: acp.AgentManifest{Name: "greeter", Description: "Asks for your name, and greets you word by word."},
		Run:      greet,
	})
	return s
}

// routes returns the two bindings of one server: JSON-RPC at /rpc, REST at all other paths.
func routes(s *acp.Server) (http.Handler, error) {
	rest, err := acphttp.NewREST(s, nil)
	if err != nil {
		return nil, err
	}
	rpc, err := acphttp.NewRPC(s, nil)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/rpc", rpc)
	mux.Handle("/", rest)
	return mux, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	s := newServer()
	defer s.Close()
	if len(args) == 0 {
		return s.Serve(ctx, stdio.New(nil))
	}
	handler, err := routes(s)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "listening on", listener.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = web.Close() // the open streams have received the end of their runs
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
