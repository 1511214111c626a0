package a2ahttp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// guarded returns a site that accepts a key in a header, or a token of either kind; the token
// "weak" is insufficient.
func guarded(t *testing.T) *site {
	c := card()
	c.SecuritySchemes = map[string]a2a.SecurityScheme{
		"key":   {APIKey: &a2a.APIKeyScheme{Location: "header", Name: "X-API-Key"}},
		"token": {HTTP: &a2a.HTTPAuthScheme{Scheme: "Bearer"}},
	}
	c.SecurityRequirements = []a2a.SecurityRequirement{
		{Schemes: map[string]a2a.StringList{"key": {}}},
		{Schemes: map[string]a2a.StringList{"token": {List: []string{"tasks"}}}},
	}
	return serve(t, c, echo, nil, func(h *a2ahttp.Server) {
		h.Authenticate = func(_ *http.Request, shown []a2ahttp.Credential) (string, error) {
			switch shown[0].Value {
			case "good-ann", "good-bob":
				return strings.TrimPrefix(shown[0].Value, "good-"), nil
			case "weak":
				return "", a2a.ErrForbidden
			}
			return "", a2a.ErrUnauthenticated
		}
	})
}

func TestSecurityIsEnforced(t *testing.T) {
	s := guarded(t)
	for _, one := range []struct {
		name, header, value string
		status              int
		challenge           string
		body                string
	}{
		{"nothing", "X-Nothing", "x", 401, "ApiKey, Bearer", `{"jsonrpc":"2.0","error":{"code":-31401,`},
		{"a bad token", "Authorization", "Bearer bad", 401, `ApiKey, Bearer error="invalid_token"`, `{"jsonrpc":"2.0","error":{"code":-31401,`},
		{"another scheme", "Authorization", "Basic good-ann", 401, "ApiKey, Bearer", `{"jsonrpc":"2.0","error":{"code":-31401,`},
		{"too little", "Authorization", "bearer weak", 403, `ApiKey, Bearer error="insufficient_scope"`, `{"jsonrpc":"2.0","error":{"code":-31403,`},
		{"a token", "Authorization", "Bearer good-ann", 200, "", `{"jsonrpc":"2.0","result":`},
		{"a key", "X-API-Key", "good-ann", 200, "", `{"jsonrpc":"2.0","result":`},
	} {
		t.Run(one.name, func(t *testing.T) {
			got := s.ask(t, http.MethodPost, "/rpc", send10, one.header, one.value)
			if got.status != one.status || got.header.Get("WWW-Authenticate") != one.challenge || !strings.HasPrefix(got.body, one.body) {
				t.Errorf("%d %q %s", got.status, got.header.Get("WWW-Authenticate"), got.body)
			}
		})
	}
	if got := s.ask(t, http.MethodGet, "/rest/tasks", ""); got.status != 401 || !strings.HasPrefix(got.body, `{"error":{"code":401,"status":"UNAUTHENTICATED"`) {
		t.Errorf("REST: %d %s", got.status, got.body)
	}
	if got := s.ask(t, http.MethodGet, a2ahttp.CardPath, ""); got.status != 200 {
		t.Errorf("the card: %d", got.status)
	}
	if _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/ws", nil); err == nil {
		t.Error("a WebSocket without credentials was opened")
	}
	var e *a2ahttp.StatusError
	if _, err := s.dial(t, nil).Send(t.Context(), text("x")); !errors.Is(err, a2ahttp.ErrUnauthorized) || !errors.As(err, &e) {
		t.Errorf("our client without a token: %v", err)
	}
}

func TestCallersSeeTheirOwn(t *testing.T) {
	s := guarded(t)
	ann, bob := s.dial(t, &a2ahttp.Options{Token: "good-ann"}), s.dial(t, &a2ahttp.Options{Token: "good-bob"})
	mine, err := ann.Send(t.Context(), text("mine"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Task(t.Context(), &a2a.GetTaskRequest{ID: mine.Task.ID}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Task of somebody else: %v", err)
	}
	if got, err := ann.Task(t.Context(), &a2a.GetTaskRequest{ID: mine.Task.ID}); err != nil || got.ID != mine.Task.ID {
		t.Errorf("Task = %+v, %v", got, err)
	}
}

func TestACardThatNobodyCanMeetLetsNobodyIn(t *testing.T) {
	c := card()
	c.SecurityRequirements = []a2a.SecurityRequirement{{Schemes: map[string]a2a.StringList{"unknown": {}}}}
	s := serve(t, c, echo, nil, func(h *a2ahttp.Server) {
		h.Authenticate = func(*http.Request, []a2ahttp.Credential) (string, error) { return "x", nil }
	})
	if got := s.ask(t, http.MethodPost, "/rpc", send10, "Authorization", "Bearer x"); got.status != 401 {
		t.Errorf("%d", got.status)
	}
	c.SecuritySchemes = map[string]a2a.SecurityScheme{"unknown": {MutualTLS: &a2a.MutualTLSScheme{}}}
	s.a2a.SetCard(c)
	if got := s.ask(t, http.MethodPost, "/rpc", send10); got.status != 401 {
		t.Errorf("%d without a certificate", got.status)
	}
}

func TestCard(t *testing.T) {
	s := serve(t, card(), echo, nil)
	pure := s.ask(t, http.MethodGet, a2ahttp.CardPath, "", "A2A-Version", "1.0")
	if strings.Contains(pure.body, `"protocolVersion":"0.3.0"`) || !strings.Contains(pure.body, `"url":"`+s.url+`/rpc"`) {
		t.Errorf("the card of 1.0: %s", pure.body)
	}
	union := s.ask(t, http.MethodGet, a2ahttp.CardPath, "")
	for _, member := range []string{`"protocolVersion":"0.3.0"`, `"preferredTransport":"JSONRPC"`, `"supportedInterfaces":[`, `"url":"` + s.url + `/rpc"`} {
		if !strings.Contains(union.body, member) {
			t.Errorf("the card for both lacks %s: %s", member, union.body)
		}
	}
	for _, got := range []answer{pure, union} {
		h := got.header
		if h.Get("ETag") == "" || h.Get("Last-Modified") == "" || h.Get("Cache-Control") != "max-age=300" || h.Values("Vary")[0] != "A2A-Version" {
			t.Errorf("headers %v", h)
		}
	}
	if pure.header.Get("ETag") == union.header.Get("ETag") {
		t.Error("two cards have one ETag")
	}
	if got := s.ask(t, http.MethodGet, a2ahttp.CardPath, "", "If-None-Match", `"x", W/`+union.header.Get("ETag")); got.status != 304 || got.body != "" {
		t.Errorf("If-None-Match: %d %s", got.status, got.body)
	}
	if got := s.ask(t, http.MethodGet, a2ahttp.CardPath, "", "If-Modified-Since", union.header.Get("Last-Modified")); got.status != 304 {
		t.Errorf("If-Modified-Since: %d", got.status)
	}
	changed := card()
	changed.Description = "changed"
	s.a2a.SetCard(changed)
	if got := s.ask(t, http.MethodGet, a2ahttp.CardPath, "", "If-None-Match", union.header.Get("ETag")); got.status != 200 {
		t.Errorf("after a change: %d", got.status)
	}
	if got := s.ask(t, http.MethodGet, a2ahttp.OldCardPath, ""); got.status != 200 {
		t.Errorf("the path of 0.2: %d", got.status)
	}
	only := serve(t, card(), echo, &a2a.ServerOptions{Versions: []a2a.Version{a2a.V10}})
	if got := only.ask(t, http.MethodGet, a2ahttp.CardPath, ""); strings.Contains(got.body, "0.3.0") {
		t.Errorf("the card of a server without 0.3: %s", got.body)
	}
	if got := only.ask(t, http.MethodPost, "/rpc", send03); !strings.Contains(got.body, "-32009") {
		t.Errorf("0.3 on a server without: %s", got.body)
	}
}

func TestExtensionsAreEchoed(t *testing.T) {
	c := card()
	c.Capabilities.Extensions = []a2a.AgentExtension{{URI: "urn:a"}, {URI: "urn:b"}}
	s := serve(t, c, echo, nil)
	got := s.ask(t, http.MethodPost, "/rpc", send10, "A2A-Extensions", "urn:b, urn:c,urn:a")
	if used := got.header.Get("A2A-Extensions"); used != "urn:a, urn:b" {
		t.Errorf("A2A-Extensions is %q", used)
	}
	if got := s.ask(t, http.MethodPost, "/rpc", send03, "X-A2A-Extensions", "urn:a"); got.header.Get("X-A2A-Extensions") != "urn:a" || got.header.Get("A2A-Extensions") != "" {
		t.Errorf("headers %v", got.header)
	}
}

func TestTheDoor(t *testing.T) {
	s := serve(t, card(), echo, nil)
	for _, path := range []string{"/rpc", "/rest/message:send", "/", "/ws", a2ahttp.CardPath} {
		for name, headers := range map[string][]string{"a page elsewhere": {"Origin", "https://evil.example"}, "no page at all": {"Origin", "null"}, "cross-site": {"Sec-Fetch-Site", "cross-site"}} {
			if got := s.ask(t, http.MethodPost, path, send10, headers...); got.status != 403 {
				t.Errorf("%s, %s: %d", path, name, got.status)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(send10))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "rebound.example"
		req.Header.Set("Content-Type", "application/json")
		got, err := s.web.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != 403 {
			t.Errorf("%s, another Host: %d", path, got.StatusCode)
		}
	}
	wrong := serve(t, card(), echo, nil, func(h *a2ahttp.Server) { h.Hosts = []string{"http://x"} })
	if got := wrong.ask(t, http.MethodPost, "/rpc", send10); got.status != 500 || a2ahttp.CheckNames([]string{"http://x"}, nil) == nil {
		t.Errorf("a wrong entry in Hosts: %d", got.status)
	}
}

func TestAPageThatMayCallMayOpenAWebSocket(t *testing.T) {
	s := serve(t, card(), echo, nil, func(h *a2ahttp.Server) { h.Origins = []string{"https://app.example"} })
	for page, ok := range map[string]bool{"https://app.example": true, "https://evil.example": false} {
		conn, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/ws", &websocket.Options{Header: http.Header{"Origin": {page}}, Subprotocols: []string{a2ahttp.Subprotocol}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", page, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestDrain(t *testing.T) {
	s := serve(t, card(), echo, nil)
	if err := s.http.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := s.ask(t, http.MethodPost, "/rpc", send10)
	if got.status != 503 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"code":-31004`) || !strings.Contains(got.body, `"data":[{"@type":`) {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}
