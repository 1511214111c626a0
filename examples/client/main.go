// Command client is a JSON-RPC client in ten lines. Its argument is the address of "parley demo" or
// of a similar server.
//
//	$ go run ./examples/client tcp://127.0.0.1:3001
//	42 - 23 = 19
//	nope: Method not found (-32601)
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func main() {
	ctx := context.Background()
	client, err := parley.Dial(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	difference, err := jsonrpc.Call[int](ctx, client, "subtract", []int{42, 23})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("42 - 23 =", difference)
	if _, err := jsonrpc.Call[string](ctx, client, "nope", nil); err != nil {
		fmt.Println("nope:", err)
	}
}
