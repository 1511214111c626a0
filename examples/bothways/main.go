// Command bothways uses one connection in both directions: the server reports progress while it
// works, and asks its caller a question before it returns.
//
//	$ go run ./examples/bothways
//	progress 50 %
//	progress 100 %
//	the server asks: sign it?
//	report of may, signed by Ada
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

type progress struct {
	Percent int `json:"percent"`
}

// write runs on the server, and sends messages to its caller.
func write(ctx context.Context, caller jsonrpc.Peer, in struct{ Month string }) (string, error) {
	for _, percent := range []int{50, 100} {
		if err := caller.Notify(ctx, "progress", progress{percent}); err != nil {
			return "", err
		}
	}
	name, err := jsonrpc.Call[string](ctx, caller, "sign", []string{"sign it?"})
	if err != nil {
		return "", err
	}
	return "report of " + in.Month + ", signed by " + name, nil
}

// clientMethods returns the client's methods, which the server calls and notifies.
func clientMethods() *jsonrpc.Mux {
	var mux jsonrpc.Mux
	mux.Add("progress", jsonrpc.Func(func(_ context.Context, in progress) (any, error) {
		fmt.Printf("progress %d %%\n", in.Percent)
		return nil, nil
	}))
	mux.Add("sign", jsonrpc.Func(func(_ context.Context, question string) (string, error) {
		fmt.Println("the server asks:", question)
		return "Ada", nil
	}))
	return &mux
}

func main() {
	ctx := context.Background()
	here, there := inproc.Pipe(nil)

	var mux jsonrpc.Mux
	mux.Add("write", jsonrpc.PeerFunc(write))
	server := jsonrpc.NewConn(there)
	server.Handler = &mux
	server.Start(ctx)
	defer server.Close()

	client := jsonrpc.NewConn(here)
	client.Handler = clientMethods()
	client.Start(ctx)
	defer client.Close()

	report, err := jsonrpc.Call[string](ctx, client, "write", []string{"may"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report)
}
