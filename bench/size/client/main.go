// Command client is a program for a small device: it calls one server over TCP, with the core, the
// byte stream and nothing else of parley.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	c := jsonrpc.NewConn(stream.New(conn, stream.Line, nil))
	c.Start(context.Background())
	defer c.Close()

	var difference int
	if err := c.Call(context.Background(), "subtract", []int{42, 23}, &difference); err != nil {
		return err
	}
	fmt.Println(difference)
	_, _ = os.Stdin.Read(make([]byte, 1)) // idle while it is measured
	return nil
}
