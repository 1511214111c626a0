package mcp_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// serve runs s on one end of a pipe until the end of the test, and returns the other end.
func serve(t testing.TB, s *mcp.Server) jsonrpc.Transport {
	t.Helper()
	here, end := inproc.Pipe(nil)
	there := &tap{Transport: end, t: t}
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(context.WithoutCancel(t.Context()), there); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		here.Close()
		done.Wait()
		s.Close()
		there.judge()
	})
	return here
}

// connect returns a client of s that supports the given versions.
func connect(t testing.TB, s *mcp.Server, o mcp.ClientOptions, versions ...mcp.Version) *mcp.Client {
	t.Helper()
	if versions != nil {
		o.Versions = versions
	}
	c, err := mcp.Connect(t.Context(), serve(t, s), mcp.Implementation{Name: "test", Version: "1"}, &o)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// each runs f once for every protocol version.
func each(t *testing.T, f func(t *testing.T, v mcp.Version)) {
	for _, v := range mcp.Versions() {
		t.Run(v.String(), func(t *testing.T) { f(t, v) })
	}
}

// eventually waits for a value on c.
func eventually[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

type sumIn struct {
	A float64 `json:"a" jsonschema:"the first"`
	B float64 `json:"b"`
}

type sumOut struct {
	Sum float64 `json:"sum"`
}

func calculator(o *mcp.ServerOptions) *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "calculator", Version: "1.0"}, o)
	mcp.AddTool(s, mcp.Tool{Name: "calculator/add", Description: "Adds two numbers."},
		func(_ context.Context, _ *mcp.Request, in sumIn) (sumOut, error) { return sumOut{in.A + in.B}, nil })
	return s
}

// pipe serves s without validating the messages. The returned function closes it.
func pipe(t testing.TB, s *mcp.Server) (jsonrpc.Transport, func()) {
	here, there := inproc.Pipe(nil)
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(context.WithoutCancel(t.Context()), there) })
	return here, func() {
		here.Close()
		done.Wait()
		s.Close()
	}
}

// pipeTo serves any handler like an MCP server.
func pipeTo(t testing.TB, h jsonrpc.Handler) (jsonrpc.Transport, func()) {
	here, there := inproc.Pipe(nil)
	conn := jsonrpc.NewConn(there)
	conn.Handler, conn.Cancellation = h, mcp.Cancellation
	conn.Start(context.WithoutCancel(t.Context()))
	return here, func() { conn.Close() }
}

// connectTo returns a client of any handler.
func connectTo(t testing.TB, h jsonrpc.Handler, o mcp.ClientOptions) *mcp.Client {
	t.Helper()
	here, stop := pipeTo(t, h)
	t.Cleanup(stop)
	c, err := mcp.Connect(t.Context(), here, mcp.Implementation{Name: "test", Version: "1"}, &o)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
