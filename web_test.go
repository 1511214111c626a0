package parley

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// roundTrip makes one request on a connection of its own.
func roundTrip(t *testing.T, req *http.Request) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	return answer.StatusCode, string(text)
}

// sameMembers compares two JSON objects whose members may stand in another order.
func sameMembers(a, b string) bool {
	var x, y map[string]any
	return jsonrpc.Raw(a).Decode(&x) == nil && jsonrpc.Raw(b).Decode(&y) == nil && cmp.Equal(x, y)
}
