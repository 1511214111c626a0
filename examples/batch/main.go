// Command batch sends three calls and a notification in one array, and reads each result by its
// index.
//
//	$ go run ./examples/batch
//	sum: 7
//	subtract: 19
//	nope: Method not found (-32601)
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func main() {
	ctx := context.Background()
	here, there := inproc.Pipe(nil)
	server := jsonrpc.NewConn(there)
	server.Handler = demo.New("example").Handler()
	server.Start(ctx)
	defer server.Close()
	client := jsonrpc.NewConn(here)
	client.Start(ctx)
	defer client.Close()

	var sum, difference int
	items := []jsonrpc.Item{
		{Method: "sum", Params: []int{1, 2, 4}, Result: &sum},
		{Method: "subtract", Params: map[string]int{"minuend": 42, "subtrahend": 23}, Result: &difference},
		{Method: "nope"},
		{Method: "notify_hello", Params: []int{7}, Notify: true},
	}
	if err := client.Batch(ctx, items); err != nil {
		log.Fatal(err)
	}
	fmt.Println("sum:", sum)
	fmt.Println("subtract:", difference)
	fmt.Println("nope:", items[2].Err)
}
