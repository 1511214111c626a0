package oauth

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// FuzzPeek: what runs behind the guard is what the guard has looked at. Each request that the engine hands to a handler, with the name
// that its params give, is among the calls that were held against the scopes, or the body did not get past the guard.
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
			return // answered 400
		}
		var ran []call
		a := &jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			c := call{method: req.Method}
			var p map[string]any
			if json.Unmarshal(req.Params, &p) == nil { // another reader than peek's: the last of two counts
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
