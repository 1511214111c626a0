// Command everything-server offers everything that the official MCP conformance suite tests: tools,
// resources and prompts with the names and texts that the suite prescribes, in all protocol
// versions at once.
//
//	everything-server -http 127.0.0.1:3000   /mcp, and /sse with /messages
//	everything-server -stdio
//
// With -http it prints its URLs as one line of JSON:
// {"mcp":"http://127.0.0.1:3000/mcp","sse":"http://127.0.0.1:3000/sse"}.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

func main() {
	address := flag.String("http", "", "listen on this address; /mcp is the endpoint, /sse the older pair")
	onPipes := flag.Bool("stdio", false, "serve standard input and output")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := newServer()
	defer server.Close()
	var err error
	switch {
	case *onPipes:
		err = server.Serve(ctx, stdio.New(nil))
	case *address != "":
		err = serveHTTP(ctx, server, *address)
	default:
		err = errors.New("say -http ADDR or -stdio")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "everything-server:", err)
		os.Exit(1) //nolint:gocritic // nothing remains to be closed
	}
}

func serveHTTP(ctx context.Context, server *mcp.Server, address string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	handler := mcphttp.NewHandler(server, &mcphttp.Options{
		Polling:      true,   // test_reconnection
		MaxPerCaller: 10_000, // all clients of a test use one address
	})
	pair := handler.Pair("/messages")
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/sse", pair)
	mux.Handle("/messages", pair)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	base := "http://" + listener.Addr().String()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"mcp": base + "/mcp", "sse": base + "/sse"}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	server.Close() // ends the clients that are listening
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return errors.Join(handler.Shutdown(last), web.Shutdown(last))
}
