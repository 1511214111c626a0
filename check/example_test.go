package check_test

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func ExampleCheck() {
	mux := new(jsonrpc.Mux)
	mux.Add("echo", jsonrpc.HandlerFunc(func(_ context.Context, r *jsonrpc.Request) (any, error) { return r.Params, nil }))
	ctx := context.Background()
	server, err := (&parley.Listener{Handler: mux}).Listen(ctx, parley.Target{Scheme: "tcp", Address: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(ctx) }() // until Close
	defer server.Close()
	report, err := check.Check(ctx, server.Targets()[0], &check.Options{Echo: "echo", Only: []string{"batch", "id"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Verdict, report.Counts.Fail)
	// Output: pass 0
}
