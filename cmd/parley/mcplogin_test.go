package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// authority is an authorization server that approves every request, once per registration.
type authority struct {
	*httptest.Server

	mu         sync.Mutex
	challenges map[string]string // by code
	logins     int
	registered int
}

func newAuthority(t *testing.T) *authority {
	a := &authority{challenges: map[string]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reply := func(status int, v map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		reply(http.StatusOK, map[string]any{
			"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token", "registration_endpoint": a.URL + "/register",
			"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "client_credentials"},
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic"},
		})
	case "/register":
		a.registered++
		reply(http.StatusCreated, map[string]any{"client_id": "made-for-you", "token_endpoint_auth_method": "none"})
	case "/authorize":
		a.logins++
		q := r.URL.Query()
		a.challenges["the-code"] = q.Get("code_challenge")
		http.Redirect(w, r, q.Get("redirect_uri")+"?code=the-code&state="+q.Get("state"), http.StatusFound)
	case "/token":
		if err := r.ParseForm(); err != nil {
			reply(http.StatusBadRequest, map[string]any{"error": "invalid_request"})
			return
		}
		digest := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		id, secret, _ := r.BasicAuth()
		switch {
		case r.Form.Get("grant_type") == "client_credentials" && id == "robot" && secret == "s3cret",
			r.Form.Get("code") == "the-code" && a.challenges["the-code"] == base64.RawURLEncoding.EncodeToString(digest[:]):
			reply(http.StatusOK, map[string]any{"access_token": "good", "token_type": "Bearer", "expires_in": 3600})
		default:
			reply(http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		}
	default:
		http.NotFound(w, r)
	}
}

// guarded starts the demo behind OAuth.
func guarded(t *testing.T, issuer string) (address string) {
	t.Helper()
	tools := demo.NewMCP("test", nil)
	t.Cleanup(tools.Close)
	handler := mcphttp.NewHandler(tools.Server, nil)
	t.Cleanup(func() { _ = handler.Close() })
	var guard http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { guard.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	g, err := oauth.Protect(handler, &oauth.ProtectOptions{
		Resource: server.URL + "/mcp", Servers: []string{issuer},
		Verify: oauth.VerifierFunc(func(_ context.Context, token string) (*oauth.Identity, error) {
			if token != "good" {
				return nil, oauth.ErrToken
			}
			return &oauth.Identity{Issuer: issuer, Subject: "ada"}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	guard = g
	return server.URL + "/mcp"
}

func TestLogin(t *testing.T) {
	login := newAuthority(t)
	address := guarded(t, login.URL)
	state := t.TempDir()
	var visited int
	run := func(words ...string) (code int, stdout, stderr string) {
		var out, err bytes.Buffer
		a := &app{
			stdin: strings.NewReader(""), stdout: &out, stderr: &err,
			getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] },
			browse: func(ctx context.Context, address string) error {
				visited++
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
				if err != nil {
					return err
				}
				answer, err := http.DefaultClient.Do(req)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				page, _ := io.ReadAll(answer.Body)
				if !strings.Contains(string(page), "You are logged in") {
					t.Errorf("the user ends on a page that says %s", page)
				}
				return nil
			},
		}
		code = a.main(t.Context(), append([]string{"mcp"}, words...))
		return code, out.String(), err.String()
	}

	// Without a user the login fails immediately.
	if code, _, stderr := run("ping", address); code != exitAuth || !strings.Contains(stderr, "login requires a terminal") {
		t.Errorf("without a person: exit code %d, %s", code, stderr)
	}
	// The first call opens the browser, the second finds the token in its file.
	for range 2 {
		code, stdout, stderr := run("call", address, "calculator/add", "a:=42", "b:=23", "--login", "browser")
		if code != exitOK || !strings.Contains(stdout, `"result": 65`) {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
	}
	if visited != 1 || login.logins != 1 || login.registered != 1 {
		t.Errorf("%d visits, %d logins, %d registrations; want one of each", visited, login.logins, login.registered)
	}
	if code, _, stderr := run("ping", address); code != exitOK {
		t.Errorf("with a stored token: exit code %d, %s", code, stderr)
	}
	files, err := filepath.Glob(filepath.Join(state, "parley", "oauth", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no token was stored: %v", err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v: other users can read it", file, info.Mode(), err)
		}
	}
	// After logout, a login is required again.
	if code, _, stderr := run("logout", address); code != exitOK {
		t.Errorf("logout: exit code %d, %s", code, stderr)
	}
	if code, _, _ := run("ping", address); code != exitAuth {
		t.Errorf("after logout: exit code %d", code)
	}
}

func TestLoginAsAProgram(t *testing.T) {
	login := newAuthority(t)
	address := guarded(t, login.URL)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{"robot": exitOK, "stranger": exitAuth} {
		state := t.TempDir()
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr,
			getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }}
		code := a.main(t.Context(), []string{"mcp", "ping", address, "--login", "client", "--client-id", id, "--client-secret-file", secret})
		if code != want {
			t.Errorf("%s: exit code %d, want %d: %s", id, code, want, &stderr)
		}
		// The secret and the token are hidden in errors, on stderr and in traces.
		values := a.secrets.Values()
		if !slices.Contains(values, "s3cret") || (want == exitOK) != slices.Contains(values, "good") {
			t.Errorf("%s: the hidden values are %q", id, values)
		}
	}
}
