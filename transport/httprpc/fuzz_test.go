package httprpc

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// FuzzServer checks for any method, headers and body that nothing panics, that the status is a
// documented one, and that a body with a JSON media type is JSON.
func FuzzServer(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("POST", "application/json", "", text)
		f.Add("POST", "application/json", "application/json, text/event-stream", text)
		f.Add("POST", "application/json; charset=utf-8", "text/event-stream", text)
	}
	f.Add("GET", "", "*/*", []byte(nil))
	f.Add("POST", "text/plain", "text/html", []byte("{}"))
	server := Handler(methods())
	server.MaxMessage = 1000
	f.Fuzz(func(t *testing.T, method, contentType, accept string, body []byte) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		r.Method = method
		r.Header.Set("Content-Type", contentType)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		text := w.Body.Bytes()
		switch w.Code {
		case http.StatusOK:
			stream := strings.HasPrefix(w.Body.String(), "data: ")
			if stream != (w.Header().Get("Content-Type") == "text/event-stream") {
				t.Fatalf("Content-Type %q for %q", w.Header().Get("Content-Type"), text)
			}
			if stream {
				return // the stream reader has its own fuzz target
			}
			if !json.Valid(text) {
				t.Fatalf("%q is answered %q, which is no JSON", body, text)
			}
		case http.StatusNoContent:
			if len(text) > 0 {
				t.Fatalf("204 with a body %q", text)
			}
		case 405, 406, 413, 415:
			if json.Valid(text) || !bytes.HasSuffix(text, []byte("\n")) {
				t.Fatalf("%d with %q", w.Code, text)
			}
		case 429, 502, 503:
			if !bytes.Contains(body, []byte("fail")) {
				t.Fatalf("%q is answered %d", body, w.Code)
			}
		default:
			t.Fatalf("%s %q is answered %d", method, body, w.Code)
		}
	})
}

// FuzzClient checks for any response that nothing panics, and that no result is returned that the
// server did not send.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":1}`, `[{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}]`, ``, `[`, `null`,
		"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1}\n\n", ": x\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n",
	} {
		f.Add(200, "application/json", seed)
		f.Add(200, "text/event-stream", seed)
		f.Add(404, "application/json", seed)
	}
	f.Fuzz(func(t *testing.T, status int, contentType, body string) {
		if status < 200 || status > 599 || status/100 == 3 {
			return // net/http handles these
		}
		c := NewClient("http://server.example/", &Options{
			MaxMessage: 1000,
			HTTP: &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Request: r,
					Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1,
				}, nil
			})},
		})
		defer c.Close()
		var got jsonrpc.Raw
		err := c.Call(t.Context(), "x", nil, &got)
		if err == nil && !strings.Contains(body, string(got)) && !strings.Contains(contentType, "event-stream") {
			t.Fatalf("%q gave the result %q", body, got)
		}
		if err != nil && got != nil {
			t.Fatalf("%q gave the error %v and the result %q", body, err, got)
		}
		items := []jsonrpc.Item{{Method: "a", Result: new(jsonrpc.Raw)}, {Method: "b"}, {Method: "c", Notify: true}}
		_ = c.Batch(t.Context(), items) // every item has an outcome, and nothing panics
	})
}
