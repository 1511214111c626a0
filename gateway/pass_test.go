package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// passTo returns the address /s/NAME of a gateway in front of an HTTP server.
func passTo(t *testing.T, protocol string, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	// The lists of MCP servers at /mcp are fetched at the start, and the tests count requests.
	const other = "  other: {url: \"http://127.0.0.1:1\", protocol: mcp}\ngateway: {mcp: {sets: {default: {servers: [other]}}}}\n"
	_, at := start(t, "servers:\n  one: {url: \"{one}\", protocol: "+protocol+", headers: {X-Api-Key: own-secret}}\n"+other,
		map[string]string{"one": web.URL + "/base"})
	at.Path = "/s/one"
	return at.URL()
}

// TestMCPPassesThrough checks all of a session in each version of MCP over HTTP: calls, progress,
// questions of the server, errors, and the end.
func TestMCPPassesThrough(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "one", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "greet"}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		if err := r.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		e, err := r.Elicit(ctx, "who", &mcp.Elicitation{Message: "Who?"})
		if err != nil {
			return "", err
		}
		return "action " + e.Action, nil
	})
	h := mcphttp.NewHandler(s, nil)
	t.Cleanup(func() { _ = h.Close() })
	at := passTo(t, config.MCP, http.StripPrefix("/base", h))
	for _, version := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326} {
		t.Run(version.String(), func(t *testing.T) {
			asked, progress := 0, 0
			c, err := mcphttp.Connect(t.Context(), at, mcp.Implementation{Name: "test", Version: "1"}, &mcphttp.ClientOptions{Client: mcp.ClientOptions{
				Versions: []mcp.Version{version},
				Elicit: func(context.Context, *mcp.Elicitation) (*mcp.ElicitResult, error) {
					asked++
					return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{}`)}, nil
				},
			}})
			if err != nil {
				t.Fatal(err)
			}
			tools, err := c.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "greet" {
				t.Errorf("ListTools returned %v, %v, want greet", tools, err)
			}
			if _, err := c.CallTool(t.Context(), "none", nil, nil); err == nil {
				t.Error("an unknown tool: no error")
			}
			result, err := c.CallTool(t.Context(), "greet", nil, &mcp.CallOptions{Progress: func(mcp.Progress) { progress++ }})
			want := 1
			if !version.HasElicitation() {
				want = 0
			}
			if err != nil || asked != want || progress == 0 || want == 1 && result.Text() != "action accept" {
				t.Errorf("CallTool returned %v, %v after %d questions and %d progress messages", result, err, asked, progress)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// seen records the requests that an upstream gets.
type seen struct {
	requests []*http.Request
	bodies   []string
	respond  func(w http.ResponseWriter)
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(body))
	if s.respond != nil {
		s.respond(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(mcp.HeaderSession, "upstream-session")
	w.Header().Set("Set-Cookie", "a=b")
	w.Header().Set("Server", "secret-server/1.0")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

// A received is the head of a response whose body was read.
type received struct {
	StatusCode int
	Header     http.Header
}

// send sends one request and returns the response and its body.
func send(t testing.TB, method, address, body string, header http.Header) (received, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if r.Header = header.Clone(); r.Header == nil {
		r.Header = make(http.Header)
	}
	if body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return received{resp.StatusCode, resp.Header}, string(text)
}

// TestPassedHeaders checks that only the listed headers pass in each direction, and that session
// IDs are sealed.
func TestPassedHeaders(t *testing.T) {
	up := new(seen)
	at := passTo(t, config.MCP, up)
	const body = ` {"method":"tools/call","id":1,"params":{"name":"t","arguments":{"region":"eu","n":1000000}},"jsonrpc":"2.0"} `
	header := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"},
		"Mcp-Name": {"t"}, "Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"1000000"}, "Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"},
		"Cookie": {"c=d"}, "X-Api-Key": {"mine"}, "X-Forwarded-For": {"1.2.3.4"}, "Forwarded": {"for=1.2.3.4"},
		"X-Real-Ip": {"1.2.3.4"}, "Proxy-Authorization": {"Basic eA=="}, "User-Agent": {"client"}, "X-Other": {"1"},
	}
	resp, text := send(t, http.MethodPost, at, body, header)
	if resp.StatusCode != 200 || text != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Fatalf("HTTP %d %s", resp.StatusCode, text)
	}
	want := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"},
		"Mcp-Name": {"t"}, "Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"1000000"}, "Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"},
		"X-Api-Key": {"own-secret"}, "Content-Type": {"application/json"}, "Content-Length": {"110"}, "Accept-Encoding": {"gzip"},
	}
	got := up.requests[0].Header.Clone()
	delete(want, "Content-Length")
	delete(want, "Accept-Encoding")
	delete(got, "Content-Length")
	if len(got) != len(want) {
		t.Errorf("the upstream got the headers %v, want %v", got, want)
	}
	for name, values := range want {
		if !slices.Equal(got[name], values) {
			t.Errorf("the upstream got %s: %q, want %q", name, got[name], values)
		}
	}
	const written = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"region":"eu","n":1000000}}}`
	if up.bodies[0] != written || up.requests[0].URL.Path != "/base" {
		t.Errorf("the upstream got %s at %s, want %s at /base", up.bodies[0], up.requests[0].URL.Path, written)
	}
	sealed := resp.Header.Get(mcp.HeaderSession)
	if sealed == "" || strings.Contains(sealed, "upstream") || resp.Header.Get("Set-Cookie") != "" || resp.Header.Get("Server") != "" {
		t.Errorf("the client got the headers %v", resp.Header)
	}

	if _, _ = send(t, http.MethodDelete, at, "", http.Header{"Mcp-Session-Id": {sealed}}); up.requests[1].Header.Get(mcp.HeaderSession) != "upstream-session" {
		t.Errorf("the upstream got the session %q, want its own", up.requests[1].Header.Get(mcp.HeaderSession))
	}
	for _, id := range []string{"upstream-session", sealed[1:], strings.Repeat("A", 5000)} {
		if resp, _ := send(t, http.MethodPost, at, body, http.Header{"Mcp-Session-Id": {id}}); resp.StatusCode != http.StatusNotFound {
			t.Errorf("session %.40q: HTTP %d, want 404", id, resp.StatusCode)
		}
	}
	if len(up.requests) != 2 {
		t.Errorf("the upstream got %d requests, want 2", len(up.requests))
	}
}

// TestSmuggledRequests checks that nothing which the upstream could read in another way than the
// gateway reaches it.
func TestSmuggledRequests(t *testing.T) {
	up := new(seen)
	mcpAt, a2aAt := passTo(t, config.MCP, up), passTo(t, config.A2A, up)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{"a":1}}}`
	for _, tt := range []struct {
		name, method, at, body string
		header                 http.Header
		status                 int
	}{
		{"another method in the header", "POST", mcpAt, call, http.Header{"Mcp-Method": {"tools/list"}}, 400},
		{"another name in the header", "POST", mcpAt, call, http.Header{"Mcp-Name": {"dangerous"}}, 400},
		{"two names", "POST", mcpAt, call, http.Header{"Mcp-Name": {"safe", "dangerous"}}, 400},
		{"another argument in the header", "POST", mcpAt, call, http.Header{"Mcp-Param-A": {"2"}}, 400},
		{"two versions", "POST", mcpAt, call, http.Header{"Mcp-Protocol-Version": {"2025-06-18", "2026-07-28"}}, 400},
		{"two methods in the body", "POST", mcpAt, `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, nil, 400},
		{"not JSON", "POST", mcpAt, `{"jsonrpc":"2.0",`, nil, 400},
		{"text after the message", "POST", mcpAt, call + call, nil, 400},
		{"a path below", "POST", mcpAt + "/admin", call, nil, 404},
		{"a path above", "GET", a2aAt + "/../admin", "", nil, 404},
		{"an encoded path above", "GET", a2aAt + "/%2e%2e/admin", "", nil, 404},
		{"an encoded slash", "GET", a2aAt + "/v1%2fadmin", "", nil, 404},
		{"two slashes", "GET", a2aAt + "//admin", "", nil, 404},
		{"a backslash", "GET", a2aAt + "/v1%5cadmin", "", nil, 404},
		{"another HTTP method", "PUT", mcpAt, call, nil, 405},
		{"CONNECT", "TRACE", a2aAt + "/v1", "", nil, 405},
		{"another type", "POST", mcpAt, call, http.Header{"Content-Type": {"text/plain"}}, 415},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if resp, text := send(t, tt.method, tt.at, tt.body, tt.header); resp.StatusCode != tt.status {
				t.Errorf("HTTP %d %s, want %d", resp.StatusCode, text, tt.status)
			}
			if n := len(up.requests); n != 0 {
				t.Fatalf("the upstream got %d requests, want none", n)
			}
		})
	}
}

// TestUpstreamsThatMisbehave checks what a client gets in place of a response that is not passed
// on.
func TestUpstreamsThatMisbehave(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":"x","method":"tools/list"}`
	for _, tt := range []struct {
		name    string
		respond func(w http.ResponseWriter)
		reason  string
	}{
		{"redirect", func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://elsewhere.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "bad_answer"},
		{"credentials of the gateway are refused", func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, "bad_answer"},
		{"long session ID", func(w http.ResponseWriter) { w.Header().Set(mcp.HeaderSession, strings.Repeat("s", 300)) }, "bad_answer"},
		{"cut off", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "unreachable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := passTo(t, config.MCP, &seen{respond: tt.respond})
			resp, text := send(t, http.MethodPost, at, call, nil)
			want := `{"jsonrpc":"2.0","error":{"code":-31006,"message":"Upstream unavailable","data":{"reason":"` + tt.reason +
				`","retryable":false,"upstream":"one"}},"id":"x"}`
			if resp.StatusCode != http.StatusBadGateway || text != want {
				t.Errorf("HTTP %d %s, want 502 %s", resp.StatusCode, text, want)
			}
		})
	}
}

// TestInformationalResponses checks that no header of a response with status 1xx reaches the
// client.
func TestInformationalResponses(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=b\r\nLink: </x>\r\n\r\n"+
			"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
	}))
	t.Cleanup(up.Close)
	_, at := start(t, "servers:\n  one: {url: \"{one}\", protocol: mcp}\n  other: {url: \"http://127.0.0.1:9\", protocol: mcp}\n"+
		"gateway: {mcp: {sets: {default: {servers: [other]}}}}\n", map[string]string{"one": up.URL})
	c, err := net.Dial("tcp", at.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	_, _ = fmt.Fprintf(c, "POST /s/one HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", at.Address, len(body), body)
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "HTTP/1.1 200") || strings.Contains(got, "Set-Cookie") || strings.Contains(got, "Link:") || strings.Contains(got, " 103 ") {
		t.Errorf("the client got\n%s", got)
	}
}
