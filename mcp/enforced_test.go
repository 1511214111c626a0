package mcp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestEachMarkIsEnforcedAlone has one tool for each kind of field whose schema is stricter than
// decoding. In one common type, one field would hide a missing check of another.
func TestEachMarkIsEnforcedAlone(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "marks", Version: "1"}, nil)
	tool(s, "min", func(struct {
		N int `json:"n" mcp:"min=1"`
	}) {
	})
	tool(s, "max", func(struct {
		N int `json:"n" mcp:"max=5"`
	}) {
	})
	tool(s, "enum", func(struct {
		N string `json:"n" mcp:"enum=a|b"`
	}) {
	})
	tool(s, "quoted", func(struct {
		N int `json:"n,string"`
	}) {
	})
	tool(s, "array", func(struct {
		N [2]int `json:"n"`
	}) {
	})
	tool(s, "list", func(struct {
		N []int `json:"n"`
	}) {
	})
	tool(s, "map", func(struct {
		N map[string]int `json:"n"`
	}) {
	})
	tool(s, "object", func(struct {
		N struct {
			M int `json:"m"`
		} `json:"n"`
	}) {
	})
	c := connect(t, s, mcp.ClientOptions{})
	for _, tt := range []struct{ tool, good, bad string }{
		{"min", `1`, `0`},
		{"max", `5`, `6`},
		{"enum", `"b"`, `"c"`},
		{"quoted", `"7"`, `7`},
		{"array", `[1,2]`, `[1,2,3]`},
		{"array", `[1,2]`, `[1]`},
		{"list", `[]`, `null`},
		{"map", `{"a":1}`, `{"a":"b"}`},
		{"object", `{"m":1}`, `{"m":1,"k":2}`},
	} {
		call := func(value string) (*mcp.ToolResult, error) {
			return c.CallTool(t.Context(), tt.tool, jsonrpc.Raw(`{"n":`+value+`}`), nil)
		}
		if got, err := call(tt.good); err != nil || got.IsError {
			t.Errorf("%s takes %s: %+v, %v", tt.tool, tt.good, got, err)
		}
		if got, err := call(tt.bad); !errors.Is(err, jsonrpc.ErrInvalidParams) && (got == nil || !got.IsError) {
			t.Errorf("%s takes %s: %+v, %v", tt.tool, tt.bad, got, err)
		}
	}
}

func tool[In any](s *mcp.Server, name string, f func(In)) {
	mcp.AddTool(s, mcp.Tool{Name: name}, func(_ context.Context, _ *mcp.Request, in In) (string, error) {
		f(in)
		return "done", nil
	})
}

func TestWhichCallsHaveNoDeadline(t *testing.T) {
	for method, want := range map[string][2]bool{ // of a client, of a server
		mcp.MethodListen:        {true, false},
		mcp.MethodTasksResult:   {true, false},
		mcp.MethodElicit:        {false, true},
		mcp.MethodCreateMessage: {false, true},
		mcp.MethodToolsCall:     {false, false},
		mcp.MethodPing:          {false, false},
	} {
		if got := [2]bool{mcp.Open(method), mcp.OpenForServer(method)}; got != want {
			t.Errorf("%s: Open and OpenForServer are %v, want %v", method, got, want)
		}
	}
}
