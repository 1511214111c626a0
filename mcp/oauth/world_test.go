package oauth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// A world is an MCP server and an authorization server in one, with tables of responses and a log
// of requests.
type world struct {
	url string

	mu     sync.Mutex // guards the fields below
	asked  []string   // "GET /path", in order
	forms  []url.Values
	pages  map[string]func(http.ResponseWriter, *http.Request)
	tokens map[string]string // token -> its scopes; accepted by the MCP server
	serial int
}

// newWorld starts a server that responds from pages. Initially it has an authorization server at
// its root, and resource metadata at the well-known address with the path.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{pages: map[string]func(http.ResponseWriter, *http.Request){}, tokens: map[string]string{}}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	w.url = s.URL
	w.document("/.well-known/oauth-protected-resource/mcp", map[string]any{"resource": w.url + "/mcp", "authorization_servers": []string{w.url}})
	w.document("/.well-known/oauth-authorization-server", w.server(""))
	w.pages["/token"] = func(rw http.ResponseWriter, r *http.Request) { w.token(rw, r) }
	w.pages["/register"] = func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, 201, map[string]any{"client_id": "c"})
	}
	w.pages["/mcp"] = w.mcp
	return w
}

// server returns metadata of an authorization server below a path.
func (w *world) server(path string) map[string]any {
	return map[string]any{"issuer": w.url + path, "authorization_endpoint": w.url + path + "/authorize", "token_endpoint": w.url + path + "/token",
		"registration_endpoint": w.url + path + "/register", "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"}}
}

func (w *world) document(path string, v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v == nil {
		delete(w.pages, path)
		return
	}
	w.pages[path] = func(rw http.ResponseWriter, _ *http.Request) { answer(rw, 200, v) }
}

func (w *world) page(path string, f func(http.ResponseWriter, *http.Request)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[path] = f
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		_ = r.ParseForm()
	}
	w.mu.Lock()
	w.asked = append(w.asked, r.Method+" "+r.URL.Path)
	w.forms = append(w.forms, r.PostForm)
	page := w.pages[r.URL.Path]
	w.mu.Unlock()
	if page == nil {
		http.NotFound(rw, r)
		return
	}
	page(rw, r)
}

// token issues a token for the last requested scopes.
func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.serial++
	token := fmt.Sprintf("token-%d", w.serial)
	w.tokens[token] = r.PostForm.Get("scope")
	w.mu.Unlock()
	answer(rw, 200, map[string]any{"access_token": token, "token_type": "bearer", "expires_in": 3600})
}

// mcp accepts the issued tokens.
func (w *world) mcp(rw http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	w.mu.Lock()
	_, ok := w.tokens[token]
	w.mu.Unlock()
	if !ok {
		rw.Header().Set("WWW-Authenticate", "Bearer")
		rw.WriteHeader(401)
		return
	}
	fmt.Fprintf(rw, "hello %s", token)
}

// since returns and clears the log of requests, without those to the MCP server.
func (w *world) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(w.asked, func(s string) bool { return strings.HasSuffix(s, " /mcp") })
	w.asked, w.forms = nil, nil
	return list
}

// count returns how often a request was made.
func (w *world) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, one := range w.asked {
		if one == what {
			n++
		}
	}
	return n
}

// A user answers authorization requests. The zero value consents, with the issuer from the
// metadata.
type user struct {
	mu     sync.Mutex // guards the fields below
	asked  []url.Values
	answer func(url.Values) url.Values // nil: consent
}

const back = "http://127.0.0.1:1/callback"

func (u *user) begin(context.Context, []string) (*oauth.Visit, error) {
	return &oauth.Visit{Redirect: back, Go: func(_ context.Context, address string) (url.Values, error) {
		at, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.asked = append(u.asked, at.Query())
		if u.answer != nil {
			return u.answer(at.Query()), nil
		}
		return url.Values{"code": {"the-code"}, "state": {at.Query().Get("state")}}, nil
	}}, nil
}

// client returns a Client of the world's server with a user.
func (w *world) client(t *testing.T, u *user) *oauth.Client {
	t.Helper()
	c := &oauth.Client{Resource: w.url + "/mcp", Base: &http.Transport{}}
	if u != nil {
		c.Grant = &oauth.Code{Begin: u.begin}
	}
	t.Cleanup(func() {
		_ = c.Close()
		c.CloseIdleConnections()
	})
	return c
}

// post sends a request through a client and returns status and body.
func post(t *testing.T, c *oauth.Client, body string) (int, string, error) {
	t.Helper()
	return postTo(t.Context(), t, c, c.Resource, body)
}

func postTo(ctx context.Context, t *testing.T, c *oauth.Client, address, body string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: c}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text := new(strings.Builder)
	buf := make([]byte, 512)
	for {
		n, err := resp.Body.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			return resp.StatusCode, text.String(), nil
		}
	}
}
