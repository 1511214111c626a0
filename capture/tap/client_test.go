package tap_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
)

func TestRoundTripper(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":2}\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer server.Close()
	rec := newRecorder(t)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: tap.RoundTripper(rec.Wire(capture.WireInfo{Target: server.URL}), base)}
	const call = `{"jsonrpc":"2.0","id":1,"method":"a"}`
	for path, body := range map[string]io.Reader{"/stream": strings.NewReader(call), "/": io.MultiReader(strings.NewReader(call))} {
		res, err := client.Post(server.URL+path, "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		_ = res.Body.Close()
	}
	got := seen(rec)
	for _, want := range []string{
		"http POST /stream 200 done", "http POST / 200 done", "request out " + call, "request in " + call,
		`notification in {"jsonrpc":"2.0","method":"tick"}`, `result in {"jsonrpc":"2.0","id":1,"result":2}`,
	} {
		if !strings.Contains(strings.Join(got, "\n")+"\n", want+"\n") {
			t.Errorf("%q was not recorded: %s", want, cmp.Diff([]string{}, got))
		}
	}
}
