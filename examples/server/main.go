// Command server is a JSON-RPC server in ten lines: one method, on any number of addresses.
//
//	$ go run ./examples/server :3000 unix:/tmp/greeter.sock &
//	$ go run ./cmd/parley call :3000/rpc greet name=Ada
//	"hello Ada"
//	$ echo '{"jsonrpc":"2.0","id":1,"method":"greet","params":["Ada"]}' | go run ./examples/server stdio:
//	{"jsonrpc":"2.0","result":"hello Ada","id":1}
package main

import (
	"context"
	"log"
	"os"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func greet(_ context.Context, in struct{ Name string }) (string, error) {
	return "hello " + in.Name, nil
}

func main() {
	var mux jsonrpc.Mux
	mux.Add("greet", jsonrpc.Func(greet))
	if err := parley.Serve(context.Background(), &mux, os.Args[1:]...); err != nil {
		log.Fatal(err)
	}
}
