//go:build !race

package mcp_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// mallocs returns the mean number of allocations of f. The race detector makes some of its own.
func mallocs(f func()) float64 {
	const runs = 300
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

// walks returns how often f iterates over the members of an object of its payload. It replaces a
// member name by one with an escape: each iteration then allocates one buffer for it, and nothing
// else changes.
func walks(payload, name string, f func(payload []byte)) int {
	escaped := fmt.Sprintf(`\u%04x`, name[0]) + name[1:]
	with, without := []byte(strings.Replace(payload, name, escaped, 1)), []byte(payload)
	count := mallocs(func() { f(with) }) - mallocs(func() { f(without) })
	return int(math.Round(count))
}

// TestParamsAreReadOnce counts how often the members of the params and of their _meta are read for
// both rounds of a tool that asks the user.
func TestParamsAreReadOnce(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	defer s.Close()
	form := mcp.FormOf[struct {
		Name string `json:"name"`
	}]()
	mcp.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		answer, err := r.Elicit(ctx, "who", &mcp.Elicitation{Message: "Who are you?", RequestedSchema: form})
		if err != nil {
			return "", err
		}
		return string(answer.Content), nil
	})
	headers := map[string][]string{mcp.HeaderProtocolVersion: {"2026-07-28"}, mcp.HeaderMethod: {mcp.MethodToolsCall}, mcp.HeaderName: {"ask"}}
	var a jsonrpc.Answerer
	s.Configure(&a, s)
	answer := func(x *jsonrpc.Exchange) func(payload []byte) []byte {
		return func(payload []byte) []byte {
			out, e := a.Answer(t.Context(), nil, payload, x)
			if e != nil {
				t.Fatal(e)
			}
			return out
		}
	}
	plain := answer(&jsonrpc.Exchange{})
	overHTTP := answer(&jsonrpc.Exchange{Check: func(_ context.Context, req *jsonrpc.Request) error {
		return s.CheckHeaders(req, func(name string) []string { return headers[name] })
	}})
	const format = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	first := fmt.Sprintf(format, "")
	var asked struct {
		Result struct {
			State  jsonrpc.Raw            `json:"requestState"`
			Inputs map[string]jsonrpc.Raw `json:"inputRequests"`
		} `json:"result"`
	}
	response := plain([]byte(first))
	if err := jsonrpc.Raw(response).Decode(&asked); err != nil || len(asked.Result.Inputs) != 1 {
		t.Fatalf("%s: %v", response, err)
	}
	var key string
	for key = range asked.Result.Inputs {
	}
	second := fmt.Sprintf(format, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"name":"Ada"}}},"requestState":%s`, key, asked.Result.State))
	if response := plain([]byte(second)); !strings.Contains(string(response), "Ada") {
		t.Fatalf("%s", response)
	}
	for _, tt := range []struct {
		round, payload string
		answer         func([]byte) []byte
		where          string
		want           int
	}{
		{"first", first, plain, "on a connection", 1},
		{"second", second, plain, "on a connection", 1},
		{"first", first, overHTTP, "over HTTP", 2}, // one for the check of the headers
		{"second", second, overHTTP, "over HTTP", 2},
	} {
		for object, name := range map[string]string{"params": `name":"ask`, "_meta": `io.modelcontextprotocol/clientCap`} {
			if got := walks(tt.payload, name, func(payload []byte) { tt.answer(payload) }); got != tt.want {
				t.Errorf("%s round %s: %d walks over %s, want %d", tt.round, tt.where, got, object, tt.want)
			}
		}
	}
}
