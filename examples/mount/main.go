// Command mount puts JSON-RPC beside other routes of a program that has an HTTP server already.
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
	server := httptest.NewServer(routes()) // in earnest: http.Server, and a look at who calls before all routes
	defer server.Close()

	answer, err := http.Post(server.URL+"/api/rpc", "application/json",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"add","params":{"a":5,"b":3}}`))
	if err != nil {
		log.Fatal(err)
	}
	show("POST /api/rpc", answer)
	if answer, err = http.Get(server.URL + "/about"); err != nil {
		log.Fatal(err)
	}
	show("GET /about", answer)
}

func show(what string, answer *http.Response) {
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", what, body)
}
