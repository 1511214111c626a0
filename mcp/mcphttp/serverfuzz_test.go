package mcphttp_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// FuzzHandler sends arbitrary requests. Each response has a documented status, and its body is
// JSON-RPC with the ID of the request, plain text, an event stream, or empty.
func FuzzHandler(f *testing.F) {
	list, headers := modern("1", "tools/list", "")
	f.Add("POST", list, headers[0]+"\n"+headers[1], "application/json", "application/json, text/event-stream")
	f.Add("POST", initialize("2025-11-25"), "", "application/json", "application/json, text/event-stream")
	f.Add("POST", call("9007199254740993", "echo", `{"a":1}`), "Mcp-Session-Id: SESSION", "application/json", "application/json, text/event-stream")
	f.Add("POST", "["+call("1", "echo", `{}`)+"]", "Mcp-Session-Id: SESSION\nMCP-Protocol-Version: 2025-03-26", "application/json", "text/event-stream")
	f.Add("POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, "", "application/json", "*/*")
	f.Add("POST", ``, "Mcp-Session-Id: x", "text/plain", "text/html")
	f.Add("GET", ``, "Mcp-Session-Id: x", "", "text/event-stream")
	f.Add("DELETE", ``, "Mcp-Session-Id: x\nMcp-Session-Id: y", "", "")
	f.Add("OPTIONS", ``, "Origin: https://evil.example\nAccess-Control-Request-Method: POST", "", "")
	s := mcp.NewServer(mcp.Implementation{Name: "fuzz", Version: "1"}, nil)
	if err := s.AddTool(mcp.Tool{Name: "echo", InputSchema: jsonrpc.Raw(`{"type":"object"}`)}, echo); err != nil {
		f.Fatal(err)
	}
	h := mcphttp.NewHandler(s, &mcphttp.Options{Unguarded: true, MaxSessions: 100})
	f.Cleanup(func() { _ = h.Close() }) // never fails without conversations
	statuses := []int{200, 202, 204, 400, 404, 405, 406, 413, 415, 429, 500, 503}
	f.Fuzz(func(t *testing.T, method, body, header, kind, accept string) {
		if strings.Contains(body, "subscriptions/listen") || method == "GET" && strings.Contains(header, "SESSION") {
			return // it would not end
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/mcp", strings.NewReader(body))
		if err != nil {
			return
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Accept", accept)
		for line := range strings.SplitSeq(header, "\n") {
			if name, value, ok := strings.Cut(line, ": "); ok {
				r.Header.Add(name, strings.ReplaceAll(value, "SESSION", session(t, h)))
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains(statuses, w.Code) {
			t.Errorf("%s %q %q: status %d", method, header, body, w.Code)
		}
		if w.Header().Get("Content-Type") != "application/json" {
			return
		}
		var asked, answered []jsonrpc.ID
		_ = jsonrpc.Scan([]byte(body), func(m *jsonrpc.Message) { // an unreadable body has no IDs
			if m.Request && !m.ID.IsZero() {
				asked = append(asked, m.ID)
			}
		})
		text := w.Body.Bytes()
		if bytes.HasSuffix(text, []byte("}}")) && bytes.HasPrefix(text, []byte(`{"jsonrpc":"2.0","error":`)) {
			return // without an ID
		}
		if e := jsonrpc.Scan(text, func(m *jsonrpc.Message) {
			if m.Request || m.Bad != nil {
				t.Errorf("%q was answered with a request or nonsense: %s", body, text)
			}
			answered = append(answered, m.ID)
		}); e != nil {
			t.Errorf("%q was answered with no JSON-RPC: %s", body, text)
		}
		for _, id := range answered {
			if !id.IsNull() && !slices.Contains(asked, id) {
				t.Errorf("%q was answered with the id %s", body, id)
			}
		}
	})
}

// session opens a session, so that requests can refer to one.
func session(t *testing.T, h *mcphttp.Handler) string {
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", strings.NewReader(initialize("2025-03-26")))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Header().Get("Mcp-Session-Id")
}
