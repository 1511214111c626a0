package oauth_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

func TestIntrospection(t *testing.T) {
	answers := map[string]string{
		"good":      `{"active":true,"sub":"alice","client_id":"c","aud":["https://h/mcp"],"scope":"a b","exp":9999999999}`,
		"no end":    `{"active":true,"sub":"alice","aud":"https://h/mcp"}`,
		"bound":     `{"active":true,"sub":"alice","aud":"https://h/mcp","cnf":{"jkt":"k"}}`,
		"off":       `{"active":false,"sub":"alice","aud":"https://h/mcp"}`,
		"unsaid":    `{"sub":"alice","aud":"https://h/mcp"}`,
		"ended":     `{"active":true,"sub":"alice","aud":"https://h/mcp","exp":1000}`,
		"elsewhere": `{"active":true,"sub":"alice","aud":"https://other/mcp"}`,
		"nowhere":   `{"active":true,"sub":"alice"}`,
		"stranger":  `{"active":true,"sub":"alice","aud":"https://h/mcp","iss":"https://other"}`,
		"nobody":    `{"active":true,"aud":"https://h/mcp"}`,
		"odd":       `[]`,
	}
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if id, secret, _ := r.BasicAuth(); id != "rs" || secret != "s" || r.FormValue("token_type_hint") != "access_token" {
			w.WriteHeader(401)
			return
		}
		_, _ = io.WriteString(w, answers[r.FormValue("token")])
	}))
	defer s.Close()
	v := &oauth.Introspection{Endpoint: s.URL, Issuer: "https://as.example", Audience: "https://h/mcp", Client: oauth.Registration{ClientID: "rs", Secret: "s"}}
	for token, want := range map[string]error{"good": nil, "bound": nil, "off": oauth.ErrToken, "unsaid": oauth.ErrToken, "ended": oauth.ErrToken,
		"elsewhere": oauth.ErrToken, "nowhere": oauth.ErrToken, "stranger": oauth.ErrToken, "nobody": oauth.ErrToken, "odd": errAny, "a b": oauth.ErrToken} {
		i, err := v.Verify(t.Context(), token)
		if want == nil && err != nil || want == errAny && (err == nil || errors.Is(err, oauth.ErrToken)) || want == oauth.ErrToken && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", token, err, want)
		}
		if token == "bound" && i.Key != "k" || token == "good" && (i.Subject != "alice" || !slices.Equal(i.Scopes, []string{"a", "b"})) {
			t.Errorf("%s: %+v", token, i)
		}
	}
	v = &oauth.Introspection{Endpoint: s.URL, Issuer: "https://as.example", Audience: "https://h/mcp", Client: v.Client, Keep: time.Minute}
	for asked = 0; asked < 1; {
		for range 3 {
			if _, err := v.Verify(t.Context(), "good"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times within the time that an answer is kept", asked)
	}
	v = &oauth.Introspection{Endpoint: s.URL, Issuer: "https://as.example", Audience: "https://h/mcp"}
	if _, err := v.Verify(t.Context(), "good"); err == nil || errors.Is(err, oauth.ErrToken) {
		t.Errorf("a server that does not know us: %v; that is not the token's fault", err)
	}
}
