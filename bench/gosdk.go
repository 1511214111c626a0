package main

import (
	"context"
	"net/http"

	official "github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDK is github.com/modelcontextprotocol/go-sdk, the official one. Over HTTP it responds with
// plain JSON where possible, which is faster than its default.
func goSDK() []Entry {
	info := &official.Implementation{Name: "bench", Version: "1"}
	newServer := func() *official.Server {
		s := official.NewServer(info, nil)
		official.AddTool(s, &official.Tool{Name: "subtract"}, func(_ context.Context, _ *official.CallToolRequest, in Pair) (*official.CallToolResult, Difference, error) {
			return nil, Difference{in.Minuend - in.Subtrahend}, nil
		})
		return s
	}
	session := func(t official.Transport, version string, stop func()) (*Session, error) {
		c, err := official.NewClient(info, nil).Connect(context.Background(), t, &official.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			return nil, err
		}
		return &Session{
			Call: func(ctx context.Context) error {
				got, err := c.CallTool(ctx, &official.CallToolParams{Name: "subtract", Arguments: Pair{minuend, subtrahend}})
				if err != nil {
					return err
				}
				return structured(got.StructuredContent)
			},
			Close: func() { c.Close(); stop() },
		}, nil
	}
	memory := func(version string) func() (*Session, error) {
		return func() (*Session, error) {
			there, here := official.NewInMemoryTransports()
			s, err := newServer().Connect(context.Background(), there, nil)
			if err != nil {
				return nil, err
			}
			return session(here, version, func() { s.Close() })
		}
	}
	stdio := func(version string) func() (*Session, error) {
		return func() (*Session, error) {
			there, here, err := stdioPipes()
			if err != nil {
				return nil, err
			}
			s, err := newServer().Connect(context.Background(), &official.IOTransport{Reader: there.r, Writer: there.w}, nil)
			if err != nil {
				return nil, err
			}
			return session(&official.IOTransport{Reader: here.r, Writer: here.w}, version, func() { s.Close() })
		}
	}
	overHTTP := func(version string, stateless bool) func() (*Session, error) {
		return func() (*Session, error) {
			s := newServer()
			h := official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &official.StreamableHTTPOptions{Stateless: stateless, JSONResponse: true})
			url, stop, err := endpoint(h)
			if err != nil {
				return nil, err
			}
			return session(&official.StreamableClientTransport{Endpoint: url, HTTPClient: httpClient(), DisableStandaloneSSE: true}, version, stop)
		}
	}
	return []Entry{{"go-sdk", Peer, map[Transport]func() (*Session, error){
		MCPMemory:       memory(sessionMCP),
		MCPMemoryNewest: memory(newestMCP),
		MCPStdio:        stdio(sessionMCP),
		MCPStdioNewest:  stdio(newestMCP),
		MCPHTTP:         overHTTP(sessionMCP, false),
		MCPHTTPNewest:   overHTTP(newestMCP, true),
	}}}
}
