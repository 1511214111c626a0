package tap_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
)

// ExampleRelay forwards a connection to a server. Both connections are pipes in memory.
func ExampleRelay() {
	rec, err := capture.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	near, far := net.Pipe() // from the relay to the server
	go func() {
		if _, err := bufio.NewReader(far).ReadString('\n'); err == nil {
			fmt.Fprintln(far, `{"jsonrpc":"2.0","id":1,"result":19}`)
		}
		_ = far.Close()
	}()
	client, theirs := net.Pipe()
	relay := &tap.Relay{Record: rec, Dial: func(context.Context) (net.Conn, error) { return near, nil }}
	l := &once{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- theirs
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, l) }()

	fmt.Fprintln(client, `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`)
	answer, err := bufio.NewReader(client).ReadString('\n')
	fmt.Print(answer, err, "\n")
	cancel()
	fmt.Println(<-done)
	rec.Flush()
	call, _ := rec.Row(capture.Ref{Seq: 2})
	fmt.Println(call.Method, call.State, "by", call.Answer)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":19}
	// <nil>
	// <nil>
	// subtract done by 3
}

// once is a listener with one connection.
type once struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

func (o *once) Close() error {
	close(o.closed)
	return nil
}

func (o *once) Addr() net.Addr { return &net.UnixAddr{} }
