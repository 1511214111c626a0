package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stream"
)

// The transports of MCP. The small call is the tool subtract, with a structured result. A session
// uses 2025-11-25, the protocol version that most programs use today; stateless is 2026-07-28.
const (
	MCPMemory       Transport = "MCP in memory, 2025-11-25"
	MCPMemoryNewest Transport = "MCP in memory, 2026-07-28"
	MCPStdio        Transport = "MCP stdio, 2025-11-25" // two pipes, as between a host and its child
	MCPStdioNewest  Transport = "MCP stdio, 2026-07-28"
	MCPHTTP         Transport = "MCP HTTP, session"
	MCPHTTPNewest   Transport = "MCP HTTP, stateless"
)

var mcpTransports = []Transport{MCPMemory, MCPMemoryNewest, MCPStdio, MCPStdioNewest, MCPHTTP, MCPHTTPNewest}

// A Difference is the result of the tool.
type Difference struct {
	Difference int `json:"difference"`
}

const (
	newestMCP  = "2026-07-28"
	sessionMCP = "2025-11-25"
)

// The messages of a small call.
const (
	mcpCall       = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"subtract","arguments":{"minuend":42,"subtrahend":23}},"id":12345}`
	mcpAnswer     = `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"{\"difference\":19}"}],"structuredContent":{"difference":19}},"id":12345}`
	mcpNewestCall = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"subtract","arguments":{"minuend":42,"subtrahend":23},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}},"id":12345}`
	mcpNewestAnswer = `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"{\"difference\":19}"}],"structuredContent":{"difference":19},"resultType":"complete"},"id":12345}`
)

// rawMCP measures the same bytes with the headers that MCP requires, without parsing them.
func rawMCP() map[Transport]func() (*Session, error) {
	stdio := func(request, answer string) func() (*Session, error) {
		return func() (*Session, error) {
			server, client, err := stdioPipes()
			if err != nil {
				return nil, err
			}
			text := answer + "\n"
			serveLines(server, func(dst, _ []byte) []byte { return append(dst, text...) })
			c := newRawClient(client)
			return &Session{Call: rawCall(c.ask, request, answer), Close: func() { client.Close(); server.Close() }}, nil
		}
	}
	overHTTP := func(request, answer, version string, headers ...string) func() (*Session, error) {
		h := http.Header{"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}}
		for i := 0; i < len(headers); i += 2 {
			h[headers[i]] = headers[i+1 : i+2]
		}
		return func() (*Session, error) { return rawHTTPClient(constantAnswer(answer, ""), request, h, len(answer)) }
	}
	return map[Transport]func() (*Session, error){
		MCPStdio:       stdio(mcpCall, mcpAnswer),
		MCPStdioNewest: stdio(mcpNewestCall, mcpNewestAnswer),
		MCPHTTP:        overHTTP(mcpCall, mcpAnswer, sessionMCP, "Mcp-Session-Id", "0123456789abcdef0123456789abcdef"),
		MCPHTTPNewest:  overHTTP(mcpNewestCall, mcpNewestAnswer, newestMCP, "Mcp-Method", "tools/call", "Mcp-Name", "subtract"),
	}
}

// parleyMCP measures package mcp on each transport.
func parleyMCP() Entry {
	info := mcp.Implementation{Name: "bench", Version: "1"}
	server := func() *mcp.Server {
		s := mcp.NewServer(info, nil)
		mcp.AddTool(s, mcp.Tool{Name: "subtract"}, func(_ context.Context, _ *mcp.Request, in Pair) (Difference, error) {
			return Difference{in.Minuend - in.Subtrahend}, nil
		})
		return s
	}
	options := func(version mcp.Version) *mcp.ClientOptions {
		return &mcp.ClientOptions{Versions: []mcp.Version{version}}
	}
	session := func(c *mcp.Client, stop func()) *Session {
		return &Session{
			Call: func(ctx context.Context) error {
				got, err := c.CallTool(ctx, "subtract", Pair{minuend, subtrahend}, nil)
				if err != nil {
					return err
				}
				var d Difference
				if err := got.Structured.Decode(&d); err != nil {
					return err
				}
				return checkDifference(d.Difference)
			},
			Close: func() { c.Close(); stop() },
		}
	}
	memory := func(version mcp.Version) func() (*Session, error) {
		return func() (*Session, error) {
			s := server()
			c, err := mcp.ConnectLocal(context.Background(), s, info, options(version))
			if err != nil {
				return nil, err
			}
			return session(c, func() { s.Close() }), nil
		}
	}
	stdio := func(version mcp.Version) func() (*Session, error) {
		return func() (*Session, error) {
			there, here, err := stdioPipes()
			if err != nil {
				return nil, err
			}
			s := server()
			// Serve returns when the pipes are closed.
			go func() { _ = s.Serve(context.Background(), stream.New(there.joined(), stream.Line, nil)) }()
			c, err := mcp.Connect(context.Background(), stream.New(here.joined(), stream.Line, nil), info, options(version))
			if err != nil {
				return nil, err
			}
			return session(c, func() { s.Close() }), nil
		}
	}
	overHTTP := func(version mcp.Version) func() (*Session, error) {
		return func() (*Session, error) {
			s := server()
			h := mcphttp.NewHandler(s, nil)
			url, stop, err := serveHTTP(h)
			if err != nil {
				return nil, err
			}
			c, err := mcphttp.Connect(context.Background(), url, info, &mcphttp.ClientOptions{Client: *options(version)})
			if err != nil {
				return nil, err
			}
			return session(c, func() { s.Close(); h.Close(); stop() }), nil
		}
	}
	return Entry{"parley", Ours, map[Transport]func() (*Session, error){
		MCPMemory:       memory(mcp.V20251125),
		MCPMemoryNewest: memory(mcp.V20260728),
		MCPStdio:        stdio(mcp.V20251125),
		MCPStdioNewest:  stdio(mcp.V20260728),
		MCPHTTP:         overHTTP(mcp.V20251125),
		MCPHTTPNewest:   overHTTP(mcp.V20260728),
	}}
}

// A stdioEnd is one end of two pipes.
type stdioEnd struct {
	net.Conn // for the unused methods

	r, w *os.File
}

func (e *stdioEnd) Read(p []byte) (int, error)  { return e.r.Read(p) }
func (e *stdioEnd) Write(p []byte) (int, error) { return e.w.Write(p) }
func (e *stdioEnd) Close() error                { e.w.Close(); return e.r.Close() }

func (e *stdioEnd) joined() io.ReadWriteCloser { return stream.Join(e.r, e.w, e.Close) }

// stdioPipes returns both ends of the pipes between a host and its child.
func stdioPipes() (server, client *stdioEnd, err error) {
	in, toServer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	out, toClient, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &stdioEnd{r: in, w: toClient}, &stdioEnd{r: out, w: toServer}, nil
}

// structured reads a result that a peer decodes into generic JSON values.
func structured(v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("structured content is %T", v)
	}
	n, ok := m["difference"].(float64)
	if !ok {
		return fmt.Errorf("difference is %T", m["difference"])
	}
	return checkDifference(int(n))
}

// endpoint serves h and returns the address, with a path that all peers accept.
func endpoint(h http.Handler) (url string, stop func(), err error) {
	url, stop, err = serveHTTP(h)
	return strings.TrimSuffix(url, "/") + "/mcp", stop, err
}
