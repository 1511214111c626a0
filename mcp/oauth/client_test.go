package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// TestStepUp checks that a server can require more scopes, which are added to the current ones, a
// bounded number of times over all requests.
func TestStepUp(t *testing.T) {
	w, u := newWorld(t), new(user)
	w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") == "":
			rw.Header().Set("WWW-Authenticate", `Bearer scope="use"`)
			rw.WriteHeader(401)
		case r.URL.Query().Has("plain"):
			rw.WriteHeader(403)
		case r.URL.Query().Has("admin"):
			rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="admin"`)
			rw.WriteHeader(403)
		}
	})
	client := w.client(t, u)
	ask := func(query string) (int, error) {
		status, _, err := postTo(t.Context(), t, client, client.Resource+query, "{}")
		return status, err
	}
	if status, err := ask(""); status != 200 {
		t.Fatal(status, err)
	}
	if status, err := ask("?plain"); status != 403 || err != nil {
		t.Errorf("a no without a reason: %d, %v; it is the caller's", status, err)
	}
	for range 3 {
		if _, err := ask("?admin"); !errors.Is(err, oauth.ErrScope) {
			t.Errorf("after asking in vain: %v", err)
		}
	}
	var scopes []string
	for _, q := range u.asked {
		scopes = append(scopes, q.Get("scope"))
	}
	if diff := cmp.Diff([]string{"use", "use admin", "use admin"}, scopes); diff != "" {
		t.Errorf("asked for (-want +got)\n%s", diff)
	}
	if status, err := ask(""); status != 200 {
		t.Errorf("what the token is good for: %d, %v", status, err)
	}
}

// TestMigration checks that another authorization server gets another registration and no data of
// the old one.
func TestMigration(t *testing.T) {
	w, u := newWorld(t), new(user)
	w.page("/register", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, 201, map[string]any{"client_id": "old-client", "client_secret": "old-secret", "token_endpoint_auth_method": "client_secret_post"})
	})
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.tokens["old"] = ""
		w.mu.Unlock()
		answer(rw, 200, map[string]any{"access_token": "old", "token_type": "Bearer", "refresh_token": "old-refresh"})
	})
	client := w.client(t, u)
	client.Store = new(oauth.Memory)
	if status, _, err := post(t, client, "{}"); status != 200 {
		t.Fatal(status, err)
	}
	w.document("/.well-known/oauth-protected-resource/mcp", map[string]any{"resource": w.url + "/mcp", "authorization_servers": []string{w.url + "/new"}})
	w.document("/.well-known/oauth-authorization-server/new", w.server("/new"))
	w.page("/new/register", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, 201, map[string]any{"client_id": "new-client"})
	})
	w.page("/new/token", w.token)
	w.mu.Lock()
	clear(w.tokens)
	w.mu.Unlock()
	w.since()
	if status, body, err := post(t, client, "{}"); status != 200 || body != "hello token-1" {
		t.Fatal(status, body, err)
	}
	if u.asked[1].Get("client_id") != "new-client" {
		t.Errorf("the new server saw client %q", u.asked[1].Get("client_id"))
	}
	for _, form := range w.forms {
		if text := form.Encode(); strings.Contains(text, "old") {
			t.Errorf("the new server saw %s", text)
		}
	}
	if got := w.since(); slices.Contains(got, "POST /token") || slices.Contains(got, "POST /register") {
		t.Errorf("the old server was asked: %v", got)
	}
}

// TestOneTrip checks that many concurrent requests send the user to the browser once. A request
// that is cancelled does not end the exchange for the others; Close does.
func TestOneTrip(t *testing.T) {
	w := newWorld(t)
	there, proceed := make(chan struct{}), make(chan struct{})
	begin := func(context.Context, []string) (*oauth.Visit, error) {
		return &oauth.Visit{Redirect: back, Go: func(ctx context.Context, address string) (url.Values, error) {
			close(there) // a second visit would panic
			select {
			case <-proceed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			u, err := url.Parse(address)
			return url.Values{"code": {"x"}, "state": {u.Query().Get("state")}}, err
		}}, nil
	}
	client := w.client(t, nil)
	client.Grant = &oauth.Code{Begin: begin}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if _, _, err := postTo(ctx, t, client, client.Resource, "{}"); !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up: %v", err)
		}
	})
	<-there
	cancel()
	group.Wait()
	for range 8 {
		group.Go(func() {
			if status, body, err := post(t, client, "{}"); status != 200 || body != "hello token-1" {
				t.Errorf("%d %s %v", status, body, err)
			}
		})
	}
	close(proceed)
	group.Wait()

	there, proceed = make(chan struct{}), make(chan struct{})
	if err := client.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	group.Go(func() {
		if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
	<-there
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrClosed) {
		t.Errorf("a closed client: %v", err)
	}
}

// TestRefusedOnce checks that a refused grant is not immediately retried for the layers above.
func TestRefusedOnce(t *testing.T) {
	w := newWorld(t)
	w.page("/token", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, 400, map[string]any{"error": "invalid_grant", "error_description": "no\x1b[31m, \"never\""})
	})
	client := w.client(t, nil)
	client.Grant = &oauth.Workload{ClientID: "pod", Assertion: func(context.Context) (string, error) { return "a.b.c", nil }}
	for range 3 {
		_, _, err := post(t, client, "{}")
		failed, ok := errors.AsType[*oauth.Error](err)
		if !ok || failed.Code != "invalid_grant" || failed.Status != 400 || failed.Description != `no?[31m, "never"` {
			t.Fatalf("%+v", err)
		}
	}
	if n := w.count("POST /token"); n != 1 {
		t.Errorf("%d token requests", n)
	}
}

// TestRefresh checks how an expiring token is renewed and how refresh tokens are handled.
func TestRefresh(t *testing.T) {
	w, u := newWorld(t), new(user)
	var forms []url.Values
	w.page("/token", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		forms = append(forms, r.PostForm)
		n := len(forms)
		token := fmt.Sprintf("t%d", n)
		w.tokens[token] = ""
		w.mu.Unlock()
		// A string, as some servers send it.
		a := map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": "5"}
		if n != 2 {
			a["refresh_token"] = fmt.Sprintf("r%d", n)
		}
		answer(rw, 200, a)
	})
	client := w.client(t, u)
	for i := 1; i <= 4; i++ {
		if _, body, err := post(t, client, "{}"); body != fmt.Sprintf("hello t%d", i) {
			t.Fatalf("request %d: %s, %v", i, body, err)
		}
	}
	var sent []string
	for _, f := range forms[1:] {
		sent = append(sent, f.Get("grant_type")+" "+f.Get("refresh_token")+" "+f.Get("resource"))
	}
	want := []string{"refresh_token r1 " + w.url + "/mcp", "refresh_token r1 " + w.url + "/mcp", "refresh_token r3 " + w.url + "/mcp"}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(u.asked) != 1 {
		t.Errorf("the user was asked %d times", len(u.asked))
	}
}

// TestSlowRefusal checks that the token request does not wait for the end of the 401 response.
func TestSlowRefusal(t *testing.T) {
	w, u := newWorld(t), new(user)
	release := make(chan struct{})
	defer close(release)
	w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			w.mcp(rw, r)
			return
		}
		rw.Header().Set("WWW-Authenticate", "Bearer")
		rw.Header().Set("Content-Length", "1000")
		rw.WriteHeader(401)
		_ = http.NewResponseController(rw).Flush()
		<-release
	})
	if status, _, err := post(t, w.client(t, u), "{}"); status != 200 {
		t.Error(err)
	}
}

// TestUnbound checks that a bearer token is not used in place of a bound one.
func TestUnbound(t *testing.T) {
	w, u := newWorld(t), new(user)
	m := w.server("")
	m["dpop_signing_alg_values_supported"] = []string{"ES256"}
	w.document("/.well-known/oauth-authorization-server", m)
	client := w.client(t, u)
	client.DPoP = oauth.DPoPAlways
	if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrDPoP) {
		t.Errorf("%v", err)
	}
	for name, algorithms := range map[string][]string{"others": {"RS256"}, "none": {}, "not said": nil} {
		delete(m, "dpop_signing_alg_values_supported")
		if algorithms != nil {
			m["dpop_signing_alg_values_supported"] = algorithms
		}
		w.document("/.well-known/oauth-authorization-server", m)
		client := w.client(t, u)
		client.DPoP = oauth.DPoPAlways
		if _, _, err := post(t, client, "{}"); !errors.Is(err, oauth.ErrDPoP) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(u.asked) != 1 {
		t.Errorf("the user was asked %d times", len(u.asked))
	}
}

// TestBody checks that a body that is sent twice is the same, and that a body that cannot be read
// again is buffered up to a bound.
func TestBody(t *testing.T) {
	w, u := newWorld(t), new(user)
	var bodies []string
	w.page("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.mcp(rw, r)
	})
	client := w.client(t, u)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, client.Resource, io.MultiReader(strings.NewReader("one "), strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if diff := cmp.Diff([]string{"one body", "one body"}, bodies); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r.Header.Get("Authorization") != "" {
		t.Error("the caller's request was changed")
	}
}

// TestOtherOrigin checks that no token is sent to another origin than the server's, however a
// request gets there.
func TestOtherOrigin(t *testing.T) {
	w, u := newWorld(t), new(user)
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	w.page("/away", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
	})
	client := w.client(t, u)
	if status, _, err := post(t, client, "{}"); status != 200 {
		t.Fatal(status, err)
	}
	for _, address := range []string{other.URL, w.url + "/away"} {
		if status, _, err := postTo(t.Context(), t, client, address, "{}"); status != 200 {
			t.Fatal(status, err)
		}
	}
	if diff := cmp.Diff([]string{"", ""}, got); diff != "" {
		t.Errorf("another origin got (-want +got)\n%s", diff)
	}
}

// TestStored checks that a second program continues with the stored token, and that Forget makes it
// start anew.
func TestStored(t *testing.T) {
	w, u := newWorld(t), new(user)
	store := &oauth.Files{Dir: t.TempDir() + "/tokens"}
	for range 2 {
		client := w.client(t, u)
		client.Store = store
		if _, body, err := post(t, client, "{}"); body != "hello token-1" {
			t.Fatal(body, err)
		}
		token, err := client.Token(t.Context())
		if err != nil || token.Access != "token-1" || token.Issuer != w.url || token.Resource != w.url+"/mcp" || token.ClientID != "c" || time.Until(token.Expires) < 59*time.Minute {
			t.Errorf("%+v, %v", token, err)
		}
	}
	client := w.client(t, u)
	client.Store = store
	if err := client.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if token, err := client.Token(t.Context()); token != nil || err != nil {
		t.Errorf("after Forget: %+v, %v", token, err)
	}
	if _, body, err := post(t, client, "{}"); body != "hello token-2" {
		t.Error(body, err)
	}
	if n := w.count("POST /register"); n != 1 {
		t.Errorf("registered %d times", n)
	}
	elsewhere := newWorld(t)
	foreign := elsewhere.client(t, nil)
	foreign.Store = store
	if token, err := foreign.Token(t.Context()); token != nil || err != nil {
		t.Errorf("another server finds %+v, %v", token, err)
	}
}

// TestTokenAnswers lists unusable token responses.
func TestTokenAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string // contained in the error
	}{
		"not JSON":          {200, `{`, "not JSON"},
		"doubled":           {200, `{"access_token":"a","access_token":"b","token_type":"Bearer"}`, "not JSON"},
		"no token":          {200, `{"token_type":"Bearer"}`, "no usable token"},
		"a token of lines":  {200, `{"access_token":"a\r\nX: y","token_type":"Bearer"}`, "no usable token"},
		"unknown type":      {200, `{"access_token":"a","token_type":"mac"}`, "unknown type"},
		"no type":           {200, `{"access_token":"a"}`, "unknown type"},
		"DPoP unasked":      {200, `{"access_token":"a","token_type":"DPoP"}`, "unknown type"},
		"an error with 200": {200, `{"error":"invalid_client"}`, "invalid_client"},
		"an error":          {400, `{"error":"invalid_scope","error_description":"x"}`, "invalid_scope (x)"},
		"a page":            {502, `<html>secret`, "status 502"},
		"a redirect":        {302, ``, "status 302"},
		"too much":          {200, `{"access_token":"` + strings.Repeat("a", 2<<20) + `"}`, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			w, u := newWorld(t), new(user)
			w.page("/token", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				rw.Header().Set("Location", "/elsewhere")
				rw.WriteHeader(c.status)
				_, _ = io.WriteString(rw, c.body)
			})
			_, _, err := post(t, w.client(t, u), "{}")
			if _, ok := errors.AsType[*oauth.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "the-code") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("the error shows a secret: %v", err)
			}
			if n := w.count("GET /elsewhere") + w.count("POST /elsewhere"); n != 0 {
				t.Error("the redirect of a token request was followed")
			}
		})
	}
}

// TestNoGrant checks the error of a 401 if no grant is configured.
func TestNoGrant(t *testing.T) {
	w := newWorld(t)
	_, _, err := post(t, w.client(t, nil), "{}")
	if failed, ok := errors.AsType[*oauth.Error](err); !ok || failed.Status != 401 {
		t.Errorf("%v", err)
	}
	if got := w.since(); len(got) != 0 {
		t.Errorf("asked %v", got)
	}
}

// TestRejected checks that tokens are not requested repeatedly if the server rejects a new one.
func TestRejected(t *testing.T) {
	w, u := newWorld(t), new(user)
	w.page("/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		rw.WriteHeader(401)
	})
	for range 2 {
		if _, _, err := post(t, w.client(t, u), "{}"); !errors.Is(err, oauth.ErrRejected) {
			t.Errorf("%v", err)
		}
	}
	if n := w.count("POST /token"); n != 2 {
		t.Errorf("%d tokens for 2 clients", n)
	}
}
