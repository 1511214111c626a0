// Command transport implements its own transport: messages after their length in four bytes, over a
// pipe. Any connection that moves whole messages can transport JSON-RPC with three functions.
//
//	$ go run ./examples/transport
//	hello over four bytes and a message
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// maxMessage is the maximum size of a message, in bytes. A length sent by a peer must always be
// checked against a limit.
const maxMessage = 1 << 20

// prefixed returns a transport of messages after their length.
func prefixed(conn net.Conn) jsonrpc.Transport {
	return jsonrpc.Simple(
		func() ([]byte, error) { return receive(conn) },
		func(message []byte) error { return send(conn, message) },
		conn.Close, nil)
}

func receive(conn net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err // io.EOF between two messages is a regular end
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxMessage {
		return nil, &jsonrpc.FrameError{Answer: jsonrpc.ErrInvalidRequest, Final: true, Err: jsonrpc.ErrTooLarge}
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(conn, message); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return message, nil
}

func send(conn net.Conn, message []byte) error {
	_, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return err
}

func main() {
	ctx := context.Background()
	here, there := net.Pipe()

	var mux jsonrpc.Mux
	mux.Add("greet", jsonrpc.Func(func(_ context.Context, name string) (string, error) { return "hello over " + name, nil }))
	server := jsonrpc.NewConn(prefixed(there))
	server.Handler = &mux
	server.Start(ctx)
	defer server.Close()

	client := jsonrpc.NewConn(prefixed(here))
	client.Start(ctx)
	defer client.Close()
	greeting, err := jsonrpc.Call[string](ctx, client, "greet", []string{"four bytes and a message"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(greeting)
}
