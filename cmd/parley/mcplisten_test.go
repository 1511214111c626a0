package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
)

// TestListenEndsWithTheServer checks that listening ends with the server, even if the transport
// would reconnect indefinitely.
func TestListenEndsWithTheServer(t *testing.T) {
	for _, words := range []string{"http MCP", "http MCP --protocol 2025-11-25", "sse+http SSE", "ws MCP"} {
		t.Run(words, func(t *testing.T) {
			scheme, rest, _ := strings.Cut(words, " ")
			tools := demo.NewMCP("test", nil)
			t.Cleanup(tools.Close)
			l := &parley.Listener{}
			addMCP(l, tools, nil)
			target, err := parley.ParseTarget("http://127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Listen(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(context.Background()) }()

			address := scheme + "://" + server.Targets()[0].Address
			rest = strings.NewReplacer("MCP", address+mcpPath, "SSE", address+ssePath).Replace(rest)
			out, stderr := io.Pipe()
			ended := make(chan int, 1)
			go func() {
				a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: stderr, getenv: func(string) string { return "" }}
				ended <- a.main(t.Context(), append([]string{"mcp", "listen"}, append(strings.Fields(rest), clock, "--login", "never")...))
				_ = stderr.Close()
			}()
			output := bufio.NewScanner(out)
			for output.Scan() && !strings.HasPrefix(output.Text(), "listening") {
			}
			if err := server.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			var last []string
			for output.Scan() {
				last = append(last, output.Text())
			}
			if code := <-ended; code != exitAway {
				t.Errorf("exit code %d, want %d: %q", code, exitAway, last)
			}
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
}

const clock = "clock://now"
