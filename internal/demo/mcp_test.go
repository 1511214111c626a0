package demo

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// connect returns a client of the demo that uses version v; 0 means the newest.
func connect(t *testing.T, m *MCP, v mcp.Version, o *mcp.ClientOptions) *mcp.Client {
	t.Helper()
	if o == nil {
		o = &mcp.ClientOptions{}
	}
	if v != 0 {
		o.Versions = []mcp.Version{v}
	}
	o.CheckResults = true
	c, err := mcp.ConnectLocal(t.Context(), m.Server, mcp.Implementation{Name: "test", Version: "1"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, err := range c.Tools(t.Context()) { // CheckResults needs the schemas
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func newMCP(t *testing.T) *MCP {
	t.Helper()
	m := NewMCP("test", &MCPOptions{Report: func(what string, err error) { t.Logf("%s: %v", what, err) }})
	t.Cleanup(m.Close)
	return m
}

// tool calls a tool and returns its text, with "error: " before it if it failed.
func tool(t *testing.T, c *mcp.Client, name, arguments string) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), name, jsonrpc.Raw(arguments), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", name, arguments, err)
	}
	if result.IsError {
		return "error: " + result.Text()
	}
	return result.Text()
}

func TestCalculator(t *testing.T) {
	c := connect(t, newMCP(t), 0, nil)
	for _, tt := range []struct{ name, arguments, want string }{
		{"add", `{"a":42,"b":23}`, `{"result":65,"exact":true}`},
		{"add", `{"a":0.1,"b":0.2}`, `{"result":0.3,"exact":true}`},
		{"subtract", `{"a":9007199254740993,"b":1}`, `{"result":9007199254740992,"exact":true}`},
		{"multiply", `{"a":1.5,"b":-0.2}`, `{"result":-0.3,"exact":true}`},
		{"multiply", `{"a":123456789123456789,"b":1000000007}`, `{"result":123456789987654312864197523,"exact":true}`},
		{"divide", `{"a":1,"b":8}`, `{"result":0.125,"exact":true}`},
		{"divide", `{"a":10,"b":5}`, `{"result":2,"exact":true}`},
		{"divide", `{"a":1,"b":3}`, `{"result":0.3333333333333333333333333333333333,"exact":false}`},
		{"divide", `{"a":-2,"b":3}`, `{"result":-0.6666666666666666666666666666666667,"exact":false}`},
		{"divide", `{"a":200,"b":0.03}`, `{"result":6666.666666666666666666666666666667,"exact":false}`},
		{"divide", `{"a":0,"b":7}`, `{"result":0,"exact":true}`},
		{"divide", `{"a":1,"b":0}`, "error: Division by zero: 1 ÷ 0 has no result. Give another b."},
		{"divide", `{"a":1,"b":-0.0}`, "error: Division by zero: 1 ÷ 0 has no result. Give another b."},
	} {
		if got := tool(t, c, "calculator/"+tt.name, tt.arguments); got != tt.want {
			t.Errorf("%s %s = %s, want %s", tt.name, tt.arguments, got, tt.want)
		}
	}
	for _, arguments := range []string{`{"a":1}`, `{"a":"1","b":2}`, `{"a":1,"b":2,"c":3}`, `{}`} {
		if got := tool(t, c, "calculator/add", arguments); !strings.HasPrefix(got, "error: ") {
			t.Errorf("add %s = %s, want an error", arguments, got)
		}
	}
	if got := tool(t, c, "calculator/multiply", `{"a":1e300,"b":1e300}`); strings.HasPrefix(got, "error") {
		t.Errorf("1e300 squared: %s", got)
	}
	if got := tool(t, c, "calculator/multiply", `{"a":1e200,"b":1e-900}`); !strings.HasPrefix(got, `{"result":0.000`) {
		t.Errorf("1e200 by 1e-900: %s", got)
	}
}

var everyVersion = []mcp.Version{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728}

func TestBookTable(t *testing.T) {
	for _, v := range everyVersion {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMCP("test", nil)
				defer m.Close()
				var form jsonrpc.Raw
				c := connect(t, m, v, &mcp.ClientOptions{Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
					form = e.RequestedSchema.Clone()
					if e.Message != "19:30 is full. Two later tables are free for 4. Which one?" {
						t.Errorf("the question is %q", e.Message)
					}
					return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"time":"20:15","name":"Ada"}`)}, nil
				}})
				defer c.Close()
				var steps []string
				result, err := c.CallTool(t.Context(), "book-table", jsonrpc.Raw(`{"restaurant":"Zur Linde","guests":4,"time":"2026-03-14T19:30"}`),
					&mcp.CallOptions{Progress: func(p mcp.Progress) { steps = append(steps, p.Message) }})
				if err != nil {
					t.Fatal(err)
				}
				if !v.HasElicitation() { // without elicitation the model may choose
					if want := "19:30 is full. Free are 20:15 (garden) and 21:00 (inside): call again with one of these times."; !result.IsError || result.Text() != want {
						t.Errorf("result = %v %s, want %s", result.IsError, result.Text(), want)
					}
					return
				}
				if want := "Zur Linde, 4 guests, 20:15, garden."; result.Text() != want {
					t.Errorf("text = %s, want %s", result.Text(), want)
				}
				if want := `{"booked":true,"confirmation":"ZL-20815","time":"20:15","place":"garden"}`; string(result.Structured) != want {
					t.Errorf("structured = %s, want %s", result.Structured, want)
				}
				if got := steps[len(steps)-1]; got != "booked" || steps[0] != "looking for a table" {
					t.Errorf("progress %q", steps)
				}
				if titled := strings.Contains(string(form), `"oneOf":[{"const":"20:15","title":"20:15, garden"}`); titled != v.HasURLElicitation() {
					t.Errorf("form %s", form)
				}
			})
		})
	}
}
