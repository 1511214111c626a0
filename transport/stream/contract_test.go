package stream_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

var framers = map[string]stream.Framer{"line": stream.Line, "header": stream.Header}

// TestContract runs over everything that a Transport treats differently: connections with deadlines
// and a file descriptor, two joined pipes, and a stream with neither.
func TestContract(t *testing.T) {
	for name, f := range framers {
		over := func(t *testing.T, c, s net.Conn) (jsonrpc.Transport, jsonrpc.Transport) {
			return stream.New(c, f, nil), stream.New(s, f, nil)
		}
		t.Run(name+"/tcp", func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				c, s := connect(t, "tcp", "127.0.0.1:0")
				return over(t, c, s)
			}, &transporttest.Options{Over: over})
		})
		t.Run(name+"/net.Pipe", func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				c, s := net.Pipe()
				return over(t, c, s)
			}, &transporttest.Options{Unbuffered: true})
		})
		t.Run(name+"/os.Pipe", func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				r1, w1, err1 := os.Pipe()
				r2, w2, err2 := os.Pipe()
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				join := func(r, w *os.File) io.ReadWriteCloser {
					return stream.Join(r, w, func() error { return errors.Join(r.Close(), w.Close()) })
				}
				return stream.New(join(r1, w2), f, nil), stream.New(join(r2, w1), f, nil)
			}, nil)
		})
		t.Run(name+"/small limit", func(t *testing.T) {
			// a line over the limit is buffered whole, and arrives in several reads
			const limit = 10_000
			transporttest.Run(t, func(t *testing.T) (a, b jsonrpc.Transport) {
				c, s := connect(t, "tcp", "127.0.0.1:0")
				o := &stream.Options{MaxMessage: limit}
				return stream.New(c, f, o), stream.New(s, f, o)
			}, &transporttest.Options{MaxMessage: limit})
		})
	}
}

// connect returns both ends of a connection over loopback.
func connect(t testing.TB, network, addr string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}
