package oauth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// claimsOf verifies a JWT with a public key and returns its header and claims.
func claimsOf(t *testing.T, token string, public []byte) (jose.Header, map[string]any) {
	t.Helper()
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(public); err != nil {
		t.Fatal(err)
	}
	sig, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatalf("%q: %v", token, err)
	}
	payload, err := sig.Verify(key)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return sig.Signatures[0].Protected, claims
}

// TestPrivateKey checks the content of a client's assertion.
func TestPrivateKey(t *testing.T) {
	key, err := oauth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key.ID = "k1"
	w := newWorld(t)
	var form url.Values
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		form = r.PostForm
		w.token(rw, r)
	})
	client := w.client(t, nil)
	client.Grant = oauth.ClientCredentials{}
	client.Registrations = []oauth.Registration{{Issuer: w.url, ClientID: "c", Key: key}}
	client.Scopes = []string{"a"}
	if status, _, err := post(t, client, "{}"); status != 200 {
		t.Fatal(err)
	}
	header, claims := claimsOf(t, form.Get("client_assertion"), key.Public())
	life := claims["exp"].(float64) - claims["iat"].(float64)
	if claims["iss"] != "c" || claims["sub"] != "c" || claims["aud"] != w.url || life != 60 || claims["jti"] == "" || header.KeyID != "k1" {
		t.Errorf("header %+v, claims %v", header, claims)
	}
	form.Del("client_assertion")
	want := url.Values{"grant_type": {"client_credentials"}, "client_id": {"c"}, "resource": {w.url + "/mcp"}, "scope": {"a"},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}}
	if diff := cmp.Diff(want, form); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestClientCredentialsNeedOne checks that a program without secret or key gets an error and sends
// no request.
func TestClientCredentialsNeedOne(t *testing.T) {
	for name, list := range map[string][]oauth.Registration{"none": nil, "no secret": {{ClientID: "c"}}} {
		w := newWorld(t)
		client := w.client(t, nil)
		client.Grant, client.Registrations = oauth.ClientCredentials{}, list
		if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrClient) || w.count("POST /token") != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEnterprise checks both exchanges and the responses of the provider.
func TestEnterprise(t *testing.T) {
	var forms []url.Values
	reply := map[string]any{"access_token": "the.jag.x", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag", "token_type": "N_A"}
	setup := func(t *testing.T) (*world, *oauth.Enterprise, *oauth.Client) {
		w := newWorld(t)
		forms = nil
		w.document("/.well-known/openid-configuration/idp", w.server("/idp"))
		w.page("/idp/token", func(rw http.ResponseWriter, r *http.Request) {
			forms = append(forms, r.PostForm)
			answer(rw, 200, reply)
		})
		w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
			forms = append(forms, r.PostForm)
			w.token(rw, r)
		})
		g := &oauth.Enterprise{Provider: w.url + "/idp", Client: oauth.Registration{ClientID: "at-idp"},
			IDToken: func(context.Context) (string, error) { return "the.id.token", nil }}
		client := w.client(t, nil)
		client.Grant, client.Registrations = g, []oauth.Registration{{Issuer: w.url, ClientID: "c", Secret: "s", AuthMethod: oauth.AuthPost}}
		return w, g, client
	}
	w, _, client := setup(t)
	if status, _, err := post(t, client, "{}"); status != 200 {
		t.Fatal(err)
	}
	want := []url.Values{
		{"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "requested_token_type": {"urn:ietf:params:oauth:token-type:id-jag"},
			"subject_token": {"the.id.token"}, "subject_token_type": {"urn:ietf:params:oauth:token-type:id_token"}, "audience": {w.url},
			"resource": {w.url + "/mcp"}, "client_id": {"at-idp"}},
		{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {"the.jag.x"}, "resource": {w.url + "/mcp"}, "client_id": {"c"}, "client_secret": {"s"}},
	}
	if diff := cmp.Diff(want, forms); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	_, g, client := setup(t)
	g.TokenEndpoint = "https://10.0.0.1/token"
	if _, _, err := post(t, client, "{}"); err == nil || len(forms) != 0 {
		t.Errorf("a provider inside: %v, %v", err, forms)
	}
	_, g, client = setup(t)
	g.IDToken = func(context.Context) (string, error) { return "", errors.New("not logged in") }
	if _, _, err := post(t, client, "{}"); err == nil || !strings.Contains(err.Error(), "not logged in") || len(forms) != 0 {
		t.Errorf("no ID token: %v", err)
	}
	_, _, client = setup(t)
	client.Registrations = nil
	if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrClient) || len(forms) != 0 {
		t.Errorf("unknown at the authorization server: %v", err)
	}
	for _, spoilt := range []map[string]any{
		{"access_token": "x", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer"},
		{"access_token": "a b", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"},
		{"error": "invalid_grant"},
	} {
		reply = spoilt
		_, _, client = setup(t)
		if _, _, err := post(t, client, "{}"); err == nil || len(forms) != 1 {
			t.Errorf("%v: %v, %d requests", spoilt, err, len(forms))
		}
	}
}

// TestWorkload checks the platform's assertion, without and with a client ID.
func TestWorkload(t *testing.T) {
	for id, want := range map[string][]string{"": nil, "pod": {"pod"}} {
		w := newWorld(t)
		var form url.Values
		w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
			form = r.PostForm
			w.token(rw, r)
		})
		client := w.client(t, nil)
		client.Grant = &oauth.Workload{ClientID: id, Assertion: func(context.Context) (string, error) { return "a.b.c", nil }}
		if status, _, err := post(t, client, "{}"); status != 200 {
			t.Fatal(err)
		}
		if form.Get("assertion") != "a.b.c" || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || cmp.Diff(want, form["client_id"]) != "" {
			t.Errorf("%q: %v", id, form)
		}
	}
}

// TestBoundKept checks that a bound token is stored with its key, and that a second program uses
// the same key for proofs, also after a refresh.
func TestBoundKept(t *testing.T) {
	w, u := newWorld(t), new(user)
	m := w.server("")
	m["dpop_signing_alg_values_supported"] = []string{"ES256"}
	w.document("/.well-known/oauth-authorization-server", m)
	keyOf := func(r *http.Request) string {
		head, _, _ := strings.Cut(r.Header.Get("DPoP"), ".")
		text, err := base64.RawURLEncoding.DecodeString(head)
		var h struct {
			Type string          `json:"typ"`
			Key  json.RawMessage `json:"jwk"`
		}
		if err != nil || json.Unmarshal(text, &h) != nil || h.Type != "dpop+jwt" || strings.Contains(string(h.Key), `"d"`) {
			t.Errorf("proof %q", r.Header.Get("DPoP"))
		}
		return string(h.Key)
	}
	keys, grants := map[string]int{}, []string{}
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		keys[keyOf(r)]++
		grants = append(grants, r.PostForm.Get("grant_type"))
		answer(rw, 200, map[string]any{"access_token": "bound", "token_type": "DPoP", "expires_in": 5, "refresh_token": "r"})
	})
	w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "DPoP bound" {
			rw.Header().Set("WWW-Authenticate", "DPoP")
			rw.WriteHeader(401)
			return
		}
		keys[keyOf(r)]++
	})
	store := &oauth.Files{Dir: t.TempDir()}
	for range 2 {
		client := w.client(t, u)
		client.Store = store
		if status, _, err := post(t, client, "{}"); status != 200 {
			t.Fatal(status, err)
		}
	}
	if diff := cmp.Diff([]string{"authorization_code", "refresh_token"}, grants); diff != "" || len(keys) != 1 {
		t.Errorf("%d keys; grants (-want +got)\n%s", len(keys), diff)
	}
}

// TestTwoPrograms checks that if one of a user's programs has used the refresh token, the other
// uses the token stored by the first.
func TestTwoPrograms(t *testing.T) {
	w, u := newWorld(t), new(user)
	var spent []string
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		spent = append(spent, r.PostForm.Get("refresh_token"))
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(spent) == 1 {
			w.tokens["t1"] = ""
			answer(rw, 200, map[string]any{"access_token": "t1", "token_type": "Bearer", "expires_in": 5, "refresh_token": "r1"})
			return
		}
		delete(w.tokens, "t1")
		w.tokens["t2"] = ""
		answer(rw, 200, map[string]any{"access_token": "t2", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r2"})
	})
	store := new(oauth.Memory)
	one, two := w.client(t, u), w.client(t, u)
	one.Store, two.Store = store, store
	// The first logs in; the second loads the token and refreshes it.
	for i, c := range []*oauth.Client{one, two} {
		if status, _, err := post(t, c, "{}"); status != 200 {
			t.Fatal(i, status, err)
		}
	}
	if _, body, err := post(t, one, "{}"); body != "hello t2" {
		t.Errorf("%s, %v", body, err)
	}
	if diff := cmp.Diff([]string{"", "r1"}, spent); diff != "" {
		t.Errorf("refresh tokens (-want +got)\n%s", diff)
	}
}

// TestStoreFails checks that a failure of the store is reported and does not fail the request.
func TestStoreFails(t *testing.T) {
	w, u := newWorld(t), new(user)
	client := w.client(t, u)
	client.Store = broken{}
	var heard []string
	client.Report = func(what string, err error) { heard = append(heard, what+": "+err.Error()) }
	if status, _, err := post(t, client, "{}"); status != 200 {
		t.Fatal(err)
	}
	if len(heard) < 2 || heard[0] != "store: the keychain is locked" {
		t.Errorf("heard %q", heard)
	}
}

// broken is a store that always fails.
type broken struct{}

var errLocked = errors.New("the keychain is locked")

func (broken) Load(context.Context, string) ([]byte, error) { return nil, errLocked }
func (broken) Save(context.Context, string, []byte) error   { return errLocked }

// TestUnusable checks that a misconfigured client fails at once.
func TestUnusable(t *testing.T) {
	for _, resource := range []string{"", "mcp", "stdio:", "ftp://h/mcp"} {
		c := &oauth.Client{Resource: resource, Timeout: time.Second}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://h/mcp", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(r)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%q: no error", resource)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
