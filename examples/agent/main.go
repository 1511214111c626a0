// Command agent serves one function in four protocols: over HTTP in ACP, A2A and MCP, and on its
// stdin and stdout in the Agent Client Protocol of code editors.
//
//	$ go run ./examples/agent 127.0.0.1:8000
//	{"a2a":"http://127.0.0.1:8000/a2a","acp":"http://127.0.0.1:8000/acp","mcp":"http://127.0.0.1:8000/mcp"}
//	$ echo '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}' | go run ./examples/agent
//	{"jsonrpc":"2.0","result":{"protocolVersion":1,…},"id":0}
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
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// routes returns a handler that serves the agent in the three protocols over HTTP. The returned
// function closes the servers.
func routes() (http.Handler, func(), error) {
	acpServer := acp.NewServer(nil)
	acpServer.Add(acpagent.New(packer))
	rest, err := acphttp.NewREST(acpServer, nil)
	if err != nil {
		return nil, nil, err
	}

	card := a2aagent.Card(&packer.Card)
	card.SupportedInterfaces = a2ahttp.Interfaces("/a2a", "/a2a", a2a.V10, a2a.V03)
	a2aServer := a2a.NewServer(card, a2aagent.New(packer), nil)
	a2aHandler := &a2ahttp.Server{A2A: a2aServer}

	mcpServer := mcp.NewServer(mcp.Implementation{Name: "packer", Version: "1.0"}, nil)
	tools := mcpagent.Add(mcpServer, packer)
	mcpHandler := mcphttp.NewHandler(mcpServer, nil)

	mux := http.NewServeMux()
	mux.Handle("/acp/", http.StripPrefix("/acp", rest))
	mux.Handle("/a2a/", http.StripPrefix("/a2a", a2aHandler))
	mux.Handle("/a2a", http.StripPrefix("/a2a", a2aHandler))
	mux.Handle(a2ahttp.CardPath, a2aHandler.Card())
	mux.Handle("/mcp", mcpHandler)
	return mux, func() {
		err := errors.Join(mcpHandler.Close(), acpServer.Close())
		tools.Close()
		mcpServer.Close()
		a2aServer.Close()
		if err != nil {
			log.Print(err)
		}
	}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) == 1 {
		err = editoragent.New(packer, nil).Serve(ctx, stdio.New(nil))
	} else {
		err = listen(ctx, os.Args[1])
	}
	if err != nil && ctx.Err() == nil {
		log.Print(err)
		os.Exit(1) //nolint:gocritic // stop has nothing to undo
	}
}

func listen(ctx context.Context, address string) error {
	handler, end, err := routes()
	if err != nil {
		return err
	}
	defer end()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("{\"a2a\":\"http://%[1]s/a2a\",\"acp\":\"http://%[1]s/acp\",\"mcp\":\"http://%[1]s/mcp\"}\n", l.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
