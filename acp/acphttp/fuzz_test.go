package acphttp

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// FuzzREST checks that any request with any body gets a response, that the response is JSON or a
// stream unless the HTTP request itself is rejected, and that its status is never 500.
func FuzzREST(f *testing.F) {
	for _, path := range []string{"/ping", "/agents", "/agents?limit=1&offset=0", "/agents/echo", "/runs", "/runs/" + uuid1, "/runs/" + uuid1 + "/cancel",
		"/runs/" + uuid1 + "/events?after=-1", "/sessions/" + uuid1, "/resources/" + uuid1, "/runs//", "//", "/%2e%2e/x", "/runs/%00"} {
		for _, body := range []string{"", "{}", sdkBody("echo", "x", "sync", ""), sdkBody("echo", "x", "stream", ""), sdkBody("echo", "x", "async", `,"session_id":"`+uuid1+`"`), "\xff["} {
			f.Add("GET", path, "1", []byte(body))
			f.Add("POST", path, "", []byte(body))
		}
	}
	s := newStage(f, &acp.Options{Limits: acp.Limits{Runs: 10, Sessions: 10}})
	h, err := NewREST(s.Server, &Options{NoDoor: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, last string, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, bytes.NewReader(body))
		if err != nil || strings.ContainsAny(last, "\r\n") {
			return
		}
		req.RequestURI = path
		req.Header.Set("Content-Type", "application/json")
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		kind := w.Header().Get("Content-Type")
		switch {
		case w.Code == 500:
			t.Errorf("%s %s %q: %s", method, path, body, w.Body)
		case kind == "application/json":
			if _, err := jsonrpc.ParseRaw(w.Body.Bytes()); err != nil {
				t.Errorf("%s %s %q: %s", method, path, body, w.Body)
			}
		case kind == "text/event-stream" && w.Code == 200, kind == "text/plain; charset=utf-8" && w.Code >= 400, w.Code == 204:
		default:
			t.Errorf("%s %s %q: %d %s", method, path, body, w.Code, kind)
		}
	})
}

// FuzzGoOn checks that inserting a header's event number into the params of a subscription leaves
// them valid and complete.
func FuzzGoOn(f *testing.F) {
	for _, params := range []string{`{}`, `{"run_id":"x"}`, "{ \n\t}", `{"after":1}`, `{"after":null,"run_id":"x"}`, `[]`, `{"x":{}}`} {
		f.Add("7", []byte(params))
	}
	f.Add("x", []byte(`{}`))
	f.Fuzz(func(t *testing.T, last string, text []byte) {
		params, err := jsonrpc.ParseRaw(text)
		if err != nil || params[0] != '{' {
			return
		}
		before := params.Clone()
		r := &http.Request{Header: http.Header{"Last-Event-Id": {last}}}
		req := &jsonrpc.Request{Method: acp.MethodRunsSubscribe, Params: params}
		if goOn(r, req) != nil {
			return
		}
		if _, err := jsonrpc.ParseRaw(req.Params); err != nil {
			t.Fatalf("%s became %s: %v", before, req.Params, err)
		}
		if !bytes.Equal(params, before) {
			t.Fatalf("the params themselves were changed: %s", params)
		}
	})
}
