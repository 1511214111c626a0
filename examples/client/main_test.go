package main

import (
	"context"
	"fmt"
	"os"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
)

func Example() {
	target, err := parley.ParseTarget("tcp://127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	listener := parley.Listener{Handler: demo.New("test").Handler()}
	server, err := listener.Listen(context.Background(), target)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(context.Background()) }()
	os.Args = []string{"client", server.Targets()[0].String()}
	main()
	if err := server.Close(); err != nil {
		fmt.Println(err)
	}
	if err := <-done; err != nil {
		fmt.Println(err)
	}
	// Output:
	// 42 - 23 = 19
	// nope: Method not found (-32601)
}
