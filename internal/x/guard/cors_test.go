package guard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCORS checks that a page of a configured origin may send requests and read responses, and that
// other origins get no CORS headers.
func TestCORS(t *testing.T) {
	d := mustDoor(t, &Options{Origins: []string{"https://app.example"}})
	h := d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	for _, tt := range []struct {
		name, method, host, origin, asks string
		status                           int
		allowed                          string
	}{
		{"a preflight", "OPTIONS", "localhost:3000", "https://app.example", "POST", 204, "https://app.example"},
		{"the request, though refused", "POST", "localhost:3000", "https://app.example", "", 401, "https://app.example"},
		{"another page's preflight", "OPTIONS", "localhost:3000", "https://evil.example", "POST", 403, ""},
		{"another page", "POST", "localhost:3000", "https://evil.example", "", 403, ""},
		{"null", "OPTIONS", "localhost:3000", "null", "POST", 403, ""},
		{"a longer name", "OPTIONS", "localhost:3000", "https://app.example.evil.example", "POST", 403, ""},
		{"another Host", "OPTIONS", "evil.example", "https://app.example", "POST", 403, ""},
		{"no page", "POST", "localhost:3000", "", "", 401, ""},
	} {
		r := came(tt.method, tt.host)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.asks != "" {
			r.Header.Set("Access-Control-Request-Method", tt.asks)
			r.Header.Set("Access-Control-Request-Headers", "content-type, mcp-param-city, x-other")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Access-Control-Allow-Origin") != tt.allowed {
			t.Errorf("%s: got %d %v", tt.name, w.Code, w.Header())
		}
		if tt.allowed != "" && !strings.Contains(strings.Join(w.Header()["Vary"], ","), "Origin") {
			t.Errorf("%s: no Vary: %v", tt.name, w.Header())
		}
		headers := w.Header().Get("Access-Control-Allow-Headers")
		if tt.status == 204 && (!strings.Contains(headers, "mcp-param-city") || !strings.Contains(headers, "Last-Event-ID") || strings.Contains(headers, "x-other")) {
			t.Errorf("%s: %q", tt.name, headers)
		}
		if tt.status == 401 && tt.allowed != "" && !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "Mcp-Session-Id, WWW-Authenticate") {
			t.Errorf("%s: %v", tt.name, w.Header())
		}
	}
}
