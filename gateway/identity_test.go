package gateway

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

const audience = "https://gate.example/mcp"

// An issuer is an authorization server with one key.
type issuer struct {
	url     string
	key     *ecdsa.PrivateKey
	fetches atomic.Int32 // of its keys
	down    atomic.Bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &issuer{key: key}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case is.down.Load():
			w.WriteHeader(http.StatusInternalServerError)
		case r.URL.Path == "/keys":
			is.fetches.Add(1)
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k1", Use: "sig"}}})
		case strings.Contains(r.URL.Path, ".well-known"):
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": is.url, "jwks_uri": is.url + "/keys", "token_endpoint": is.url + "/token",
				"authorization_endpoint": is.url + "/authorize", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	is.url = s.URL
	return is
}

// sign returns a token with these claims, in place of those of a valid one. A nil value removes a
// claim. header has more members of the header.
func (is *issuer) sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, header, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": is.url, "aud": audience, "sub": "alice", "client_id": "app", "scope": "mcp", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	o := (&jose.SignerOptions{}).WithHeader("kid", "k1").WithType("at+jwt")
	for name, value := range header {
		o = o.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (is *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	return is.sign(t, jose.ES256, is.key, nil, claims)
}

func mustIdentity(t *testing.T, c *config.Identity) *identity {
	t.Helper()
	id, err := newIdentity(c, "https://gate.example", true, nil, func(string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestStaticTokens(t *testing.T) {
	id := mustIdentity(t, &config.Identity{Tokens: []config.Token{
		{Name: "ci", SHA256: guard.DigestOf("token-of-ci"), Groups: []string{"robots"}}, {Name: "ops", SHA256: guard.DigestOf("token-of-ops")},
	}})
	ctx, err := id.verify(t.Context(), "token-of-ci")
	if err != nil {
		t.Fatal(err)
	}
	c, p := callerOf(ctx), parley.PrincipalOf(ctx)
	if p.Name != "token:ci" || !slices.Equal(p.Groups, []string{"robots"}) || c.Name != p.Name || c.token.value() != "token-of-ci" {
		t.Errorf("the caller is %+v", p)
	}
	if text := fmt.Sprintf("%v %+v %#v %v", c.token, c, c, *c); strings.Contains(text, "token-of-ci") {
		t.Errorf("the token is printed: %s", text)
	}
	for _, token := range []string{"", "token-of-c", "token-of-ci ", "ci", string(id.tokens[0].digest[:])} {
		if _, err := id.verify(t.Context(), token); !errors.Is(err, oauth.ErrToken) {
			t.Errorf("%q: %v", token, err)
		}
	}
	if _, err := (*identity)(nil).verify(t.Context(), "x"); err == nil {
		t.Error("without an identity a token is valid")
	}
	if c := callerOf(t.Context()); c.Name != "local" {
		t.Errorf("without an identity the caller is %q", c.Name)
	}
}

// TestIdentityIsReplaced checks which callers of an older configuration the present one has, and
// that tokens are not in memory unless an upstream needs them.
func TestIdentityIsReplaced(t *testing.T) {
	is := newIssuer(t)
	tokens := func(names ...string) (list []config.Token) {
		for _, name := range names {
			list = append(list, config.Token{Name: name, SHA256: guard.DigestOf("token-of-" + name), Groups: []string{fmt.Sprint(len(names))}})
		}
		return list
	}
	o := &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience}
	before := mustIdentity(t, &config.Identity{Tokens: tokens("ci", "ops"), OAuth: o})
	same, err := newIdentity(&config.Identity{Tokens: tokens("ci", "ops"), OAuth: o}, "https://gate.example/", true, before, nil)
	if err != nil || same != before {
		t.Errorf("an equal configuration makes a new identity: %v", err)
	}
	after, err := newIdentity(&config.Identity{Tokens: tokens("ci")}, "https://gate.example", false, before, nil)
	if err != nil || after == before {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"token-of-ci": "[1]", "token-of-ops": "gone", is.token(t, nil): "gone"} {
		ctx, err := before.verify(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if c := before.current(callerOf(ctx)); c == nil || c.token.value() != token {
			t.Errorf("the caller %v has not the token that it showed", c)
		}
		got := "gone"
		if c := after.current(callerOf(ctx)); c != nil {
			got = fmt.Sprint(c.Groups)
		}
		if got != want {
			t.Errorf("%.12s is %s in the new configuration, want %s", token, got, want)
		}
	}
	ctx, err := after.verify(t.Context(), "token-of-ci")
	if err != nil || callerOf(ctx).token.value() != "" {
		t.Errorf("a token that no upstream needs is in memory: %v", err)
	}
	if after.current(local) != local || (*identity)(nil).current(local) != local {
		t.Error("local is somebody else")
	}
}

// TestForgedTokens checks that no token for somebody else, of somebody else or made by a client is
// valid.
func TestForgedTokens(t *testing.T) {
	is, other := newIssuer(t), newIssuer(t)
	id := mustIdentity(t, &config.Identity{OAuth: &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience, Scopes: []string{"mcp"}}})
	der, err := x509.MarshalPKIXPublicKey(&is.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	thumbprint, err := (&jose.JSONWebKey{Key: &is.key.PublicKey}).Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	good := is.token(t, nil)
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`))
	now := time.Now()
	for name, token := range map[string]string{
		"for another audience":      is.token(t, map[string]any{"aud": "https://other.example/mcp"}),
		"for a prefix":              is.token(t, map[string]any{"aud": "https://gate.example"}),
		"for nobody":                is.token(t, map[string]any{"aud": nil}),
		"an ID token":               is.token(t, map[string]any{"aud": "app"}),
		"of another issuer":         other.token(t, nil),
		"with the name of ours":     other.token(t, map[string]any{"iss": is.url}),
		"with another name":         is.token(t, map[string]any{"iss": other.url}),
		"with a slash more":         is.token(t, map[string]any{"iss": is.url + "/"}),
		"without an issuer":         is.token(t, map[string]any{"iss": nil}),
		"expired":                   is.token(t, map[string]any{"exp": now.Add(-time.Minute).Unix()}),
		"without an expiry":         is.token(t, map[string]any{"exp": nil}),
		"not valid yet":             is.token(t, map[string]any{"nbf": now.Add(time.Minute).Unix()}),
		"without a subject":         is.token(t, map[string]any{"sub": nil, "client_id": nil}),
		"bound to a key":            is.token(t, map[string]any{"cnf": map[string]any{"jkt": base64.RawURLEncoding.EncodeToString(thumbprint)}}),
		"signed by nobody":          none + "." + parts[1] + ".",
		"without its signature":     parts[0] + "." + parts[1] + ".",
		"with another payload":      parts[0] + "." + strings.Split(is.token(t, map[string]any{"sub": "root"}), ".")[1] + "." + parts[2],
		"the key as a secret":       is.sign(t, jose.HS256, public, nil, nil),
		"a key of its own":          is.sign(t, jose.ES256, other.key, map[string]any{"jwk": jose.JSONWebKey{Key: &other.key.PublicKey}}, nil),
		"the address of a key":      is.sign(t, jose.ES256, other.key, map[string]any{"jku": other.url + "/keys"}, nil),
		"an unknown key":            is.sign(t, jose.ES256, other.key, map[string]any{"kid": "k2"}, nil),
		"a proof":                   is.sign(t, jose.ES256, is.key, map[string]any{"typ": "dpop+jwt"}, nil),
		"four parts":                good + ".x",
		"two parts":                 parts[0] + "." + parts[1],
		"a payload that is no JSON": parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte("x")) + "." + parts[2],
		"long":                      strings.Repeat("a", 9<<10),
	} {
		if _, err := id.verify(t.Context(), token); !errors.Is(err, oauth.ErrToken) {
			t.Errorf("a token %s: %v", name, err)
		} else if strings.Contains(err.Error(), parts[1]) || strings.Contains(err.Error(), parts[2]) {
			t.Errorf("a token %s: the error quotes it: %v", name, err)
		}
	}
	if n := other.fetches.Load(); n != 0 {
		t.Errorf("an issuer that is not configured was asked %d times for keys", n)
	}
	ctx, err := id.verify(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if p := parley.PrincipalOf(ctx); p.Name != is.url+"|alice|app" || p.Issuer != is.url || !slices.Equal(p.Scopes, []string{"mcp"}) || p.Expires.IsZero() {
		t.Errorf("the principal is %+v", p)
	}
	_, err = id.verify(t.Context(), is.token(t, map[string]any{"scope": "openid"}))
	if scope, ok := errors.AsType[*parley.ScopeError](err); !ok || !slices.Equal(scope.Scopes, []string{"mcp"}) {
		t.Errorf("without the scope: %v", err)
	}
}

// TestUnknownKeysAreBounded checks that tokens with keys that do not exist cause at most one fetch
// a minute, and that a token is not verified for each request.
func TestUnknownKeysAreBounded(t *testing.T) {
	is := newIssuer(t)
	id := mustIdentity(t, &config.Identity{OAuth: &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience}})
	for i := range 200 {
		token := is.sign(t, jose.ES256, is.key, map[string]any{"kid": fmt.Sprint("unknown", i)}, nil)
		if _, err := id.verify(t.Context(), token); !errors.Is(err, oauth.ErrToken) {
			t.Fatal(err)
		}
	}
	good := is.token(t, nil)
	first, err := id.verify(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	again, err := id.verify(t.Context(), good)
	if err != nil || &callerOf(first).json[0] != &callerOf(again).json[0] {
		t.Errorf("the second request verifies the token again: %v", err)
	}
	if n := is.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	if _, known := id.verified[sha256.Sum256([]byte(good))]; !known || len(id.verified) != 1 {
		t.Errorf("%d tokens are remembered, want only the valid one", len(id.verified))
	}
}

// TestIssuerIsDown checks that a token that cannot be verified is not called invalid.
func TestIssuerIsDown(t *testing.T) {
	is := newIssuer(t)
	is.down.Store(true)
	id := mustIdentity(t, &config.Identity{Tokens: []config.Token{{Name: "ci", SHA256: guard.DigestOf("static")}},
		OAuth: &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience}})
	if _, err := id.verify(t.Context(), is.token(t, nil)); !errors.Is(err, parley.ErrNotVerified) {
		t.Errorf("verify = %v", err)
	}
	if _, err := id.verify(t.Context(), "static"); err != nil {
		t.Errorf("a token of the file: %v", err)
	}
}

// TestGroupsOfIssuers checks the claims of Keycloak and Microsoft Entra.
func TestGroupsOfIssuers(t *testing.T) {
	is := newIssuer(t)
	id := mustIdentity(t, &config.Identity{OAuth: &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience,
		Groups: []string{"claims.groups", "claims.realm_access.roles", "claims.resource_access.gate.roles", "claims.roles", "claims['https://x/team']"}}})
	for name, tt := range map[string]struct {
		claims map[string]any
		groups []string
		scopes []string
		err    error
	}{
		"keycloak": {map[string]any{"realm_access": map[string]any{"roles": []string{"admins", "offline_access"}}, "resource_access": map[string]any{"gate": map[string]any{"roles": []string{"writer"}}},
			"scope": "openid mcp", "azp": "app", "client_id": nil, "typ": "Bearer", "aud": []string{"account", audience}}, []string{"admins", "offline_access", "writer"}, []string{"openid", "mcp"}, nil},
		"entra": {map[string]any{"roles": []string{"Gate.Admin"}, "groups": []string{"0f9d-1"}, "scp": "mcp.read mcp.write", "scope": nil, "azp": "app", "client_id": nil, "oid": "o", "tid": "t", "ver": "2.0"},
			[]string{"0f9d-1", "Gate.Admin"}, []string{"mcp.read", "mcp.write"}, nil},
		"entra with too many groups": {map[string]any{"_claim_names": map[string]any{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example"}}}, nil, nil, oauth.ErrToken},
		"one text":                   {map[string]any{"https://x/team": "blue"}, []string{"blue"}, []string{"mcp"}, nil},
		"other values":               {map[string]any{"groups": []any{1, nil, "a", "a", "", map[string]any{"x": 1}, strings.Repeat("g", 300)}, "realm_access": "no object"}, []string{"a"}, []string{"mcp"}, nil},
		"nothing":                    {nil, nil, []string{"mcp"}, nil},
	} {
		ctx, err := id.verify(t.Context(), is.token(t, tt.claims))
		if !errors.Is(err, tt.err) || tt.err == nil && err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		if p := parley.PrincipalOf(ctx); !slices.Equal(p.Groups, tt.groups) || !slices.Equal(p.Scopes, tt.scopes) || !strings.HasSuffix(p.Name, "|alice|app") {
			t.Errorf("%s: %q %q %q, want %q %q", name, p.Name, p.Groups, p.Scopes, tt.groups, tt.scopes)
		}
		// the claims are what policies see
		a := access{caller: callerOf(ctx), server: "x", method: "m"}
		if v := mustPolicy(t, allow(config.Rule{When: "principal.claims.sub == 'alice'"})).decide(&a); !v.allowed {
			t.Errorf("%s: a policy does not see the claims: %v", name, v.err)
		}
	}
	if _, err := newIdentity(&config.Identity{OAuth: &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience, Groups: []string{"groups"}}}, "", false, nil, nil); err == nil {
		t.Error("an expression over an unknown name is accepted")
	}
}

// TestPrincipalNames checks that no two callers have one name.
func TestPrincipalNames(t *testing.T) {
	seen := map[string]oauth.Identity{}
	parts := []string{"", "a", "|", "a|", "|a", "%7C", "%", "a%7C", "token:ci"}
	for _, issuer := range parts {
		for _, subject := range parts {
			for _, client := range parts {
				i := oauth.Identity{Issuer: issuer, Subject: subject, ClientID: client}
				name := principalName(&i)
				if was, ok := seen[name]; ok {
					t.Errorf("%+v and %+v are both %q", i, was, name)
				}
				seen[name] = i
			}
		}
	}
	for _, taken := range []string{"local", "token:ci", "tls:x"} {
		if _, ok := seen[taken]; ok {
			t.Errorf("a user can be %q", taken)
		}
	}
}

func TestResourceMetadata(t *testing.T) {
	is := newIssuer(t)
	o := &config.OAuthIdentity{Issuers: []string{is.url}, Audience: audience, Scopes: []string{"mcp"}}
	id := mustIdentity(t, &config.Identity{OAuth: o})
	if got, want := id.challenge(), `Bearer resource_metadata="https://gate.example/.well-known/oauth-protected-resource/mcp", scope="mcp"`; got != want {
		t.Errorf("challenge %s, want %s", got, want)
	}
	get := func(id *identity, path string) oauth.ResourceMetadata {
		t.Helper()
		if !id.isMetadata(path) {
			t.Errorf("%s is not the metadata", path)
		}
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1:7500"
		w := httptest.NewRecorder()
		id.ServeHTTP(w, r)
		var m oauth.ResourceMetadata
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || w.Code != 200 {
			t.Errorf("%d %s %v", w.Code, w.Body, err)
		}
		return m
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		if m := get(id, path); m.Resource != audience || !slices.Equal(m.AuthorizationServers, []string{is.url}) || !slices.Equal(m.ScopesSupported, []string{"mcp"}) {
			t.Errorf("metadata %+v", m)
		}
	}
	if id.isMetadata("/.well-known/oauth-protected-resourcex") || id.isMetadata("/mcp") || mustIdentity(t, &config.Identity{}).isMetadata(metadataPath) || (*identity)(nil).isMetadata(metadataPath) {
		t.Error("another path is the metadata")
	}
	o.Audience = "api://gate" // as in Entra
	guid, err := newIdentity(&config.Identity{OAuth: o}, "", false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := get(guid, metadataPath); m.Resource != "http://127.0.0.1:7500/mcp" || guid.challenge() != "" {
		t.Errorf("metadata %+v, challenge %q", m, guid.challenge())
	}
	w := httptest.NewRecorder()
	id.ServeHTTP(w, httptest.NewRequest(http.MethodPost, metadataPath, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func BenchmarkVerifyStatic(b *testing.B) {
	c := &config.Identity{}
	for i := range 10_000 {
		c.Tokens = append(c.Tokens, config.Token{Name: fmt.Sprint(i), SHA256: guard.DigestOf(fmt.Sprint("token", i))})
	}
	id, err := newIdentity(c, "", false, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := id.verify(context.Background(), "token50"); err != nil {
			b.Fatal(err)
		}
	}
}
