package jsonrpc_test

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

type twoNumbers struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

// specMux handles the methods in the examples of the specification.
func specMux() *Mux {
	m := new(Mux)
	m.Add("subtract", Func(func(_ context.Context, in twoNumbers) (int, error) {
		return in.Minuend - in.Subtrahend, nil
	}))
	m.Add("sum", Func(func(_ context.Context, in []int) (int, error) {
		sum := 0
		for _, n := range in {
			sum += n
		}
		return sum, nil
	}))
	m.Add("get_data", Func(func(context.Context, struct{}) ([]any, error) { return []any{"hello", 5}, nil }))
	m.Add("echo", Func(func(_ context.Context, in Raw) (Raw, error) { return in, nil }))
	for _, name := range []string{"update", "foobar_known", "notify_hello", "notify_sum"} {
		m.Add(name, Func(func(context.Context, Raw) (any, error) { return nil, nil }))
	}
	return m
}

// specExamples are the examples of JSON-RPC 2.0, section 7, in order: a message and its response.
var specExamples = []struct{ name, in, want string }{
	{"positional 1", `{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}`, `{"jsonrpc": "2.0", "result": 19, "id": 1}`},
	{"positional 2", `{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}`, `{"jsonrpc": "2.0", "result": -19, "id": 2}`},
	{"named 1", `{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}`, `{"jsonrpc": "2.0", "result": 19, "id": 3}`},
	{"named 2", `{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}`, `{"jsonrpc": "2.0", "result": 19, "id": 4}`},
	{"notification", `{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}`, ``},
	{"notification of no method", `{"jsonrpc": "2.0", "method": "foobar"}`, ``},
	{"no such method", `{"jsonrpc": "2.0", "method": "foobar", "id": "1"}`, `{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}`},
	{"invalid JSON", `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`, `{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}`},
	{"invalid request", `{"jsonrpc": "2.0", "method": 1, "params": "bar"}`, `{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}`},
	{"batch, invalid JSON", `[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]`, `{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}`},
	{"empty array", `[]`, `{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}`},
	{"invalid batch", `[1]`, `[
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
]`},
	{"invalid batch of three", `[1,2,3]`, `[
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
]`},
	{"batch", `[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
  {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
  {"foo": "boo"},
  {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
  {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
]`, `[
  {"jsonrpc": "2.0", "result": 7, "id": "1"},
  {"jsonrpc": "2.0", "result": 19, "id": "2"},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},
  {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}
]`},
	{"batch of notifications", `[
  {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
  {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
]`, ``},
}

// compact removes the white space from the text of the specification: the rest must be equal byte
// for byte.
func compact(t testing.TB, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	b, err := json.Marshal(json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExamplesOfTheSpecification(t *testing.T) {
	if len(specExamples) != 15 {
		t.Fatalf("%d examples, the specification has 15", len(specExamples))
	}
	m := specMux()
	for _, mode := range []Mode{0, Quick} {
		a := &Answerer{Handler: m, Mode: func(string) Mode { return mode }}
		for _, tt := range specExamples {
			got, _ := a.Answer(t.Context(), nil, []byte(tt.in), &Exchange{})
			if want := compact(t, tt.want); string(got) != want {
				t.Errorf("%s (mode %d)\n in   %s\n got  %s\n want %s", tt.name, mode, tt.in, got, want)
			}
		}
	}
}
