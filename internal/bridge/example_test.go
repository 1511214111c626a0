package bridge_test

import (
	"context"
	"fmt"
	"log"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A client on TCP calls a server on HTTP.
func Example() {
	ctx := context.Background()
	var mux jsonrpc.Mux
	mux.Add("greet", jsonrpc.Func(func(_ context.Context, names []string) (string, error) { return "hello, " + names[0], nil }))
	server, endServer := serve(ctx, &parley.Listener{Handler: &mux, Mode: mux.Mode}, "http://127.0.0.1:0")
	defer endServer()

	b := bridge.New(bridge.Options{To: server, Report: func(what string, err error) { log.Print(what, ": ", err) }})
	address, endBridge := serve(ctx, &parley.Listener{Converse: b.Converse, Endpoint: b.Endpoint()}, "tcp://127.0.0.1:0")

	client, err := new(parley.Dialer).Dial(ctx, address)
	if err != nil {
		log.Fatal(err)
	}
	greeting, err := jsonrpc.Call[string](ctx, client, "greet", []string{"world"})
	fmt.Println(greeting, err)

	_ = client.Close()
	endBridge()
	fmt.Println(b.Close(), b.Servers())
	// Output:
	// hello, world <nil>
	// <nil> 0
}

// serve runs a listener until end is called.
func serve(ctx context.Context, l *parley.Listener, text string) (at parley.Target, end func()) {
	t, err := parley.ParseTarget(text)
	if err != nil {
		log.Fatal(err)
	}
	s, err := l.Listen(ctx, t)
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return s.Targets()[0], func() {
		_ = s.Close()
		<-done
	}
}
