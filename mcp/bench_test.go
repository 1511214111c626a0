package mcp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// BenchmarkDispatch measures one call of a typed tool, from the payload to the response.
func BenchmarkDispatch(b *testing.B) {
	s := calculator(nil)
	defer s.Close()
	session := s.NewSession(mcp.SessionOptions{})
	defer session.Close()
	for _, c := range []struct {
		name, payload string
		handler       jsonrpc.Handler
	}{
		{"2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculator/add","arguments":{"a":42,"b":23}}}`, session},
		{"2026-07-28", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculator/add","arguments":{"a":42,"b":23},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`, s},
	} {
		b.Run(c.name, func(b *testing.B) {
			var a jsonrpc.Answerer
			s.Configure(&a, c.handler)
			ask := func(dst, payload []byte) []byte {
				out, e := a.Answer(b.Context(), dst[:0], payload, &jsonrpc.Exchange{})
				if e != nil {
					b.Fatal(e)
				}
				return out
			}
			if c.handler == session && session.Version() == 0 {
				ask(nil, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`))
			}
			b.ReportAllocs()
			var out []byte
			payload := []byte(c.payload)
			for b.Loop() {
				out = ask(out, payload)
			}
		})
	}
}

// BenchmarkCall measures a call between a client and a server in one process.
func BenchmarkCall(b *testing.B) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		b.Run(v.String(), func(b *testing.B) {
			here, stop := pipe(b, calculator(nil))
			defer stop()
			c, err := mcp.Connect(b.Context(), here, mcp.Implementation{Name: "b", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{v}})
			must(b, err)
			defer c.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallTool(b.Context(), "calculator/add", sumIn{42, 23}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLocal measures the same call without a transport.
func BenchmarkLocal(b *testing.B) {
	for _, v := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
		b.Run(v.String(), func(b *testing.B) {
			s := calculator(nil)
			defer s.Close()
			c, err := mcp.ConnectLocal(b.Context(), s, mcp.Implementation{Name: "b", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{v}})
			must(b, err)
			defer c.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallTool(b.Context(), "calculator/add", sumIn{42, 23}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAddTool measures the cost of one more tool for a server with many tools.
func BenchmarkAddTool(b *testing.B) {
	s := calculator(nil)
	defer s.Close()
	for i := range 10_000 {
		addNumbered(s, i)
	}
	b.ReportAllocs()
	for i := 10_000; b.Loop(); i++ {
		addNumbered(s, i%20_000)
	}
}

func addNumbered(s *mcp.Server, i int) {
	mcp.AddTool(s, mcp.Tool{Name: fmt.Sprint("tool", i), Description: "One of many."},
		func(_ context.Context, _ *mcp.Request, in sumIn) (sumOut, error) { return sumOut{in.A}, nil })
}
