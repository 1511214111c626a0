// Command transport brings a carrier of its own: messages behind their length in four bytes, over a pipe.
// Whatever moves whole messages can carry JSON-RPC with these three methods.
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

// maxMessage bounds a message, in bytes. A length from a peer is never believed without one.
const maxMessage = 1 << 20

// prefixed is a jsonrpc.Transport.
type prefixed struct{ conn net.Conn }

// Read returns the next message. Its second result may say that another whole one is here already, which saves system
// calls; false is always true enough.
func (p prefixed) Read() (payload []byte, more bool, err error) {
	var length [4]byte
	if _, err := io.ReadFull(p.conn, length[:]); err != nil {
		return nil, false, err // io.EOF between two messages is a clean end
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxMessage {
		return nil, false, &jsonrpc.FrameError{Answer: jsonrpc.ErrInvalidRequest, Final: true, Err: jsonrpc.ErrTooLarge}
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(p.conn, payload); err != nil {
		return nil, false, io.ErrUnexpectedEOF
	}
	return payload, false, nil
}

// Write sends all messages of the burst in one go.
// TryWrite may always leave it to Write.
func (p prefixed) TryWrite(jsonrpc.Burst) bool { return false }

func (p prefixed) Write(b jsonrpc.Burst) error {
	var out []byte
	for payload := range b.All() {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(payload))), payload...)
	}
	_, err := p.conn.Write(out)
	return err
}

func (p prefixed) Close() error { return p.conn.Close() }

func main() {
	ctx := context.Background()
	here, there := net.Pipe()

	var mux jsonrpc.Mux
	mux.Add("greet", jsonrpc.Func(func(_ context.Context, name string) (string, error) { return "hello over " + name, nil }))
	server := jsonrpc.NewConn(prefixed{there})
	server.Handler = &mux
	server.Start(ctx)
	defer server.Close()

	client := jsonrpc.NewConn(prefixed{here})
	client.Start(ctx)
	defer client.Close()
	greeting, err := jsonrpc.Call[string](ctx, client, "greet", []string{"four bytes and a message"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(greeting)
}
