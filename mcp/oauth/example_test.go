package oauth_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// A server accepts one token and describes the errors.
func Example() {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "Hello, ", oauth.IdentityOf(r.Context()).Subject, "!")
	})
	guard, err := oauth.Protect(hello, &oauth.ProtectOptions{
		Resource: "https://example.com/mcp",
		Servers:  []string{"https://login.example.com"},
		Verify: oauth.VerifierFunc(func(_ context.Context, token string) (*oauth.Identity, error) {
			if token != "of-ada" {
				return nil, oauth.ErrToken
			}
			return &oauth.Identity{Issuer: "https://login.example.com", Subject: "Ada"}, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, authorization := range []string{"", "Bearer of-eve", "Bearer of-ada"} {
		r := httptest.NewRequest(http.MethodPost, "https://example.com/mcp", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		guard.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 401 a token is required
	//
	// 401 the token is not valid
	//
	// 200 Hello, Ada!
}

// A program that is registered at the authorization server obtains a token without further code.
func ExampleClient() {
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":"%s/token"}`, s.URL, s.URL)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		id, _, _ := r.BasicAuth()
		fmt.Fprintf(w, `{"access_token":"of-%s","token_type":"Bearer","expires_in":3600}`, id)
	})
	guard, err := oauth.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "Hello, ", oauth.IdentityOf(r.Context()).Subject, "!")
	}), &oauth.ProtectOptions{Resource: s.URL + "/mcp", Servers: []string{s.URL}, Verify: oauth.VerifierFunc(
		func(_ context.Context, token string) (*oauth.Identity, error) {
			return &oauth.Identity{Issuer: s.URL, Subject: token[len("of-"):]}, nil
		})})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux.Handle("/", guard)

	c := &oauth.Client{
		Resource:      s.URL + "/mcp",
		Grant:         oauth.ClientCredentials{},
		Registrations: []oauth.Registration{{Issuer: s.URL, ClientID: "robot", Secret: "beep"}},
		Base:          s.Client().Transport,
	}
	defer c.Close()
	resp, err := (&http.Client{Transport: c}).Get(s.URL + "/mcp")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	// Output: 200 Hello, robot!
}

func ExampleParseChallenges() {
	all, err := oauth.ParseChallenges([]string{`DPoP algs="ES256", Bearer error="insufficient_scope", scope="tools:use tools:admin"`})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range all {
		fmt.Println(c.Scheme, len(c.Params), oauth.Scopes(c.Params["scope"]))
	}
	// Output:
	// DPoP 1 []
	// Bearer 2 [tools:use tools:admin]
}

func ExampleScopes() {
	fmt.Printf("%q\n", oauth.Scopes("read  write read"))
	// Output: ["read" "write"]
}

func ExampleCanonical() {
	address, err := oauth.Canonical("HTTPS://Example.com/mcp#top")
	fmt.Println(address, err)
	// Output: https://example.com/mcp <nil>
}
