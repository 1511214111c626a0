package stream_test

import (
	"fmt"
	"io"
	"net"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

func ExampleNew() {
	here, there := net.Pipe()
	go func() {
		_, _ = io.WriteString(there, "{\"jsonrpc\":\"2.0\",\"method\":\"hello\"}\r\n\n")
		_, _ = io.WriteString(there, "[1,2,3]") // the last line needs no newline
		_ = there.Close()
	}()

	t := stream.New(here, stream.Line, nil)
	defer t.Close()
	for {
		payload, _, err := t.Read()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", payload)
	}
	// Output:
	// {"jsonrpc":"2.0","method":"hello"}
	// [1,2,3]
	// EOF
}

// Language servers put a header before each payload.
func ExampleTransport_Write() {
	here, there := net.Pipe()
	go func() {
		t := stream.New(there, stream.Header, nil)
		defer t.Close()
		var burst jsonrpc.Burst
		burst.Add([]byte(`{"id":1}`))
		burst.Add([]byte(`{"id":2}`))
		_ = t.Write(burst)
	}()

	wire, _ := io.ReadAll(here)
	fmt.Printf("%q\n", wire)
	// Output:
	// "Content-Length: 8\r\n\r\n{\"id\":1}Content-Length: 8\r\n\r\n{\"id\":2}"
}
