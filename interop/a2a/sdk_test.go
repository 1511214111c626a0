package a2a_test

import (
	"net/http"
	"testing"

	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/interop/harness"
)

func newMux(h *a2ahttp.Server) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(a2ahttp.CardPath, h.Card())
	mux.Handle("/rpc", h.RPC())
	mux.Handle("/rest/", http.StripPrefix("/rest", h.REST()))
	return mux
}

func TestJavaScriptClient(t *testing.T) {
	for _, transport := range []string{"JSONRPC", "HTTP+JSON"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			harness.Checks(t, harness.Node(t, "client.mjs", ours(t), transport))
		})
	}
}

func TestJavaScriptClient03(t *testing.T) {
	t.Parallel()
	harness.Checks(t, harness.Node(t, "client03.mjs", ours(t)))
}
