package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestTraceID(t *testing.T) {
	const id, good = "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for parent, want := range map[string]string{
		good: id, strings.Replace(good, "00-", "01-", 1): id, strings.Replace(good, "00-", "cc-", 1) + "-what-comes": id,
		"": "", good + "-x": "", strings.Replace(good, "00-", "ff-", 1): "", strings.ToUpper(good): "", good[:54]: "", strings.Replace(good, "00-", "01-", 1) + "x": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": "",
		"00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01": "", strings.ReplaceAll(good, "-", "_"): "",
	} {
		if got := traceIDOf(parent); got != want {
			t.Errorf("the trace of %q is %q, want %q", parent, got, want)
		}
	}
	for params, want := range map[string]string{
		`{"_meta":{"traceparent":"` + good + `"}}`: id, `{"_meta":{"traceparent":1}}`: "", `{"_meta":{"traceparent":""}}`: "", `{"_meta":[]}`: "", `[1]`: "", "": "",
	} {
		if got := traceIDIn(t.Context(), jsonrpc.Raw(params)); got != want {
			t.Errorf("the trace of %s is %q, want %q", params, got, want)
		}
	}
}

// TestTraceIsSentOn checks that the trace of an HTTP request reaches the server, and no wrong one.
func TestTraceIsSentOn(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var sent http.Header
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header }))
	t.Cleanup(up.Close)
	for _, tt := range []struct {
		parents      []string
		state        string
		parent, want string
	}{
		{[]string{good}, "a=1", good, "a=1"},
		{[]string{good}, strings.Repeat("x", 600), good, ""},
		{[]string{good, good}, "a=1", "", ""},
		{[]string{"wrong"}, "a=1", "", ""},
		{nil, "a=1", "", ""},
	} {
		handler := traced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodPost, up.URL, nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := (&http.Client{Transport: traceTrip{http.DefaultTransport}}).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		}))
		r := httptest.NewRequest(http.MethodPost, "/rpc", nil)
		r.Header["Traceparent"], r.Header["Tracestate"] = tt.parents, []string{tt.state}
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if sent.Get("Traceparent") != tt.parent || sent.Get("Tracestate") != tt.want {
			t.Errorf("of %q %.10q the server gets %q %q", tt.parents, tt.state, sent.Get("Traceparent"), sent.Get("Tracestate"))
		}
	}
}
