// Command mount adds JSON-RPC to the routes of a program that already has an HTTP server.
//
//	$ go run ./examples/mount
//	POST /api/rpc: {"jsonrpc":"2.0","result":8,"id":1}
//	GET /about: a calculator
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

func add(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil }

func routes() http.Handler {
	var methods jsonrpc.Mux
	methods.Add("add", jsonrpc.Func(add))

	mux := http.NewServeMux()
	mux.Handle("/api/rpc", httprpc.Handler(&methods))
	mux.HandleFunc("GET /about", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a calculator") })
	return mux
}

func main() {
	// in production: http.Server, and access checks before all routes
	server := httptest.NewServer(routes())
	defer server.Close()

	show(server, "POST", "/api/rpc", `{"jsonrpc":"2.0","id":1,"method":"add","params":{"a":5,"b":3}}`)
	show(server, "GET", "/about", "")
}

// show makes one request and prints the response.
func show(server *httptest.Server, method, path, body string) {
	req, err := http.NewRequestWithContext(context.Background(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := server.Client().Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s: %s\n", method, path, text)
}
