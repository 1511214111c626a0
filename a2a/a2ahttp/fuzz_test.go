package a2ahttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// FuzzHTTP checks that any request gets a response of the form that its path requires: JSON-RPC,
// the body of an error, or plain text with a status below 500.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []struct{ method, path, version, body string }{
		{"POST", "/", "1.0", send10}, {"POST", "/", "", send03}, {"POST", "/", "9", "[]"}, {"POST", "/message:send", "", `{"message":null}`},
		{"GET", "/tasks?pageSize=5&status=working", "", ""}, {"GET", "/t/tasks/x%2Fy", "1.0", ""}, {"POST", "/tasks/x:cancel", "", "null"},
		{"DELETE", "/tasks/a/pushNotificationConfigs/b", "", ""}, {"GET", "/.well-known/agent-card.json", "0.3", ""}, {"PUT", "/tasks/%zz", "", "{}"},
	} {
		f.Add(seed.method, seed.path, seed.version, seed.body)
	}
	s := a2a.NewServer(card(), a2a.AgentFunc(echo), nil)
	f.Cleanup(s.Close)
	h := &a2ahttp.Server{A2A: s, Unguarded: true}
	f.Fuzz(func(t *testing.T, method, path, version, body string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") || method == "" || strings.ContainsFunc(method, func(c rune) bool { return c < 'A' || c > 'Z' }) {
			return
		}
		r := &http.Request{Method: method, URL: u, Host: "127.0.0.1", Header: http.Header{"Content-Type": {"application/json"}, "A2a-Version": {version}},
			Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		if body != "" {
			full := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
			r.Body, r.ContentLength = full.Body, full.ContentLength
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 {
			t.Errorf("%s %s %q: %d %s", method, path, body, w.Code, w.Body)
		}
		if strings.HasSuffix(w.Header().Get("Content-Type"), "json") && w.Body.Len() > 0 {
			if _, err := jsonrpc.ParseRaw(w.Body.Bytes()); err != nil {
				t.Errorf("%s %s %q: %v in %s", method, path, body, err, w.Body)
			}
		}
	})
}
