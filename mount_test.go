package parley

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// other returns a function that sets up connections for a different protocol and counts the open
// ones.
func other(open *atomic.Int64) func(*jsonrpc.Conn) func() {
	return func(conn *jsonrpc.Conn) func() {
		mux := new(jsonrpc.Mux)
		mux.Add("which", jsonrpc.Func(func(context.Context, []int) (string, error) { return "the other", nil }))
		conn.Handler, conn.Mode = mux, mux.Mode
		open.Add(1)
		return func() { open.Add(-1) }
	}
}

func TestMounts(t *testing.T) {
	var open atomic.Int64
	drained := make(chan struct{}, 1)
	s := serve(t, &Listener{
		Handler: testMux(nil),
		Mounts: map[string]Mount{
			"/other": {
				Converse: other(&open),
				Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("handled " + r.Method)) }),
				Drain:    func(context.Context) error { drained <- struct{}{}; return nil },
			},
			"/plain":     {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("plain")) })},
			"/tree/":     {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("below " + r.URL.Path)) })},
			"/tree/own/": {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("own " + r.URL.Path)) })},
		},
	}, "http://127.0.0.1:0")
	base := s.Targets()[0].Address
	target, err := ParseTarget("ws://" + base + "/other")
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, new(Dialer), target)
	if got, err := jsonrpc.Call[string](t.Context(), c, "which", []int{}); got != "the other" || err != nil {
		t.Errorf("which = %q, %v", got, err)
	}
	if _, err := jsonrpc.Call[int](t.Context(), c, "add", []int{1}); err == nil {
		t.Error("the mount answers the main endpoint's methods")
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, r := range []struct {
		method, path, origin, want string
		status                     int
	}{
		{http.MethodPut, "/other", "", "handled PUT", 200},
		{http.MethodGet, "/other", "", "handled GET", 200},
		// access checks apply to a mount
		{http.MethodGet, "/other", "https://evil.example", "", 403},
		{http.MethodGet, "/other/more", "", "", 404},
		{http.MethodPost, "/plain", "", "plain", 200},
		{http.MethodGet, "/tree/", "", "below /tree/", 200},
		{http.MethodGet, "/tree/a/b", "", "below /tree/a/b", 200},
		{http.MethodGet, "/tree/own/b", "", "own /tree/own/b", 200},
		{http.MethodGet, "/tree/a", "https://evil.example", "", 403},
		{http.MethodGet, "/tree", "", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+base+r.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.origin != "" {
			req.Header.Set("Origin", r.origin)
		}
		if status, body := roundTrip(t, req); status != r.status || r.want != "" && body != r.want {
			t.Errorf("%s %s: %d %q, want %d %q", r.method, r.path, status, body, r.status, r.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case <-drained:
	default:
		t.Error("the mount was not drained")
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d conversations are not over", n)
	}
}

func TestMountsWithATokenAreLocked(t *testing.T) {
	var open atomic.Int64
	s := serve(t, &Listener{
		Tokens: []string{"right"},
		Pages:  http.NotFoundHandler(), // pages are public, mounts are not
		Mounts: map[string]Mount{"/other": {Converse: other(&open), Handler: http.NotFoundHandler()}, "/plain": {Handler: http.NotFoundHandler()}},
	}, "http://127.0.0.1:0")
	base := s.Targets()[0].Address
	for _, path := range []string{"/other", "/plain"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := roundTrip(t, req); status != http.StatusUnauthorized {
			t.Errorf("GET %s without a token: %d", path, status)
		}
	}
	for token, ok := range map[string]bool{"right": true, "wrong": false} {
		target, err := ParseTarget("ws://" + base + "/other")
		if err != nil {
			t.Fatal(err)
		}
		c, err := (&Dialer{Token: token}).Dial(t.Context(), target)
		if (err == nil) != ok {
			t.Errorf("dial with the token %q: %v", token, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

func TestConverse(t *testing.T) {
	var open atomic.Int64
	s := serve(t, &Listener{Handler: testMux(nil), Converse: other(&open)}, "tcp://127.0.0.1:0", "ws://127.0.0.1:0")
	for _, target := range s.Targets() {
		c := dial(t, new(Dialer), target)
		if got, err := jsonrpc.Call[string](t.Context(), c, "which", []int{}); got != "the other" || err != nil {
			t.Errorf("%s: which = %q, %v", target, got, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d conversations are not over", n)
	}
}

func TestMountsThatCannotBe(t *testing.T) {
	nothing := http.NotFoundHandler()
	for name, mounts := range map[string]map[string]Mount{
		"path is already in use": {"/rpc": {Handler: nothing}},
		"must start with /":      {"mcp": {Handler: nothing}},
		"must not be nil":        {"/nothing": {}},
	} {
		if _, err := listen(t, &Listener{Mounts: mounts}, "http://127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("mounts %v: %v, want %q", mounts, err, name)
		}
	}
}
