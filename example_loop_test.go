package parley_test

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// loop is the transport of ExampleSchemes: a server in this process that stops when its client
// closes the connection.
func loop(ctx context.Context, name string) (jsonrpc.Transport, error) {
	var mux jsonrpc.Mux
	mux.Add("say", jsonrpc.Func(func(_ context.Context, text string) (string, error) { return name + ": " + text, nil }))
	here, there := inproc.Pipe(nil)
	server := jsonrpc.NewConn(there)
	server.Handler = &mux
	server.Start(context.WithoutCancel(ctx))
	return here, nil
}
