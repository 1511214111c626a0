package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestChecks checks that policy and limits apply to each call and to each member of a batch, and
// that what is rejected is not sent.
func TestChecks(t *testing.T) {
	up := named("one")
	_, g := start(t, `
servers:
  one: {url: "{one}", protocol: jsonrpc}
gateway:
  policy:
    - deny: {method: "secret.*"}
    - deny: {method: "pay", when: "arguments.amount > 1000"}
  limits:
    - {per: principal, method: "slow.*", rate: 2/m, burst: 2}
  routes:
    - {method: "*", to: one}
`, map[string]string{"one": serve(t, up, "http://127.0.0.1:0/rpc").String()})
	for _, tt := range []struct {
		name, send, want string
		status           int
	}{
		{"allowed", `{"jsonrpc":"2.0","method":"pay","params":{"amount":10},"id":1}`, `"result":["one","pay",{"amount":10}]`, 200},
		{"denied by an argument", `{"jsonrpc":"2.0","method":"pay","params":{"amount":2000},"id":1}`,
			`{"jsonrpc":"2.0","error":{"code":-31007,"message":"Denied by policy","data":{"reason":"denied","retryable":false,"upstream":"one"}},"id":1}`, 200},
		{"invisible", `{"jsonrpc":"2.0","method":"secret.read","id":1}`, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`, 200},
		{"one member of a batch", `[{"jsonrpc":"2.0","method":"pay","params":{"amount":2000},"id":1},{"jsonrpc":"2.0","method":"pay","params":{"amount":1},"id":2}]`,
			`"code":-31007`, 200},
		{"limit of a batch", `[{"jsonrpc":"2.0","method":"slow.a","id":1},{"jsonrpc":"2.0","method":"slow.a","id":2},{"jsonrpc":"2.0","method":"slow.a","id":3}]`,
			`"reason":"rate_limited","retryable":true,"retryAfterMs":`, 200},
		{"limit of a call", `{"jsonrpc":"2.0","method":"slow.a","id":4}`, `"reason":"rate_limited"`, http.StatusTooManyRequests},
		{"another name has its own limit", `{"jsonrpc":"2.0","method":"slow.b","id":4}`, `"result":`, 200},
	} {
		status, got := post(t, g, tt.send)
		if status != tt.status || !strings.Contains(got, tt.want) {
			t.Errorf("%s: HTTP %d %s, want %d %s", tt.name, status, got, tt.status, tt.want)
		}
		if tt.name == "limit of a batch" && strings.Count(got, `"result"`) != 2 {
			t.Errorf("%s: %s, want two results", tt.name, got)
		}
	}
}
