package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"

	"github.com/da1ed7bb/parley/interop/authserver"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// A realm is an MCP server with its guard, and the authorization server that it trusts.
type realm struct {
	as       *authserver.Server
	resource string
}

// needs returns the scopes that the realm's tools require.
func needs(method, name string) []string {
	if method == "tools/call" && name == "admin/reset" {
		return []string{"mcp:admin"}
	}
	return nil
}

// newRealm starts both over real HTTP. change may modify the guard's options.
func newRealm(t *testing.T, o authserver.Options, change func(*realm, *oauth.ProtectOptions)) *realm {
	t.Helper()
	as, err := authserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(as.Close)
	r := &realm{as: as}

	s := mcp.NewServer(mcp.Implementation{Name: "guarded", Version: "1"}, &mcp.ServerOptions{Principal: oauth.PrincipalOf})
	mcp.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
		i := oauth.IdentityOf(ctx)
		return fmt.Sprintf("%s at %s by %s", i.Subject, i.Issuer, i.ClientID), nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "admin/reset"}, func(ctx context.Context, _ *mcp.Request, _ struct{}) (string, error) {
		return strings.Join(oauth.IdentityOf(ctx).Scopes, " "), nil
	})
	handler := mcphttp.NewHandler(s, &mcphttp.Options{Principal: oauth.PrincipalOf})

	server := httptest.NewUnstartedServer(nil)
	r.resource = "http://" + server.Listener.Addr().String() + "/mcp"
	opts := &oauth.ProtectOptions{
		Resource:  r.resource,
		Servers:   []string{as.Issuer},
		Verify:    &oauth.JWT{Issuer: as.Issuer, Audience: r.resource},
		Required:  []string{"mcp:use"},
		Supported: []string{"mcp:use", "mcp:admin"},
		Needs:     needs,
		Report:    func(_ *http.Request, err error) { t.Log("refused:", err) },
	}
	if change != nil {
		change(r, opts)
	}
	guard, err := oauth.Protect(handler, opts)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = guard
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = handler.Close() })
	return r
}

// direct returns a user who consents, without a browser.
func direct(redirect string) *oauth.Code {
	return &oauth.Code{Begin: func(context.Context, []string) (*oauth.Visit, error) {
		return &oauth.Visit{Redirect: redirect, Go: authserver.Login}, nil
	}}
}

const redirectAddress = "http://127.0.0.1:1/callback"

// connect opens a conversation through an oauth.Client.
func (r *realm) connect(t *testing.T, c *oauth.Client, versions ...mcp.Version) (*mcp.Client, error) {
	t.Helper()
	c.Resource = r.resource
	if c.Grant == nil {
		c.Grant = direct(redirectAddress)
	}
	c.Base = &http.Transport{}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		c.CloseIdleConnections()
	})
	client, err := mcphttp.Connect(t.Context(), r.resource, mcp.Implementation{Name: "test", Version: "1"},
		&mcphttp.ClientOptions{HTTP: &http.Client{Transport: c}, Client: mcp.ClientOptions{Versions: versions}})
	if err == nil {
		t.Cleanup(func() { _ = client.Close() })
	}
	return client, err
}

// say calls a tool and returns its text.
func say(t *testing.T, c *mcp.Client, tool string) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), tool, nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return result.Text()
}

// sent returns the values of one parameter in all requests to an endpoint.
func (r *realm) sent(path, name string) []string {
	var list []string
	for _, s := range r.as.Seen(path) {
		list = append(list, s.Form.Get(name))
	}
	return list
}

// TestAuthCode tests the complete flow with a user's consent: 401, metadata, registration, code,
// token, and more scopes if a tool requires them; with every variant of authorization server, and
// in both eras.
func TestAuthCode(t *testing.T) {
	document := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"client_id":"http://%s/client.json","client_name":"parley","redirect_uris":[%q],"token_endpoint_auth_method":"none"}`, r.Host, redirectAddress)
	}))
	t.Cleanup(document.Close)
	opaque := func(r *realm, o *oauth.ProtectOptions) {
		o.Verify = &oauth.Introspection{Endpoint: r.as.IntrospectionURL(), Issuer: r.as.Issuer, Audience: r.resource,
			Client: oauth.Registration{ClientID: "rs", Secret: "s e:cret"}}
	}
	bound := func(_ *realm, o *oauth.ProtectOptions) { o.DPoP = oauth.DPoPAlways }
	nonced := func(_ *realm, o *oauth.ProtectOptions) { o.DPoP, o.Nonces = oauth.DPoPAlways, true }
	registered := authserver.Client{ID: "known", Secret: "of old", Method: "client_secret_basic", Redirects: []string{redirectAddress}}
	for name, c := range map[string]struct {
		server authserver.Options
		guard  func(*realm, *oauth.ProtectOptions)
		client func(c *oauth.Client)
		id     string // the expected client ID
	}{
		"dynamic":        {id: "dyn/"},
		"secret, basic":  {server: authserver.Options{AuthMethods: []string{"client_secret_basic"}}, id: "dyn/"},
		"secret, post":   {server: authserver.Options{AuthMethods: []string{"client_secret_post"}}, id: "dyn/"},
		"issuer, path":   {server: authserver.Options{Path: "/tenant/1"}, id: "dyn/"},
		"OpenID":         {server: authserver.Options{OpenID: true}, id: "dyn/"},
		"OpenID, path":   {server: authserver.Options{OpenID: true, Path: "/realms/x"}, id: "dyn/"},
		"document":       {server: authserver.Options{Documents: true}, client: func(c *oauth.Client) { c.Document = document.URL + "/client.json" }, id: document.URL},
		"known":          {server: authserver.Options{NoRegistration: true, Clients: []authserver.Client{registered}}, client: func(c *oauth.Client) { c.Registrations = []oauth.Registration{{ClientID: "known", Secret: "of old"}} }, id: "known"},
		"opaque":         {server: authserver.Options{Opaque: true, Clients: []authserver.Client{{ID: "rs", Secret: "s e:cret", Method: "client_secret_basic"}}}, guard: opaque, id: "dyn/"},
		"no iss":         {server: authserver.Options{Iss: authserver.IssAbsent, HideIss: true}, id: "dyn/"},
		"DPoP":           {server: authserver.Options{DPoP: true}, guard: bound, id: "dyn/"},
		"DPoP, nonces":   {server: authserver.Options{DPoP: true, Nonce: true}, guard: nonced, id: "dyn/"},
		"DPoP, optional": {server: authserver.Options{DPoP: true}, client: func(c *oauth.Client) { c.DPoP = oauth.DPoPAlways }, id: "dyn/"},
		"type JWT":       {server: authserver.Options{Type: "JWT"}, id: "dyn/"},
	} {
		for _, version := range []mcp.Version{mcp.V20251125, mcp.V20260728} {
			t.Run(name+"/"+version.String(), func(t *testing.T) {
				r := newRealm(t, c.server, c.guard)
				o := new(oauth.Client)
				if c.client != nil {
					c.client(o)
				}
				client, err := r.connect(t, o, version)
				if err != nil {
					t.Fatal(err)
				}
				if got := say(t, client, "whoami"); !strings.HasPrefix(got, "alice at "+r.as.Issuer+" by "+c.id) {
					t.Errorf("whoami = %q", got)
				}
				if got := say(t, client, "admin/reset"); got != "mcp:use mcp:admin" {
					t.Errorf("after the step-up the scopes are %q", got)
				}
				if got, want := r.sent("/authorize", "scope"), []string{"mcp:use", "mcp:use mcp:admin"}; !slices.Equal(got, want) {
					t.Errorf("asked for %q, want %q", got, want)
				}
				for _, path := range []string{"/authorize", "/token"} {
					for _, resource := range r.sent(path, "resource") {
						if resource != r.resource {
							t.Errorf("%s got resource %q", path, resource)
						}
					}
				}
				if n := len(r.as.Seen("/register")); n > 1 {
					t.Errorf("registered %d times", n)
				}
			})
		}
	}
}

// TestAuthMachines tests the grants without a user.
func TestAuthMachines(t *testing.T) {
	own, err := oauth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	platform, err := authserver.NewKey("platform")
	if err != nil {
		t.Fatal(err)
	}
	platformPublic, err := platform.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	ownPublic, err := jwk.ParseKey(own.Public())
	if err != nil {
		t.Fatal(err)
	}
	idp, err := authserver.Start(t.Context(), authserver.Options{Clients: []authserver.Client{{ID: "at-idp", Method: "none"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(idp.Close)
	idpPublic, err := idp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	server := authserver.Options{
		NoRegistration: true,
		DPoP:           true,
		Trusted:        []authserver.Trusted{{Issuer: "https://platform.example", Key: platformPublic}, {Issuer: idp.Issuer, Key: idpPublic}},
		Clients: []authserver.Client{
			{ID: "robot", Secret: "r", Method: "client_secret_basic"},
			{ID: "signer", Key: ownPublic, Method: "private_key_jwt"},
			// The same name as at the identity provider, as these assertions require.
			{ID: "at-idp", Secret: "x", Method: "client_secret_basic"},
		},
	}
	for name, c := range map[string]struct {
		client func(r *realm) *oauth.Client
		want   string
	}{
		"secret": {func(*realm) *oauth.Client {
			return &oauth.Client{Grant: oauth.ClientCredentials{}, Registrations: []oauth.Registration{{ClientID: "robot", Secret: "r"}}}
		}, "robot"},
		"key": {func(r *realm) *oauth.Client {
			return &oauth.Client{Grant: oauth.ClientCredentials{}, Registrations: []oauth.Registration{{Issuer: r.as.Issuer, ClientID: "signer", Key: own}}}
		}, "signer"},
		"key and DPoP": {func(r *realm) *oauth.Client {
			return &oauth.Client{Grant: oauth.ClientCredentials{}, DPoP: oauth.DPoPAlways, Registrations: []oauth.Registration{{Issuer: r.as.Issuer, ClientID: "signer", Key: own}}}
		}, "signer"},
		"workload": {func(r *realm) *oauth.Client {
			return &oauth.Client{Grant: &oauth.Workload{Assertion: func(context.Context) (string, error) {
				return authserver.SignWith(platform, map[string]any{"iss": "https://platform.example", "sub": "pod/7", "aud": r.as.Issuer,
					"exp": time.Now().Add(time.Minute).Unix()}, "JWT")
			}}}
		}, "pod/7"},
		"enterprise": {func(r *realm) *oauth.Client {
			return &oauth.Client{
				Grant: &oauth.Enterprise{Provider: idp.Issuer, Client: oauth.Registration{ClientID: "at-idp"},
					IDToken: func(context.Context) (string, error) { return idp.IDToken("bob", "at-idp") }},
				Registrations: []oauth.Registration{{Issuer: r.as.Issuer, ClientID: "at-idp", Secret: "x"}},
			}
		}, "bob"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, server, nil)
			client, err := r.connect(t, c.client(r))
			if err != nil {
				t.Fatal(err)
			}
			if got := say(t, client, "whoami"); !strings.HasPrefix(got, c.want+" at "+r.as.Issuer) {
				t.Errorf("whoami = %q", got)
			}
			if got := say(t, client, "admin/reset"); got != "mcp:use mcp:admin" {
				t.Errorf("after the step-up the scopes are %q", got)
			}
			if n := len(r.as.Seen("/authorize")); n != 0 {
				t.Errorf("the user was asked %d times", n)
			}
		})
	}
}

// TestAuthRefused tests misbehaviour of the authorization server, and of those who impersonate it.
// Each case must end at the first violation, and a code must not be sent to a server that is no
// longer trusted.
func TestAuthRefused(t *testing.T) {
	bound := func(_ *realm, o *oauth.ProtectOptions) { o.DPoP = oauth.DPoPAlways }
	for name, c := range map[string]struct {
		server authserver.Options
		guard  func(*realm, *oauth.ProtectOptions)
		want   error
		code   string
		tokens int // requests to the token endpoint
	}{
		"no PKCE":         {server: authserver.Options{NoPKCE: true}, want: oauth.ErrPKCE},
		"wrong iss":       {server: authserver.Options{Iss: authserver.IssWrong}, want: oauth.ErrIssuer},
		"wrong iss, mute": {server: authserver.Options{Iss: authserver.IssWrong, HideIss: true}, want: oauth.ErrIssuer},
		"missing iss":     {server: authserver.Options{Iss: authserver.IssAbsent}, want: oauth.ErrIssuer},
		"iss with slash":  {server: authserver.Options{Iss: authserver.IssSlash}, want: oauth.ErrIssuer},
		"metadata":        {server: authserver.Options{MetadataIssuer: "https://other.example"}, want: oauth.ErrIssuer},
		"another server":  {guard: func(_ *realm, o *oauth.ProtectOptions) { o.Resource = "http://127.0.0.1:1/mcp" }, want: oauth.ErrResource},
		"no":              {server: authserver.Options{Deny: true}, code: "access_denied"},
		"audience":        {server: authserver.Options{Audience: "https://other.example/mcp"}, want: oauth.ErrRejected, tokens: 1},
		"issuer":          {server: authserver.Options{TokenIssuer: "https://other.example"}, want: oauth.ErrRejected, tokens: 1},
		"expired":         {server: authserver.Options{Expired: true, Scopes: []string{"mcp:use", "offline_access"}}, want: oauth.ErrRejected, tokens: 1},
		"foreign key":     {server: authserver.Options{ForeignKey: true}, want: oauth.ErrRejected, tokens: 1},
		"other type":      {server: authserver.Options{Type: "oauth-id-jag+jwt"}, want: oauth.ErrRejected, tokens: 1},
		"unbound":         {server: authserver.Options{DPoP: true, Unbound: true}, guard: bound, want: oauth.ErrDPoP, tokens: 1},
		"no DPoP":         {guard: bound, want: oauth.ErrDPoP},
		"unknown here":    {server: authserver.Options{NoRegistration: true}, want: oauth.ErrClient},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, c.server, c.guard)
			_, err := r.connect(t, &oauth.Client{NoOffline: true})
			failed, ok := errors.AsType[*oauth.Error](err)
			if !ok {
				t.Fatalf("Connect = %v, want an *oauth.Error", err)
			}
			if c.want != nil && !errors.Is(err, c.want) || failed.Code != c.code {
				t.Errorf("Connect = %v, want %v, code %q", err, c.want, c.code)
			}
			if n := len(r.as.Seen("/token")); n != c.tokens {
				t.Errorf("%d token requests, want %d", n, c.tokens)
			}
		})
	}
}

// TestAuthRefresh checks that tokens that expire soon are exchanged for new ones, and that the user
// is asked once.
func TestAuthRefresh(t *testing.T) {
	r := newRealm(t, authserver.Options{TTL: 5 * time.Second, Scopes: []string{"mcp:use", "mcp:admin", "offline_access"}}, nil)
	store := new(oauth.Memory)
	client, err := r.connect(t, &oauth.Client{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		say(t, client, "whoami")
	}
	if kinds := r.sent("/token", "grant_type"); len(kinds) < 4 || kinds[0] != "authorization_code" || slices.Contains(kinds[1:], "authorization_code") {
		t.Errorf("grants: %q", kinds)
	}
	if n := len(r.as.Seen("/authorize")); n != 1 {
		t.Errorf("the user was asked %d times", n)
	}
	// A second process continues with the stored tokens.
	again, err := r.connect(t, &oauth.Client{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	say(t, again, "whoami")
	if n := len(r.as.Seen("/authorize")) + len(r.as.Seen("/register")); n != 2 {
		t.Errorf("the second run asked the user or registered: %d", n)
	}
}

// TestAuthWithdrawn checks that the user is asked again after all tokens were revoked.
func TestAuthWithdrawn(t *testing.T) {
	r := newRealm(t, authserver.Options{Opaque: true, Clients: []authserver.Client{{ID: "rs", Secret: "s", Method: "client_secret_post"}}},
		func(r *realm, o *oauth.ProtectOptions) {
			o.Verify = &oauth.Introspection{Endpoint: r.as.IntrospectionURL(), Issuer: r.as.Issuer, Audience: r.resource,
				Client: oauth.Registration{ClientID: "rs", Secret: "s", AuthMethod: oauth.AuthPost}}
		})
	client, err := r.connect(t, new(oauth.Client))
	if err != nil {
		t.Fatal(err)
	}
	say(t, client, "whoami")
	r.as.RevokeAll()
	say(t, client, "whoami")
	want := []string{"authorization_code", "refresh_token", "authorization_code"}
	if kinds := r.sent("/token", "grant_type"); !slices.Equal(kinds, want) {
		t.Errorf("grants: %q, want %q", kinds, want)
	}
}

// TestAuthLoopback tests the real redirect receiver, with a program in place of the browser.
func TestAuthLoopback(t *testing.T) {
	r := newRealm(t, authserver.Options{}, nil)
	pages := make(chan string, 2)
	browser := func(ctx context.Context, address string) error {
		go func() {
			resp, err := http.Get(address)
			if err != nil {
				pages <- err.Error()
				return
			}
			defer resp.Body.Close()
			page, _ := io.ReadAll(resp.Body)
			pages <- string(page)
		}()
		return nil
	}
	receiver := &oauth.Loopback{Open: browser, Page: "Thank you."}
	client, err := r.connect(t, &oauth.Client{Grant: &oauth.Code{Begin: receiver.Begin}})
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, client, "admin/reset"); got != "mcp:use mcp:admin" {
		t.Errorf("scopes %q", got)
	}
	for range 2 {
		if page := <-pages; page != "Thank you.\n" {
			t.Errorf("the user reads %q", page)
		}
	}
	if n := len(r.as.Seen("/register")); n != 1 {
		t.Errorf("registered %d times: the port should have been taken again", n)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestAuthForeignSession checks that a session belongs to the principal that opened it, and is not
// found for others.
func TestAuthForeignSession(t *testing.T) {
	r := newRealm(t, authserver.Options{}, nil)
	token := func(subject string) string {
		text, err := r.as.Sign(map[string]any{"iss": r.as.Issuer, "sub": subject, "aud": r.resource, "scope": "mcp:use", "client_id": "c",
			"exp": time.Now().Add(time.Minute).Unix()}, "at+jwt")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	post := func(who, session, body string) (int, http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.resource, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token(who))
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("MCP-Protocol-Version", "2025-11-25")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header
	}
	status, header := post("alice", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	session := header.Get("Mcp-Session-Id")
	if status != http.StatusOK || session == "" {
		t.Fatalf("initialize: %d, session %q", status, session)
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if status, _ := post("alice", session, list); status != http.StatusOK {
		t.Errorf("her own session: %d", status)
	}
	if status, _ := post("mallory", session, list); status != http.StatusNotFound {
		t.Errorf("another's session: %d, want 404", status)
	}
	http.DefaultClient.CloseIdleConnections()
}
