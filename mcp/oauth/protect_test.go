package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// known verifies tokens that contain their own meaning: "alice:a b", "sick"; any other token is
// invalid.
var known = oauth.VerifierFunc(func(_ context.Context, token string) (*oauth.Identity, error) {
	name, scopes, ok := strings.Cut(token, ":")
	switch {
	case token == "sick":
		return nil, errors.New("the keys are not there")
	case !ok:
		return nil, oauth.ErrToken
	}
	return &oauth.Identity{Issuer: "https://as.example", Subject: name, ClientID: "c", Scopes: strings.Split(scopes, "+")}, nil
})

// inner writes what reaches the handler wrapped by the guard.
var inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	i := oauth.IdentityOf(r.Context())
	_, _ = io.WriteString(w, i.Subject+" authorization="+r.Header.Get("Authorization")+" "+string(body))
})

func newGuard(t *testing.T, change func(*oauth.ProtectOptions)) *oauth.Guard {
	t.Helper()
	o := &oauth.ProtectOptions{
		Resource: "https://h.example/mcp", Servers: []string{"https://as.example"}, Verify: known, Required: []string{"use"},
		Needs: func(method, name string) []string {
			switch {
			case method == "tools/call" && name == "drop":
				return []string{"admin", "write"}
			case method == "resources/read" && strings.HasPrefix(name, "secret:"):
				return []string{"secrets"}
			}
			return nil
		},
	}
	if change != nil {
		change(o)
	}
	g, err := oauth.Protect(inner, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A reply is the response to ask.
type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends one request and returns the response; headers are "Name: value".
func ask(t *testing.T, h http.Handler, method, path, body string, headers ...string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequestWithContext(t.Context(), method, path, nil)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.String()}
}

const named = `resource_metadata="https://h.example/.well-known/oauth-protected-resource/mcp"`

func TestGuard(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const drop = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop","arguments":{"name":"safe"}}}`
	g := newGuard(t, nil)
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		challenge  string
		want       string // contained in the body
	}{
		{"nobody", list, nil, 401, `Bearer ` + named + `, scope="use"`, "a token is required"},
		{"another scheme", list, []string{"Authorization: Basic YTpi"}, 401, `Bearer ` + named + `, scope="use"`, ""},
		{"bad", list, []string{"Authorization: Bearer x"}, 401, `Bearer error="invalid_token", error_description="the token is not valid", ` + named + `, scope="use"`, ""},
		{"empty", list, []string{"Authorization: Bearer "}, 401, `Bearer error="invalid_token", error_description="the token is not valid", ` + named + `, scope="use"`, ""},
		{"two", list, []string{"Authorization: Bearer alice:use", "Authorization: Bearer bob:use"}, 400, `Bearer error="invalid_request", error_description="more than one Authorization header", ` + named, ""},
		{"sick", list, []string{"Authorization: Bearer sick"}, 503, "", "at the moment"},
		{"a bearer token as DPoP", list, []string{"Authorization: DPoP alice:use"}, 401, `DPoP algs="ES256 EdDSA RS256 PS256", error="invalid_token", error_description="the token is not bound to a key", ` + named + `, scope="use"`, ""},
		{"good", list, []string{"Authorization: Bearer alice:use"}, 200, "", "alice authorization= " + list},
		{"scheme in small letters", list, []string{"Authorization: bearer alice:use"}, 200, "", "alice"},
		{"too narrow", list, []string{"Authorization: Bearer alice:other"}, 403, `Bearer error="insufficient_scope", error_description="the token lacks a required scope", ` + named + `, scope="use"`, ""},
		{"too narrow for a tool: all that it needs", drop, []string{"Authorization: Bearer alice:use+write"}, 403, `Bearer error="insufficient_scope", error_description="the token lacks a required scope", ` + named + `, scope="use admin write"`, ""},
		{"wide enough for a tool", drop, []string{"Authorization: Bearer alice:use+write+admin"}, 200, "", `"drop"`},
		{"the name with escapes", `{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"n\u0061me":"dr\u006fp"}}`, []string{"Authorization: Bearer alice:use"}, 403, `Bearer error="insufficient_scope", error_description="the token lacks a required scope", ` + named + `, scope="use admin write"`, ""},
		{"the name in an argument", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{"name":"drop"}}}`, []string{"Authorization: Bearer alice:use"}, 200, "", "safe"},
		{"two names", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","name":"drop"}}`, []string{"Authorization: Bearer alice:use"}, 400, "", "-32700"},
		{"two params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe"},"params":{"name":"drop"}}`, []string{"Authorization: Bearer alice:use"}, 400, "", "-32700"},
		{"in a batch", `[` + list + `,` + drop + `]`, []string{"Authorization: Bearer alice:use"}, 403, `Bearer error="insufficient_scope", error_description="the token lacks a required scope", ` + named + `, scope="use admin write"`, ""},
		{"a resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"secret:1","name":"x"}}`, []string{"Authorization: Bearer alice:use"}, 403, `Bearer error="insufficient_scope", error_description="the token lacks a required scope", ` + named + `, scope="use secrets"`, ""},
		{"not JSON", `{`, []string{"Authorization: Bearer alice:use"}, 400, "", "-32700"},
		{"an answer of the client", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{"Authorization: Bearer alice:use"}, 200, "", "alice"},
		{"half a character", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{"t":"\ud83d"}}}`, []string{"Authorization: Bearer alice:use"}, 200, "", `\ud83d`},
		{"a token in the address is none", "", nil, 401, `Bearer ` + named + `, scope="use"`, ""},
	} {
		path := "/mcp"
		if c.body == "" {
			path += "?access_token=alice:use"
		}
		resp := ask(t, g, http.MethodPost, path, c.body, c.headers...)
		if resp.status != c.status || !strings.Contains(resp.body, c.want) {
			t.Errorf("%s: status %d, want %d; body %s, want %q in it", c.name, resp.status, c.status, resp.body, c.want)
		}
		if got := strings.Join(resp.header.Values("WWW-Authenticate"), "\n"); got != c.challenge {
			t.Errorf("%s: WWW-Authenticate\n got %s\nwant %s", c.name, got, c.challenge)
		}
	}
}

func TestGuardMetadata(t *testing.T) {
	g := newGuard(t, func(o *oauth.ProtectOptions) {
		o.Supported, o.Name, o.Documentation = []string{"use", "admin"}, "Tools", "https://h.example/docs"
	})
	want := `{"resource":"https://h.example/mcp","authorization_servers":["https://as.example"],"scopes_supported":["use","admin"],"bearer_methods_supported":["header"],` +
		`"resource_name":"Tools","resource_documentation":"https://h.example/docs","dpop_signing_alg_values_supported":["ES256","EdDSA","RS256","PS256"]}`
	if diff := cmp.Diff([]string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"}, g.MetadataPaths()); diff != "" {
		t.Error(diff)
	}
	for _, path := range g.MetadataPaths() {
		resp := ask(t, g, http.MethodGet, path, "")
		if resp.status != 200 || resp.body != want || resp.header.Get("Content-Type") != "application/json" || resp.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %s %v", path, resp.status, resp.body, resp.header)
		}
		if resp := ask(t, g, http.MethodPost, path, "{}"); resp.status != 405 || resp.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d", path, resp.status)
		}
	}
	if resp := ask(t, g, http.MethodGet, "/.well-known/oauth-protected-resource/other", ""); resp.status != 401 {
		t.Errorf("another resource: %d", resp.status)
	}
}

// TestGuardCORS checks what pages of other origins may do: those of Origins may read the metadata,
// the challenges and the responses, and get preflights answered without a token; others may not.
func TestGuardCORS(t *testing.T) {
	const app, evil = "Origin: https://app.example", "Origin: https://evil.example"
	const preflight = "Access-Control-Request-Method: "
	g := newGuard(t, func(o *oauth.ProtectOptions) { o.Origins = []string{"https://app.example"} })
	paths := append(g.MetadataPaths(), "/mcp")
	if len(paths) != 3 {
		t.Fatalf("paths %q", paths)
	}
	for _, path := range paths {
		metadata := path != "/mcp"
		for _, method := range []string{"GET", "POST", "DELETE"} {
			got := ask(t, g, http.MethodOptions, path, "", app, preflight+method, "Access-Control-Request-Headers: authorization,dpop,content-type,mcp-protocol-version,mcp-session-id,mcp-method,mcp-name,mcp-param-region,last-event-id")
			allowed := strings.ToLower(got.header.Get("Access-Control-Allow-Headers"))
			if got.status != 204 || got.header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(got.header.Get("Access-Control-Allow-Methods"), method) || got.header.Get("WWW-Authenticate") != "" {
				t.Errorf("preflight of %s %s: %d %v", method, path, got.status, got.header)
			}
			for _, name := range []string{"authorization", "dpop", "content-type", "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "mcp-param-region", "last-event-id"} {
				if !strings.Contains(", "+allowed+",", ", "+name+",") {
					t.Errorf("preflight of %s %s: %s is not allowed: %s", method, path, name, allowed)
				}
			}
			if !strings.Contains(strings.Join(got.header.Values("Vary"), ","), "Origin") || got.header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("preflight of %s %s: %v", method, path, got.header)
			}
			for what, headers := range map[string][]string{"another origin": {evil, preflight + method}, "null": {"Origin: null", preflight + method}, "two origins": {app, evil, preflight + method},
				"a subdomain": {"Origin: https://x.app.example", preflight + method}, "another scheme": {"Origin: http://app.example", preflight + method}} {
				got := ask(t, g, http.MethodOptions, path, "", headers...)
				if got.status == 204 || got.status == 200 || got.header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("preflight of %s %s from %s: %d %v", method, path, what, got.status, got.header)
				}
			}
		}
		got := ask(t, g, http.MethodGet, path, "", app)
		exposed := got.header.Get("Access-Control-Expose-Headers")
		if got.status != map[bool]int{true: 200, false: 401}[metadata] || got.header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(exposed, "WWW-Authenticate") || !strings.Contains(exposed, "Mcp-Session-Id") {
			t.Errorf("GET %s: %d %v", path, got.status, got.header)
		}
		if got := ask(t, g, http.MethodGet, path, "", evil); got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("GET %s from another origin: %v", path, got.header)
		}
	}
	closed := newGuard(t, nil)
	if got := ask(t, closed, http.MethodOptions, "/mcp", "", app, preflight+"POST"); got.status != 401 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without Origins: %d %v", got.status, got.header)
	}
}

// TestProtectBindsSessions checks that a session behind Protect belongs to the caller that began
// it, with the default options of the handler: another caller with a valid token cannot use, hear
// or end it, nor read its tasks.
func TestProtectBindsSessions(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	defer s.Close()
	mcp.AddTool(s, mcp.Tool{Name: "who", Task: mcp.TaskOptional}, func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
		return oauth.IdentityOf(ctx).Subject, nil
	})
	// httptest uses the Host example.com
	h := mcphttp.NewHandler(s, &mcphttp.Options{Unguarded: true})
	defer h.Close()
	g, err := oauth.Protect(h, &oauth.ProtectOptions{Resource: "https://h.example/mcp", Servers: []string{"https://as.example"}, Verify: known})
	if err != nil {
		t.Fatal(err)
	}
	const alice, bob, accept = "Authorization: Bearer alice:use", "Authorization: Bearer bob:use", "Accept: application/json, text/event-stream"
	begun := ask(t, g, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, alice, accept)
	session := "Mcp-Session-Id: " + begun.header.Get("Mcp-Session-Id")
	if begun.status != 200 || session == "Mcp-Session-Id: " {
		t.Fatalf("%d %s", begun.status, begun.body)
	}
	ask(t, g, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, alice, accept, session)
	const who = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"who","arguments":{}}}`
	made := ask(t, g, http.MethodPost, "/mcp", strings.Replace(who, `"arguments"`, `"task":{},"arguments"`, 1), alice, accept, session)
	m := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(made.body)
	if m == nil {
		t.Fatalf("no task: %d %s", made.status, made.body)
	}
	task := `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"` + m[1] + `"}}`
	for _, c := range []struct{ method, body string }{{"POST", who}, {"POST", task}, {"GET", ""}, {"DELETE", ""}} {
		if got := ask(t, g, c.method, "/mcp", c.body, bob, accept, session); got.status != 404 || strings.Contains(got.body, "alice") {
			t.Errorf("%s %s of another caller: %d %s", c.method, c.body, got.status, got.body)
		}
	}
	bobs := ask(t, g, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, bob, accept)
	if got := ask(t, g, http.MethodPost, "/mcp", task, bob, accept, "Mcp-Session-Id: "+bobs.header.Get("Mcp-Session-Id")); !strings.Contains(got.body, `"code":-32602`) {
		t.Errorf("the task of another caller: %d %s", got.status, got.body)
	}
	if got := ask(t, g, http.MethodPost, "/mcp", who, alice, accept, session); got.status != 200 || !strings.Contains(got.body, `"text":"alice"`) {
		t.Errorf("its own caller: %d %s", got.status, got.body)
	}
}

func TestProtectRefuses(t *testing.T) {
	for name, o := range map[string]*oauth.ProtectOptions{
		"no resource": {Servers: []string{"x"}, Verify: known},
		"no server":   {Resource: "https://h/mcp", Verify: known},
		"no verifier": {Resource: "https://h/mcp", Servers: []string{"x"}},
		"fragment":    {Resource: "https://h/mcp#x", Servers: []string{"x"}, Verify: known},
		"password":    {Resource: "https://u:p@h/mcp", Servers: []string{"x"}, Verify: known},
		"offline":     {Resource: "https://h/mcp", Servers: []string{"x"}, Verify: known, Supported: []string{"offline_access"}},
	} {
		if _, err := oauth.Protect(inner, o); err == nil {
			t.Errorf("%s: Protect took it", name)
		}
	}
}

// TestGuardEnds checks that a listening request ends when its token expires, and that a call
// continues.
func TestGuardEnds(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		header string
		ends   bool
	}{
		"GET":    {http.MethodGet, "Accept: text/event-stream", true},
		"listen": {http.MethodPost, "Mcp-Method: subscriptions/listen", true},
		"call":   {http.MethodPost, "Mcp-Method: tools/call", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var lasted time.Duration
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
					if !errors.Is(context.Cause(r.Context()), oauth.ErrToken) {
						t.Errorf("%s: cause %v", name, context.Cause(r.Context()))
					}
				case <-time.After(time.Hour):
				}
				lasted = time.Since(begin)
			})
			g, err := oauth.Protect(handler, &oauth.ProtectOptions{Resource: "https://h/mcp", Servers: []string{"x"},
				Verify: oauth.VerifierFunc(func(context.Context, string) (*oauth.Identity, error) {
					return &oauth.Identity{Issuer: "i", Subject: "s", Expires: begin.Add(time.Minute)}, nil
				})})
			if err != nil {
				t.Fatal(err)
			}
			ask(t, g, c.method, "/mcp", "", "Authorization: Bearer x", c.header)
			want := time.Hour
			if c.ends {
				want = time.Minute + 30*time.Second
			}
			if lasted != want {
				t.Errorf("%s lasted %v, want %v", name, lasted, want)
			}
		})
	}
}

// TestGuardDPoP checks which proofs are required on the wire.
func TestGuardDPoP(t *testing.T) {
	bound := oauth.VerifierFunc(func(_ context.Context, token string) (*oauth.Identity, error) {
		i := &oauth.Identity{Issuer: "i", Subject: "s"}
		if token == "bound" {
			i.Key = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
		}
		return i, nil
	})
	for _, c := range []struct {
		name    string
		mode    oauth.DPoP
		nonces  bool
		headers []string
		status  int
		code    string
		scheme  string
	}{
		{"bearer token", oauth.DPoPWhenAsked, false, []string{"Authorization: Bearer x"}, 200, "", ""},
		{"bearer token where none is taken", oauth.DPoPAlways, false, []string{"Authorization: Bearer x"}, 401, "invalid_token", "DPoP"},
		{"nothing where bound ones are taken", oauth.DPoPAlways, false, nil, 401, "", "DPoP"},
		{"bound token as a bearer token", oauth.DPoPWhenAsked, false, []string{"Authorization: Bearer bound"}, 401, "invalid_token", "DPoP"},
		{"bound token where none is taken", oauth.DPoPNever, false, []string{"Authorization: DPoP bound"}, 401, "invalid_token", "DPoP"},
		{"no proof", oauth.DPoPWhenAsked, false, []string{"Authorization: DPoP bound"}, 401, "invalid_dpop_proof", "DPoP"},
		{"two proofs", oauth.DPoPWhenAsked, false, []string{"Authorization: DPoP bound", "DPoP: a", "DPoP: b"}, 401, "invalid_dpop_proof", "DPoP"},
		{"bad proof", oauth.DPoPWhenAsked, true, []string{"Authorization: DPoP bound", "DPoP: a.b.c"}, 401, "invalid_dpop_proof", "DPoP"},
	} {
		g := newGuard(t, func(o *oauth.ProtectOptions) {
			o.Verify, o.DPoP, o.Nonces, o.Required, o.Needs = bound, c.mode, c.nonces, nil, nil
		})
		resp := ask(t, g, http.MethodPost, "/mcp", "{}", c.headers...)
		all, err := oauth.ParseChallenges(resp.header.Values("WWW-Authenticate"))
		if err != nil {
			t.Fatal(err)
		}
		var got oauth.Challenge
		if len(all) > 0 {
			got = all[0]
		}
		if resp.status != c.status || got.Params["error"] != c.code || got.Scheme != c.scheme {
			t.Errorf("%s: %d %+v", c.name, resp.status, all)
		}
		if (resp.header.Get("DPoP-Nonce") != "") != c.nonces {
			t.Errorf("%s: nonce %q", c.name, resp.header.Get("DPoP-Nonce"))
		}
	}
}

func TestPrincipal(t *testing.T) {
	a := &oauth.Identity{Issuer: "i", Subject: "a", ClientID: "bc"}
	b := &oauth.Identity{Issuer: "i", Subject: "ab", ClientID: "c"}
	if a.Principal() == b.Principal() {
		t.Errorf("two callers are one: %q", a.Principal())
	}
	if got := oauth.PrincipalOf(t.Context()); got != "" {
		t.Errorf("outside of a guard: %q", got)
	}
	if got := oauth.PrincipalOf(oauth.WithIdentity(t.Context(), a)); got != "1:i1:a2:bc" {
		t.Errorf("principal %q", got)
	}
}

func TestEither(t *testing.T) {
	one := oauth.VerifierFunc(func(_ context.Context, token string) (*oauth.Identity, error) {
		if token != "one" {
			return nil, oauth.ErrToken
		}
		return &oauth.Identity{Subject: "one"}, nil
	})
	sick := oauth.VerifierFunc(func(context.Context, string) (*oauth.Identity, error) { return nil, errors.New("sick") })
	if i, err := oauth.Either(sick, one).Verify(t.Context(), "one"); err != nil || i.Subject != "one" {
		t.Errorf("%v, %v", i, err)
	}
	if _, err := oauth.Either(one, one).Verify(t.Context(), "two"); !errors.Is(err, oauth.ErrToken) {
		t.Errorf("nobody takes it: %v", err)
	}
	if _, err := oauth.Either(one, sick).Verify(t.Context(), "two"); errors.Is(err, oauth.ErrToken) || err == nil {
		t.Errorf("nobody can say: %v", err)
	}
}
