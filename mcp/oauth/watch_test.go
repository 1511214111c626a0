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

// A way is an http.RoundTripper that notes what goes through it.
type way struct {
	next http.RoundTripper

	mu   sync.Mutex // guards what is below
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

// Watch sees every request of the way to a token but those to the server itself.
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

// What is put around the requests does not widen where they may lead.
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
	if _, _, err := post(t, c, "x"); err == nil || !strings.Contains(err.Error(), "not to be reached") {
		t.Errorf("it ended with %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Who comes back with another state is told.
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
	for status := 400; status != 200; { // until the browser was opened
		status, _ = get(t, visit.Redirect+"?state=S&code=x", "")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
