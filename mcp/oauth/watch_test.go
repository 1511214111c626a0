package oauth_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// A way is an http.RoundTripper that records requests.
type way struct {
	next http.RoundTripper

	mu   sync.Mutex // guards the fields below
	seen []string
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	result := "no answer"
	if err == nil {
		result = resp.Status
	}
	w.seen = append(w.seen, r.Method+" "+r.URL.Path+" "+result)
	return resp, err
}

// Watch sees every request for a token except those to the MCP server itself.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	watched := new(way)
	c := w.client(t, new(user))
	c.Watch = func(next http.RoundTripper) http.RoundTripper { watched.next = next; return watched }
	if status, text, err := post(t, c, "x"); err != nil || status != 200 {
		t.Fatal(status, text, err)
	}
	want := []string{
		"GET /.well-known/oauth-protected-resource/mcp 200 OK", "GET /.well-known/oauth-authorization-server 200 OK", "POST /register 201 Created", "POST /token 200 OK",
	}
	if !slices.Equal(watched.seen, want) {
		t.Errorf("seen %q, want %q", watched.seen, want)
	}
}

// Wrapping the transport does not extend the allowed destinations.
func TestWatchIsCheckedToo(t *testing.T) {
	w := newWorld(t)
	c := w.client(t, new(user))
	c.Watch = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Host = "10.0.0.1"
			return next.RoundTrip(r)
		})
	}
	if _, _, err := post(t, c, "x"); err == nil || !strings.Contains(err.Error(), "must not be reached") {
		t.Errorf("it ended with %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request with another state is reported to Stray.
func TestStray(t *testing.T) {
	states := make(chan string, 4)
	l := &oauth.Loopback{
		Open:  func(context.Context, string) error { return nil },
		Stray: func(r *http.Request) { states <- r.URL.Query().Get("state") },
	}
	visit, err := l.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer visit.Close()
	done := make(chan error, 1)
	go func() {
		_, err := visit.Go(t.Context(), "https://as.example/authorize?state=S")
		done <- err
	}()
	if status, _ := get(t, visit.Redirect+"?state=T&code=x", ""); status != 400 {
		t.Errorf("another state: %d", status)
	}
	if got := <-states; got != "T" {
		t.Errorf("Stray got %q", got)
	}
	for status := 400; status != 200; { // until the browser has been opened
		status, _ = get(t, visit.Redirect+"?state=S&code=x", "")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
