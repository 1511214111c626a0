package gateway_test

import (
	"context"
	"fmt"
	"log"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Two servers behind one address; the client knows only the address of the gateway.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	sum, greet := new(jsonrpc.Mux), new(jsonrpc.Mux)
	sum.Add("math.sum", jsonrpc.Func(func(_ context.Context, n []int) (int, error) { return n[0] + n[1], nil }))
	greet.Add("greet", jsonrpc.Func(func(_ context.Context, name []string) (string, error) { return "hello " + name[0], nil }))

	file := &config.File{
		Entries: []config.Entry{
			{Name: "math", Address: listen(ctx, &parley.Listener{Handler: sum}, "tcp://127.0.0.1:0")},
			{Name: "greeter", Address: listen(ctx, &parley.Listener{Handler: greet}, "http://127.0.0.1:0/rpc")},
		},
		Gateway: &config.Gateway{Routes: []config.Route{
			{Method: []string{"math.*"}, To: "math"},
			{Method: []string{"*"}, To: "greeter"},
		}},
	}
	g, err := gateway.New(&gateway.Options{File: file})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close(ctx)
	l := new(parley.Listener)
	g.Listener(l)

	client, err := parley.Dial(ctx, listen(ctx, l, "http://127.0.0.1:0/rpc"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var n int
	var text string
	items := []jsonrpc.Item{
		{Method: "math.sum", Params: []int{40, 2}, Result: &n},
		{Method: "greet", Params: []string{"Ada"}, Result: &text},
	}
	if err := client.Batch(ctx, items); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, text)
	// Output: 42 hello Ada
}

// listen serves with l until ctx ends, and returns the address.
func listen(ctx context.Context, l *parley.Listener, target string) string {
	t, err := parley.ParseTarget(target)
	if err != nil {
		log.Fatal(err)
	}
	s, err := l.Listen(ctx, t)
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = s.Run(ctx) }() // it ends with the example
	return s.Targets()[0].String()
}
