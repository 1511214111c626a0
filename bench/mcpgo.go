package main

import (
	"context"
	"io"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mark "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mcpGo is github.com/mark3labs/mcp-go.
func mcpGo() []Entry {
	newServer := func() *server.MCPServer {
		s := server.NewMCPServer("bench", "1")
		s.AddTool(mark.NewTool("subtract", mark.WithInputSchema[Pair](), mark.WithOutputSchema[Difference]()),
			mark.NewStructuredToolHandler(func(_ context.Context, _ mark.CallToolRequest, in Pair) (Difference, error) {
				return Difference{in.Minuend - in.Subtrahend}, nil
			}))
		return s
	}
	session := func(t transport.Interface, version string, stop func()) (*Session, error) {
		c := client.NewClient(t, client.WithProtocolVersion(version))
		if err := c.Start(context.Background()); err != nil {
			return nil, err
		}
		var hello mark.InitializeRequest
		hello.Params.ProtocolVersion = version
		hello.Params.ClientInfo = mark.Implementation{Name: "bench", Version: "1"}
		if _, err := c.Initialize(context.Background(), hello); err != nil {
			return nil, err
		}
		return &Session{
			Call: func(ctx context.Context) error {
				var call mark.CallToolRequest
				call.Params.Name, call.Params.Arguments = "subtract", Pair{minuend, subtrahend}
				got, err := c.CallTool(ctx, call)
				if err != nil {
					return err
				}
				// In memory, nothing is encoded.
				if d, ok := got.StructuredContent.(Difference); ok {
					return checkDifference(d.Difference)
				}
				return structured(got.StructuredContent)
			},
			Close: func() { c.Close(); stop() },
		}, nil
	}
	memory := func(version string) func() (*Session, error) {
		return func() (*Session, error) {
			return session(transport.NewInProcessTransport(newServer()), version, func() {})
		}
	}
	stdio := func(version string) func() (*Session, error) {
		return func() (*Session, error) {
			there, here, err := stdioPipes()
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(context.Background())
			// Listen returns after cancel.
			go func() { _ = server.NewStdioServer(newServer()).Listen(ctx, there.r, there.w) }()
			return session(transport.NewIO(here.r, here.w, io.NopCloser(strings.NewReader(""))), version, func() { cancel(); there.Close() })
		}
	}
	overHTTP := func(version string, options ...server.StreamableHTTPOption) func() (*Session, error) {
		return func() (*Session, error) {
			url, stop, err := endpoint(server.NewStreamableHTTPServer(newServer(), options...))
			if err != nil {
				return nil, err
			}
			t, err := transport.NewStreamableHTTP(url, transport.WithHTTPBasicClient(httpClient()))
			if err != nil {
				return nil, err
			}
			return session(t, version, stop)
		}
	}
	return []Entry{{"mcp-go", Peer, map[Transport]func() (*Session, error){
		MCPMemory:       memory(sessionMCP),
		MCPMemoryNewest: memory(newestMCP),
		MCPStdio:        stdio(sessionMCP),
		MCPStdioNewest:  stdio(newestMCP),
		MCPHTTP:         overHTTP(sessionMCP, server.WithStateful(true)),
		MCPHTTPNewest:   overHTTP(newestMCP),
	}}}
}
