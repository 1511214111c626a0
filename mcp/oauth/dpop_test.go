package oauth_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

func TestParseKey(t *testing.T) {
	block := func(kind string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("secret")}))
	}
	for name, text := range map[string]string{
		"nothing": "", "no PEM": "secret", "public": block("PUBLIC KEY"), "broken": block("PRIVATE KEY"),
		"broken EC": block("EC PRIVATE KEY"), "broken RSA": block("RSA PRIVATE KEY"),
	} {
		if _, err := oauth.ParseKey([]byte(text), ""); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	k, err := oauth.NewKey()
	if err != nil || k.Algorithm() != "ES256" || len(k.Thumbprint()) != 43 || strings.Contains(string(k.Public()), `"d"`) {
		t.Errorf("%v, %v", k, err)
	}
}

func TestReplay(t *testing.T) {
	w := newWorld(t)
	var sent http.Header
	key := ""
	m := w.server("")
	m["dpop_signing_alg_values_supported"] = []string{"ES256"}
	w.document("/.well-known/oauth-authorization-server", m)
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		answer(rw, 200, map[string]any{"access_token": "bound", "token_type": "dpop"})
	})
	u := &user{}
	u.answer = func(q url.Values) url.Values {
		key = q.Get("dpop_jkt")
		return url.Values{"code": {"x"}, "state": {q.Get("state")}}
	}
	g, err := oauth.Protect(inner, &oauth.ProtectOptions{Resource: w.url + "/mcp", Servers: []string{w.url}, DPoP: oauth.DPoPAlways, Nonces: true,
		Verify: oauth.VerifierFunc(func(context.Context, string) (*oauth.Identity, error) {
			return &oauth.Identity{Issuer: w.url, Subject: "alice", Key: key}, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		g.ServeHTTP(rw, r)
	})
	if status, body, err := post(t, w.client(t, u), "{}"); status != 200 || !strings.HasPrefix(body, "alice authorization= ") {
		t.Fatal(status, body, err)
	}
	resp := ask(t, g, http.MethodPost, w.url+"/mcp", "{}", "Authorization: "+sent.Get("Authorization"), "DPoP: "+sent.Get("DPoP"))
	if resp.status != 401 || !strings.Contains(resp.header.Get("WWW-Authenticate"), `error="invalid_dpop_proof"`) {
		t.Errorf("the same proof again: %d %s", resp.status, resp.header.Get("WWW-Authenticate"))
	}
}
