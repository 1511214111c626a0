package main

import (
	"context"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

func Example() {
	s, err := newServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	c, err := mcp.ConnectLocal(context.Background(), s, mcp.Implementation{Name: "example", Version: "1.0"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, arguments := range []string{`{"text":"buy milk"}`, `{"text":" "}`, `{"text":"call Ada","topic":"garden"}`, `{"topic":"work"}`} {
		result, err := c.CallTool(context.Background(), "notes/add", jsonrpc.Raw(arguments), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.IsError, result.Text())
	}
	read, err := c.ReadResource(context.Background(), "notes://all", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(read.Contents[0].Text)
	// Output:
	// false {"number":1}
	// true An empty note reminds of nothing: give it a text.
	// true arguments: at /topic: must be "home" or "work", not "garden"
	// true arguments: at /text: is required
	// 1. buy milk
}

// The question is sent in the form that the client's protocol version has.
func Example_question() {
	s, err := newServer()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	for _, v := range []mcp.Version{mcp.V20250618, mcp.V20260728} {
		c, err := mcp.ConnectLocal(context.Background(), s, mcp.Implementation{Name: "example", Version: "1.0"}, &mcp.ClientOptions{
			Versions: []mcp.Version{v},
			Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
				fmt.Println(v, "asks:", e.Message)
				return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"really":true}`)}, nil
			},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer c.Close()
		result, err := c.CallTool(context.Background(), "notes/clear", nil, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v, result.Text())
	}
	// Output:
	// 2025-06-18 asks: This cannot be undone.
	// 2025-06-18 All notes are gone.
	// 2026-07-28 asks: This cannot be undone.
	// 2026-07-28 All notes are gone.
}
