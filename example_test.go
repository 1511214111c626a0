package parley_test

import (
	"context"
	"fmt"
	"log"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// One handler is served on two transports, with a client of each.
func Example() {
	ctx := context.Background()
	var mux jsonrpc.Mux
	mux.Add("greet", jsonrpc.Func(func(_ context.Context, in struct{ Name string }) (string, error) {
		return "hello " + in.Name, nil
	}))
	listener := parley.Listener{Handler: &mux, Mode: mux.Mode}
	server, err := listener.Listen(ctx, target("http://127.0.0.1:0"), target("tcp://127.0.0.1:0"))
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()

	for _, t := range server.Targets() {
		client, err := new(parley.Dialer).Dial(ctx, t)
		if err != nil {
			log.Fatal(err)
		}
		greeting, err := jsonrpc.Call[string](ctx, client, "greet", map[string]string{"name": t.Scheme})
		fmt.Println(greeting, err)
		_ = client.Close()
	}
	fmt.Println(server.Close(), <-done)
	// Output:
	// hello http <nil>
	// hello tcp <nil>
	// <nil> <nil>
}

func target(text string) parley.Target {
	t, err := parley.ParseTarget(text)
	if err != nil {
		log.Fatal(err)
	}
	return t
}

// A program adds its own scheme to the table.
func ExampleSchemes() {
	schemes := parley.DefaultSchemes()
	schemes["loop"] = parley.Scheme{
		Dial: func(ctx context.Context, d *parley.Dialer, t parley.Target) (parley.Caller, error) {
			transport, err := loop(ctx, t.Address)
			if err != nil {
				return nil, err
			}
			return d.Converse(ctx, transport, t.Version), nil
		},
	}
	dialer := parley.Dialer{Schemes: schemes}
	client, err := dialer.Dial(context.Background(), target("loop://echo"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	said, err := jsonrpc.Call[string](context.Background(), client, "say", []string{"anybody there?"})
	fmt.Println(said, err)
	// Output: echo: anybody there? <nil>
}
