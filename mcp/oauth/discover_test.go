package oauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// TestDiscovery checks the requested addresses and their order; the first document found is used.
func TestDiscovery(t *testing.T) {
	const prm, prmRoot = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"
	const as, oidc = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	resource := func(w *world, path string, servers ...string) map[string]any {
		return map[string]any{"resource": w.url + path, "authorization_servers": servers}
	}
	challenge := func(w *world, params string) {
		w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				rw.Header().Set("WWW-Authenticate", params)
				rw.WriteHeader(401)
				return
			}
			fmt.Fprint(rw, "hello")
		})
	}
	end := []string{"POST /register", "POST /token"}
	for name, c := range map[string]struct {
		change func(w *world)
		want   []string // requests, in order
		fails  error    // nil for success
	}{
		"with the path, RFC 8414": {func(*world) {}, append([]string{"GET " + prm, "GET " + as}, end...), nil},
		"at the root": {func(w *world) {
			w.document(prm, nil)
			w.document(prmRoot, resource(w, "", w.url))
		}, append([]string{"GET " + prm, "GET " + prmRoot, "GET " + as}, end...), nil},
		"named by the challenge": {func(w *world) {
			w.document("/elsewhere.json", resource(w, "/mcp", w.url))
			challenge(w, `Bearer resource_metadata="`+w.url+`/elsewhere.json"`)
		}, append([]string{"GET /elsewhere.json", "GET " + as}, end...), nil},
		"named, gone": {func(w *world) { challenge(w, `Bearer resource_metadata="`+w.url+`/gone"`) }, append([]string{"GET /gone", "GET " + prm, "GET " + as}, end...), nil},
		"named, gone, nothing else": {func(w *world) {
			w.document(prm, nil)
			challenge(w, `Bearer resource_metadata="`+w.url+`/gone"`)
		}, []string{"GET /gone", "GET " + prm, "GET " + prmRoot}, errAny},
		"OpenID": {func(w *world) {
			w.document(oidc, w.server(""))
			w.document(as, nil)
		}, append([]string{"GET " + prm, "GET " + as, "GET " + oidc}, end...), nil},
		"issuer with a path": {func(w *world) {
			w.document(prm, resource(w, "/mcp", w.url+"/t/1"))
			w.document(as+"/t/1", w.server("/t/1"))
			w.page("/t/1/token", w.token)
			w.page("/t/1/register", w.pages["/register"])
		}, []string{"GET " + prm, "GET " + as + "/t/1", "POST /t/1/register", "POST /t/1/token"}, nil},
		"issuer with a path, OpenID inserted": {func(w *world) {
			w.document(prm, resource(w, "/mcp", w.url+"/t"))
			w.document(oidc+"/t", w.server("/t"))
			w.page("/t/token", w.token)
			w.page("/t/register", w.pages["/register"])
		}, []string{"GET " + prm, "GET " + as + "/t", "GET " + oidc + "/t", "POST /t/register", "POST /t/token"}, nil},
		"issuer with a path, OpenID appended": {func(w *world) {
			w.document(prm, resource(w, "/mcp", w.url+"/t"))
			w.document("/t"+oidc, w.server("/t"))
			w.page("/t/token", w.token)
			w.page("/t/register", w.pages["/register"])
		}, []string{"GET " + prm, "GET " + as + "/t", "GET " + oidc + "/t", "GET /t" + oidc, "POST /t/register", "POST /t/token"}, nil},
		"MCP 2025-03-26, metadata at the root": {func(w *world) { w.document(prm, nil) },
			append([]string{"GET " + prm, "GET " + prmRoot, "GET " + as}, end...), nil},
		"MCP 2025-03-26, no metadata": {func(w *world) {
			w.document(prm, nil)
			w.document(as, nil)
		}, append([]string{"GET " + prm, "GET " + prmRoot, "GET " + as, "GET " + oidc}, end...), nil},
		"a page for people is no metadata": {func(w *world) {
			w.page(prm, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/html; charset=utf-8")
				fmt.Fprint(rw, "<html>")
			})
			w.document(prmRoot, resource(w, "", w.url))
		}, append([]string{"GET " + prm, "GET " + prmRoot, "GET " + as}, end...), nil},

		"another resource": {func(w *world) {
			w.document(prm, map[string]any{"resource": "https://evil.example/mcp", "authorization_servers": []string{w.url}})
		}, []string{"GET " + prm}, oauth.ErrResource},
		"a neighbour":             {func(w *world) { w.document(prm, resource(w, "/mcp2", w.url)) }, []string{"GET " + prm}, oauth.ErrResource},
		"no authorization server": {func(w *world) { w.document(prm, resource(w, "/mcp")) }, []string{"GET " + prm}, errAny},
		"ill, no way around": {func(w *world) {
			w.page(prm, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) })
		}, []string{"GET " + prm, "GET " + prmRoot}, errAny},
		"not JSON": {func(w *world) {
			w.page(prm, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "{") })
		}, []string{"GET " + prm, "GET " + prmRoot}, errAny},
		"another issuer": {func(w *world) {
			m := w.server("")
			m["issuer"] = w.url + "/"
			w.document(as, m)
		}, []string{"GET " + prm, "GET " + as}, oauth.ErrIssuer},
		"nobody at the issuer": {func(w *world) { w.document(as, nil) }, []string{"GET " + prm, "GET " + as, "GET " + oidc}, errAny},
		"no PKCE": {func(w *world) {
			m := w.server("")
			delete(m, "code_challenge_methods_supported")
			w.document(as, m)
		}, []string{"GET " + prm, "GET " + as}, oauth.ErrPKCE},
		"PKCE plain only": {func(w *world) {
			m := w.server("")
			m["code_challenge_methods_supported"] = []string{"plain"}
			w.document(as, m)
		}, []string{"GET " + prm, "GET " + as}, oauth.ErrPKCE},
		"no registration": {func(w *world) {
			m := w.server("")
			delete(m, "registration_endpoint")
			w.document(as, m)
		}, []string{"GET " + prm, "GET " + as}, oauth.ErrClient},
		"a token endpoint inside": {func(w *world) {
			m := w.server("")
			m["token_endpoint"] = "https://169.254.169.254/token"
			w.document(as, m)
		}, []string{"GET " + prm, "GET " + as}, errAny},
		"a token endpoint without TLS": {func(w *world) {
			m := w.server("")
			m["token_endpoint"] = "http://as.example/token"
			w.document(as, m)
		}, []string{"GET " + prm, "GET " + as}, errAny},
		"an issuer inside": {func(w *world) { w.document(prm, resource(w, "/mcp", "https://10.0.0.1")) }, []string{"GET " + prm}, errAny},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := newWorld(t), new(user)
			c.change(w)
			client := w.client(t, u)
			_, _, err := post(t, client, "{}")
			failed, isOurs := errors.AsType[*oauth.Error](err)
			switch {
			case c.fails == nil && err != nil:
				t.Errorf("it failed: %v", err)
			case c.fails != nil && (!isOurs || failed == nil):
				t.Errorf("%v, want an *oauth.Error", err)
			case c.fails != nil && c.fails != errAny && !errors.Is(err, c.fails):
				t.Errorf("%v, want %v", err, c.fails)
			}
			if diff := cmp.Diff(c.want, w.since()); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			if c.fails != nil && len(u.asked) != 0 {
				t.Errorf("the user was sent to %v", u.asked)
			}
		})
	}
}

var errAny = errors.New("any")

// TestAuthorizationRequest checks the address that the user is sent to, and the token request.
func TestAuthorizationRequest(t *testing.T) {
	w, u := newWorld(t), new(user)
	m := w.server("")
	m["authorization_endpoint"] = w.url + "/authorize?tenant=7"
	w.document("/.well-known/oauth-authorization-server", m)
	client := w.client(t, u)
	if status, body, err := post(t, client, "{}"); err != nil || status != 200 || body != "hello token-1" {
		t.Fatal(status, body, err)
	}
	q := u.asked[0]
	for name, want := range map[string]string{"response_type": "code", "client_id": "c", "redirect_uri": back, "resource": w.url + "/mcp",
		"code_challenge_method": "S256", "tenant": "7"} {
		if got := q.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if q.Has("scope") || len(q.Get("state")) < 22 || len(q.Get("code_challenge")) != 43 {
		t.Errorf("query %v", q)
	}
	form := w.forms[len(w.forms)-2] // the one before the successful request
	if form.Get("code") != "the-code" || form.Get("redirect_uri") != back || form.Get("resource") != w.url+"/mcp" || len(form.Get("code_verifier")) < 43 || form.Get("client_id") != "c" {
		t.Errorf("token request %v", form)
	}
	if _, _, err := post(t, client, "{}"); err != nil || len(u.asked) != 1 {
		t.Errorf("the second request sent the user again, %v", err)
	}
}

// TestRedirect checks which redirects are accepted and which are rejected before anything of them
// is used or shown.
func TestRedirect(t *testing.T) {
	for name, c := range map[string]struct {
		announced bool // the server announces that it sends iss
		change    func(v url.Values, issuer string)
		want      error
		code      string
	}{
		"yes":                 {false, func(url.Values, string) {}, nil, ""},
		"yes, with iss":       {true, func(v url.Values, issuer string) { v.Set("iss", issuer) }, nil, ""},
		"iss unannounced":     {false, func(v url.Values, issuer string) { v.Set("iss", issuer) }, nil, ""},
		"iss missing":         {true, func(url.Values, string) {}, oauth.ErrIssuer, ""},
		"iss empty":           {true, func(v url.Values, _ string) { v.Set("iss", "") }, oauth.ErrIssuer, ""},
		"iss with slash":      {true, func(v url.Values, issuer string) { v.Set("iss", issuer+"/") }, oauth.ErrIssuer, ""},
		"iss wrong":           {false, func(v url.Values, _ string) { v.Set("iss", "https://evil.example") }, oauth.ErrIssuer, ""},
		"iss twice":           {true, func(v url.Values, issuer string) { v["iss"] = []string{issuer, issuer} }, oauth.ErrState, ""},
		"state wrong":         {false, func(v url.Values, _ string) { v.Set("state", "x") }, oauth.ErrState, ""},
		"state missing":       {false, func(v url.Values, _ string) { v.Del("state") }, oauth.ErrState, ""},
		"code missing":        {false, func(v url.Values, _ string) { v.Del("code") }, errAny, ""},
		"code twice":          {false, func(v url.Values, _ string) { v["code"] = []string{"a", "b"} }, oauth.ErrState, ""},
		"no":                  {false, func(v url.Values, _ string) { v.Set("error", "access_denied"); v.Set("error_description", "go away") }, errAny, "access_denied"},
		"no, in another name": {false, func(v url.Values, _ string) { v.Set("error", "evil text"); v.Set("iss", "https://evil.example") }, oauth.ErrIssuer, ""},
		"no, wrong state":     {false, func(v url.Values, _ string) { v.Set("error", "evil text"); v.Set("state", "x") }, oauth.ErrState, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := w.server("")
			m["authorization_response_iss_parameter_supported"] = c.announced
			w.document("/.well-known/oauth-authorization-server", m)
			u := &user{answer: func(q url.Values) url.Values {
				v := url.Values{"code": {"the-code"}, "state": {q.Get("state")}}
				c.change(v, w.url)
				return v
			}}
			_, _, err := post(t, w.client(t, u), "{}")
			switch {
			case c.want == nil && err != nil, c.want != nil && err == nil, c.want != errAny && !errors.Is(err, c.want):
				t.Errorf("%v, want %v", err, c.want)
			}
			if failed, ok := errors.AsType[*oauth.Error](err); ok && failed.Code != c.code {
				t.Errorf("code %q, want %q", failed.Code, c.code)
			}
			if err != nil && strings.Contains(err.Error(), "evil") {
				t.Errorf("the error shows what a stranger wrote: %v", err)
			}
			if n := w.count("POST /token"); (n == 1) != (c.want == nil) {
				t.Errorf("%d token requests", n)
			}
		})
	}
}

// TestScopeChoice checks the first requested scopes.
func TestScopeChoice(t *testing.T) {
	for name, c := range map[string]struct {
		challenge string // scope in the challenge; "-" for no challenge
		resource  []string
		server    []string
		own       []string
		offline   bool // NoOffline
		want      string
	}{
		"nothing said":                     {challenge: "-", want: ""},
		"challenge":                        {challenge: "a b", resource: []string{"x"}, want: "a b"},
		"all that there are":               {challenge: "-", resource: []string{"x", "y"}, want: "x y"},
		"empty challenge":                  {challenge: "", resource: []string{"x"}, want: ""},
		"own wish":                         {challenge: "a", own: []string{"w"}, want: "w"},
		"own wish for nothing":             {challenge: "a", own: []string{}, want: ""},
		"refresh tokens are to be had":     {challenge: "a", server: []string{"a", "offline_access"}, want: "a offline_access"},
		"and not wanted":                   {challenge: "a", server: []string{"a", "offline_access"}, offline: true, want: "a"},
		"the server's word alone does not": {challenge: "a offline_access", server: []string{"a"}, want: "a"},
		"nor the resource's":               {challenge: "-", resource: []string{"a", "offline_access"}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := newWorld(t), new(user)
			prm := map[string]any{"resource": w.url + "/mcp", "authorization_servers": []string{w.url}}
			if c.resource != nil {
				prm["scopes_supported"] = c.resource
			}
			w.document("/.well-known/oauth-protected-resource/mcp", prm)
			m := w.server("")
			if c.server != nil {
				m["scopes_supported"] = c.server
			}
			w.document("/.well-known/oauth-authorization-server", m)
			w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					return
				}
				rw.Header().Set("WWW-Authenticate", "Bearer")
				if c.challenge != "-" {
					rw.Header().Set("WWW-Authenticate", `Bearer scope="`+c.challenge+`"`)
				}
				rw.WriteHeader(401)
			})
			client := w.client(t, u)
			client.Scopes, client.NoOffline = c.own, c.offline
			if _, _, err := post(t, client, "{}"); err != nil {
				t.Fatal(err)
			}
			if got := u.asked[0].Get("scope"); got != c.want || u.asked[0].Has("scope") != (c.want != "") {
				t.Errorf("scope %q, want %q", got, c.want)
			}
			if got := u.asked[0].Get("prompt") == "consent"; got != strings.Contains(c.want, "offline_access") {
				t.Errorf("prompt %q", u.asked[0].Get("prompt"))
			}
		})
	}
}
