package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// postAs sends body with a token, and returns the response without its body, and the body.
func postAs(t *testing.T, url, token, body string) (received, string) {
	t.Helper()
	header := http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return send(t, http.MethodPost, url, body, header)
}

// tokenFile returns a file of tokens, "canary-NAME" for each name.
func tokenFile(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		digest := sha256.Sum256([]byte("canary-" + name))
		fmt.Fprintf(&b, "- {name: %s, sha256: %s, groups: [%ss]}\n", name, hex.EncodeToString(digest[:]), name)
	}
	return b.String()
}

// TestCallers checks, with a listener, that callers are known by their tokens, that the policy
// decides about them, that their tokens are in nothing that the gateway writes or sends, and what a
// reload of the tokens changes for connections that are open.
func TestCallers(t *testing.T) {
	var seen lockedBuffer // what the upstream received
	methods := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		if req.Method == "fail" {
			return nil, jsonrpc.NewError(7, "no")
		}
		return req.Method, nil
	})
	up := serve(t, &parley.Listener{Handler: methods, Mounts: map[string]parley.Mount{"/raw": {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(&seen, "%v\n", r.Header)
		httprpc.Handler(methods).ServeHTTP(w, r)
	})}}}, "http://127.0.0.1:0/rpc")
	dir := t.TempDir()
	path, audit := filepath.Join(dir, "parley.yaml"), filepath.Join(dir, "audit.jsonl")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokens.yaml", tokenFile("robot", "admin"))
	write("parley.yaml", strings.NewReplacer("{up}", up.String(), "{raw}", "http://"+up.Address+"/raw").Replace(`
servers:
  one: {url: "{up}", protocol: jsonrpc}
  raw: {url: "{raw}", protocol: jsonrpc}
gateway:
  identity: {tokens: tokens.yaml}
  policy:
    - deny: {method: "admin.*", unless: "has(principal.groups, 'admins')"}
  routes:
    - {method: "raw", to: raw}
    - {method: "*", to: one}
  audit: {file: audit.jsonl, arguments: true}
`))
	read := func() *config.File {
		t.Helper()
		file, err := config.Read(path, &config.Options{Gateway: &config.GatewayOptions{}})
		if err != nil || len(file.Problems) > 0 {
			t.Fatal(err, file.Problems)
		}
		return file
	}
	var reports lockedBuffer
	g, err := gateway.New(&gateway.Options{File: read(), Report: func(what string, err error) { fmt.Fprintln(&reports, what, err) }})
	if err != nil {
		t.Fatal(err)
	}
	l := new(parley.Listener)
	g.Listener(l)
	to := serve(t, l, "http://127.0.0.1:0/rpc")

	call := func(token, method string) string {
		resp, body := postAs(t, to.URL(), token, `{"jsonrpc":"2.0","id":"req","method":"`+method+`","params":{"authorization":"`+token+`"}}`)
		if strings.Contains(body, "canary") {
			t.Errorf("the response repeats the token: %s", body)
		}
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(body))
	}
	for _, tt := range []struct{ token, method, want string }{
		{"canary-robot", "read", `200 {"jsonrpc":"2.0","result":"read","id":"req"}`},
		{"canary-robot", "fail", `"code":7`},
		{"canary-robot", "admin.delete", `"code":-32601`},
		{"canary-admin", "admin.delete", `"result":"admin.delete"`},
		{"canary-robot", "raw", `"result":"raw"`},
		{"canary-other", "read", `401`},
		{"", "read", `401`},
	} {
		if got := call(tt.token, tt.method); !strings.Contains(got, tt.want) {
			t.Errorf("%s of %q: %s, want %s", tt.method, tt.token, got, tt.want)
		}
	}
	if got, body := postAs(t, "http://"+to.Address+"/s/raw", "canary-robot", `{"jsonrpc":"2.0","id":1,"method":"x"}`); got.StatusCode != 200 {
		t.Errorf("pass-through: %d %s, reports %s", got.StatusCode, body, reports.String())
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401, "/s/one": 401} {
		resp, err := http.Get("http://" + to.Address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s without a token: %d, want %d", path, resp.StatusCode, want)
		}
	}

	dial := func(token string) *parley.Client {
		ws := to
		ws.Scheme = "ws"
		c, err := (&parley.Dialer{Token: token}).Dial(t.Context(), ws)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	robot, admin := dial("canary-robot"), dial("canary-admin")
	for name, c := range map[string]*parley.Client{"robot": robot, "admin": admin} {
		if _, err := jsonrpc.Call[string](t.Context(), c, "read", nil); err != nil {
			t.Errorf("%s on a WebSocket: %v", name, err)
		}
	}
	write("tokens.yaml", tokenFile("robot"))
	if _, err := g.Reload(read(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := jsonrpc.Call[string](t.Context(), robot, "read", nil); err != nil {
		t.Errorf("after a reload: %v", err)
	}
	if _, err := jsonrpc.Call[string](t.Context(), admin, "read", nil); err == nil || !strings.Contains(err.Error(), "-31005") {
		t.Errorf("a caller whose token is removed: %v", err)
	}
	if got := call("canary-admin", "read"); !strings.HasPrefix(got, "401") {
		t.Errorf("a removed token: %s", got)
	}
	without := read()
	without.Gateway.Identity = nil
	if _, err := g.Reload(without, true); err == nil {
		t.Error("the identity is removed by a reload")
	}
	if got := call("canary-robot", "read"); !strings.HasPrefix(got, "200") {
		t.Errorf("after a reload that was refused: %s", got)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}

	log, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"request":"req"`, `"principal":"token:robot"`, `"principal":"token:admin"`, `"trace":"4bf92f3577b34da6a3ce929d0e0e4736"`, `"address":"127.0.0.1"`, `"outcome":"denied","code":-32601`, `"outcome":"error","code":7`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the audit log does not contain %s:\n%s", want, log)
		}
	}
	if n := strings.Count(seen.String(), "Traceparent:[00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01]"); n != 2 {
		t.Errorf("%d requests to the upstream have the trace of the client, want 2:\n%s", n, seen.String())
	}
	for what, text := range map[string]string{"the upstream": seen.String(), "the audit log": string(log), "the reports": reports.String(), "the status": fmt.Sprintf("%+v", g.Status())} {
		if strings.Contains(text, "canary") || text == "" {
			t.Errorf("%s has a token:\n%s", what, text)
		}
	}
}
