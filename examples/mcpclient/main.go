// Command mcpclient uses the MCP server at an address, or one that it starts.
//
//	mcpclient http://127.0.0.1:3000/mcp
//	mcpclient parley demo --mcp --stdio
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// connect detects which of the five protocol versions the server supports.
func connect(ctx context.Context, target []string, o *mcp.ClientOptions) (*mcp.Client, error) {
	me := mcp.Implementation{Name: "mcpclient", Version: "1.0.0"}
	if strings.Contains(target[0], "://") {
		return mcphttp.Connect(ctx, target[0], me, &mcphttp.ClientOptions{Client: *o})
	}
	child, err := stdio.Start(ctx, target, nil)
	if err != nil {
		return nil, err
	}
	return mcp.Connect(ctx, child, me, o)
}

// answer answers the questions of the server in place of the user.
func answer(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
	fmt.Println("It asks:", e.Message)
	return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"time":"20:15","name":"Ada"}`)}, nil
}

func run(ctx context.Context, target []string) error {
	client, err := connect(ctx, target, &mcp.ClientOptions{Elicit: answer})
	if err != nil {
		return err
	}
	defer client.Close()

	count := 0
	for tool, err := range client.Tools(ctx) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(tool.Name, "calculator/") {
			count++
		}
	}
	fmt.Println("It can calculate in", count, "ways.")

	sum, err := client.CallTool(ctx, "calculator/add", map[string]int{"a": 42, "b": 23}, nil)
	if err != nil {
		return err // an error response, or the server could not be reached
	}
	fmt.Println(sum.IsError, string(sum.Structured))

	booked, err := client.CallTool(ctx, "book-table", map[string]any{"restaurant": "Zur Linde", "guests": 4}, &mcp.CallOptions{
		Progress: func(p mcp.Progress) { fmt.Printf("%v of %v: %s\n", p.Progress, p.Total, p.Message) },
	})
	if err != nil {
		return err
	}
	fmt.Println(booked.Text())
	return nil
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("which server?")
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
