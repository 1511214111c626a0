package mcphttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// BenchmarkCall measures what the call of a small tool costs the server, without a network.
func BenchmarkCall(b *testing.B) {
	for _, kind := range []string{"session", "stateless"} {
		b.Run(kind, func(b *testing.B) {
			s := mcp.NewServer(me, nil)
			mcp.AddTool(s, mcp.Tool{Name: "subtract"}, func(_ context.Context, _ *mcp.Request, in struct {
				Minuend    int `json:"minuend"`
				Subtrahend int `json:"subtrahend"`
			}) (struct {
				Difference int `json:"difference"`
			}, error) {
				return struct {
					Difference int `json:"difference"`
				}{in.Minuend - in.Subtrahend}, nil
			})
			h := mcphttp.NewHandler(s, nil)
			defer h.Close()
			header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			const params = `"name":"subtract","arguments":{"minuend":42,"subtrahend":23}`
			text := `{"jsonrpc":"2.0","method":"tools/call","params":{` + params + `},"id":1}`
			serve := func(text string) *sheet {
				ctx := context.WithValue(b.Context(), http.LocalAddrContextKey, &net.TCPAddr{Port: 80})
				r := (&http.Request{Method: "POST", Header: header, Host: "localhost", Body: io.NopCloser(strings.NewReader(text)),
					ContentLength: int64(len(text)), ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
				w := &sheet{h: http.Header{}}
				h.ServeHTTP(w, r)
				return w
			}
			if kind == "session" {
				header["Mcp-Session-Id"] = serve(initialize("2025-11-25")).h["Mcp-Session-Id"]
				header["Mcp-Protocol-Version"] = []string{"2025-11-25"}
			} else {
				var lines []string
				text, lines = modern("1", "tools/call", params)
				for _, line := range lines {
					name, value, _ := strings.Cut(line, ": ")
					header.Set(name, value)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if w := serve(text); w.n < 50 {
					b.Fatal("no answer")
				}
			}
		})
	}
}

// A sheet is a minimal http.ResponseWriter.
type sheet struct {
	h http.Header
	n int
}

func (w *sheet) Header() http.Header         { return w.h }
func (w *sheet) WriteHeader(int)             {}
func (w *sheet) Write(p []byte) (int, error) { w.n += len(p); return len(p), nil }
func (w *sheet) Flush()                      {}
