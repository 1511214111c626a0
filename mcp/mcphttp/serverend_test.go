package mcphttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestShutdown checks that running requests are answered, new ones are rejected, and listeners are
// notified, and that nothing remains open.
func TestShutdown(t *testing.T) {
	w := newSite(t, nil)
	session := w.open(t, "2025-06-18")
	get := w.begin(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream")...), "event-stream")
	pair := w.begin(t, w.request("GET", "/sse", "", "Accept: text/event-stream"), "event: endpoint")
	body, headers := modern(`"l"`, "subscriptions/listen", `"notifications":{}`)
	listen := w.begin(t, w.request("POST", "/mcp", body, headers...), "acknowledged")
	asked := w.begin(t, w.request("POST", "/mcp", call("1", "book", "{}"), session...), "event-stream")
	question := w.begin(t, w.request("POST", "/mcp", call("2", "book", "{}"), w.open(t, "2025-11-25")...), "elicitation/create")

	w.mcp.Close()
	if got := listen.until(t, `"resultType":"complete"`); !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"l"`) || !strings.HasSuffix(got, `"id":"l"}`) {
		t.Errorf("the end of listening: got %s", got)
	}
	asked.until(t, "elicitation/create")

	cause := errors.New("that is enough")
	ctx, enough := context.WithCancelCause(context.Background())
	down := make(chan error, 1)
	go func() { down <- w.handler.Shutdown(ctx) }()
	for refused := false; !refused; {
		got := w.modern(t, "5", "tools/list", "")
		refused = got.status == "503" && strings.Contains(got.body, `"code":-31004`) && strings.HasSuffix(got.body, `"id":5}`)
		if !refused && got.status != "200" {
			t.Fatalf("got %s %s", got.head, got.body)
		}
	}
	if got := w.post(t, initialize("2025-11-25")); got.status != "503" {
		t.Errorf("a new session: got %s", got.head)
	}
	// one of the two users answers
	w.post(t, `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, session...)
	asked.until(t, `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"decline"}]},"id":1}`)
	enough(cause)
	if err := within(t, down); !errors.Is(err, cause) {
		t.Errorf("Shutdown: %v", err)
	}
	for name, s := range map[string]*stream{"the session's stream": get, "the pair": pair, "who was asked": question} {
		if _, err := io.ReadAll(s.lines); err != nil {
			t.Errorf("%s did not end in order: %v", name, err)
		}
	}
	if w.handler.Sessions() != 0 {
		t.Errorf("%d sessions are left", w.handler.Sessions())
	}
}

// TestShutdownAtRest shuts down without running requests.
func TestShutdownAtRest(t *testing.T) {
	w := newSite(t, nil)
	w.open(t, "2025-06-18")
	if err := w.handler.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.handler.Close(); err != nil {
		t.Errorf("Close behind it: %v", err)
	}
}

// TestHTTP2 checks that streams and disconnecting work the same over HTTP/2.
func TestHTTP2(t *testing.T) {
	w := newSite(t, nil)
	web := httptest.NewUnstartedServer(w.Config.Handler)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	ask := func(ctx context.Context, body string, headers []string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, "POST", web.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		answer, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.ProtoMajor != 2 {
			t.Fatalf("it is %s", answer.Proto)
		}
		return answer
	}
	opened := ask(t.Context(), initialize("2025-11-25"), nil)
	opened.Body.Close()
	session := []string{"Mcp-Session-Id: " + opened.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version: 2025-11-25"}
	answer := ask(t.Context(), counting("1", 2), session)
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.HasPrefix(string(text), "id: 1-0\ndata: \n\nid: 1-1\n") || !strings.Contains(string(text), "id: 1-3\n") {
		t.Errorf("got %q, %v", text, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	body, headers := modern("1", "subscriptions/listen", `"notifications":{}`)
	listening := ask(ctx, body, headers)
	defer listening.Body.Close()
	leave()
	if err := w.handler.Shutdown(t.Context()); err != nil { // the listen request has ended
		t.Error(err)
	}
}

// TestLimits checks the limits of bodies and of concurrent requests.
func TestLimits(t *testing.T) {
	w := newSite(t, &mcphttp.Options{MaxMessage: 2000, MaxRunning: 1, MaxSessions: 1})
	body, headers := modern("1", "tools/call", `"name":"echo","arguments":{"x":"`+strings.Repeat("x", 2000)+`"}`)
	if got := w.post(t, body, headers...); got.status != "413" || got.kind != asText {
		t.Errorf("a long body: got %s", got.head)
	}
	body, headers = modern("1", "subscriptions/listen", `"notifications":{}`)
	w.begin(t, w.request("POST", "/mcp", body, headers...), "acknowledged")
	if got := w.modern(t, "2", "tools/list", ""); got.status != "429" || !strings.Contains(got.body, `"code":-31001`) || got.header("Retry-After") == "" {
		t.Errorf("one too many: got %s\n%s", got.head, got.body)
	}
	session := w.open(t, "2025-11-25")
	if got := w.post(t, initialize("2025-11-25")); got.status != "503" || got.header("Retry-After") != "5" || !strings.Contains(got.body, `"id":0}`) {
		t.Errorf("a session too many: got %s\n%s", got.head, got.body)
	}
	if got := w.post(t, call("1", "calculator/add", `{"a":1,"b":1}`), session...); got.status != "200" {
		t.Errorf("within the session: got %s", got.head)
	}
	for _, tt := range []struct {
		name, status string
		headers      []string
	}{
		{"text", "415", []string{"Content-Type: text/plain"}},
		{"HTML wanted", "406", []string{"Accept: text/html"}},
	} {
		if got := w.post(t, body, tt.headers...); got.status != tt.status {
			t.Errorf("%s: got %s, want %s", tt.name, got.head, tt.status)
		}
	}
	if got := replyOf(w.send(t, w.request("PUT", "/mcp", ""))); got.status != "405" || got.header("Allow") != "GET, POST, DELETE" {
		t.Errorf("PUT: got %s", got.head)
	}
}
