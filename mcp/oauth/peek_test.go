package oauth

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// FuzzPeek checks that the guard sees the same message as the handler. For each request that the
// engine passes to a handler, its method and the name in its params must be among the calls whose
// scopes were checked, or the guard must have rejected the body.
func FuzzPeek(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}},{"jsonrpc":"2.0","method":"x"},1]`,
		`{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools\/call","params":{"n\u0061me":"dr\u006fp"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"secret:1","name":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","Method":"b","params":{"Name":"x","name":"y"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud83d"}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}",
		" \t\r\n{\"jsonrpc\":\"2.0\",\"method\":\"x\"} ",
		"\ufeff{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
		`{"jsonrpc":"2.0","method":"x"}{"jsonrpc":"2.0","method":"y"}`,
		`{"jsonrpc":"2.0","method":"x","params":["name","drop"]}`,
		`[{"jsonrpc":"2.0","method":""}]`, ``, `[]`, `null`, `"tools/call"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		calls, err := peek(text)
		if err != nil {
			return // answered with 400
		}
		var ran []call
		a := &jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			c := call{method: req.Method}
			var p map[string]any
			// A different parser than peek: the last of two duplicates counts.
			if json.Unmarshal(req.Params, &p) == nil {
				c.name, _ = p["name"].(string)
				if c.method == "resources/read" || c.method == "resources/subscribe" || c.method == "resources/unsubscribe" {
					c.name, _ = p["uri"].(string)
				}
			}
			ran = append(ran, c)
			return nil, nil
		}), Limits: jsonrpc.Limits{Parallel: 1}}
		_, _ = a.Answer(t.Context(), nil, slices.Clone(text), &jsonrpc.Exchange{})
		for _, c := range ran {
			if !slices.Contains(calls, c) {
				t.Fatalf("%q runs %+v, and the guard saw %+v", text, c, calls)
			}
		}
	})
}
