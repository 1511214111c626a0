package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestListOfEndlessSize checks that a server with a list that does not end cannot fill the memory
// of its client, whose caller collects the pages.
func TestListOfEndlessSize(t *testing.T) {
	long, page := strings.Repeat("x", 3<<20), 0
	c := connectTo(t, jsonrpc.HandlerFunc(func(_ context.Context, r *jsonrpc.Request) (any, error) {
		switch r.Method {
		case mcp.MethodInitialize:
			return jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`), nil
		case mcp.MethodToolsList:
			page++
			if page > 40 {
				return jsonrpc.Raw(`{"tools":[]}`), nil
			}
			return jsonrpc.Raw(fmt.Sprintf(`{"tools":[{"name":"%d%s","inputSchema":{"type":"object"}}],"nextCursor":"c%d"}`, page, long, page)), nil
		}
		return nil, jsonrpc.ErrMethodNotFound
	}), mcp.ClientOptions{})
	var last error
	for _, err := range c.Tools(t.Context()) {
		last = err
	}
	if last == nil || !strings.Contains(last.Error(), "64 MiB") || page > 25 {
		t.Errorf("after %d pages of 3 MiB: %v", page, last)
	}
}
