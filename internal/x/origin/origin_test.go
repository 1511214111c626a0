package origin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/origin"
)

// A redirect to another port is not followed, so that the token is not sent to another origin.
func Example() {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("stolen") }))
	defer other.Close()
	web := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer web.Close()

	client, closeIdle := origin.Client(nil, nil)
	defer closeIdle()
	req, err := http.NewRequest("POST", web.URL, strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Authorization", "Bearer secret")
	answer, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 307 Temporary Redirect
}

func TestSame(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"http://host/a", "http://host/b?c", true},
		{"http://host", "http://HOST:80/", true},
		{"https://host", "https://host:443", true},
		{"HTTP://host", "http://host", true},
		{"http://[::1]:80", "http://[::1]", true},
		{"http://host", "https://host", false},
		{"http://host", "http://host:443", false},
		{"http://host", "http://host.example", false},
		{"http://host:81", "http://host:82", false},
		{"http://a", "http://b", false},
	}
	for _, tt := range tests {
		a, errA := url.Parse(tt.a)
		b, errB := url.Parse(tt.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got := origin.Same(a, b); got != tt.want || origin.Same(b, a) != got {
			t.Errorf("Same(%s, %s) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"http://host/path?q#fragment": "http://host/path?q",
		"https://user:pw@host":        "https://user:pw@host",
	} {
		if u, err := origin.Parse(text); err != nil || u.String() != want {
			t.Errorf("%s: got %v, %v; want %s", text, u, err, want)
		}
	}
	for _, text := range []string{"", "host:80", "/path", "ws://host", "http:///path", "http://u:secret@[::1", "ftp://u:secret@host"} {
		if u, err := origin.Parse(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, %v", text, u, err)
		}
	}
}

// TestTheirs checks that the settings of a given client remain in effect.
func TestTheirs(t *testing.T) {
	asked := 0
	base := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { asked++; return nil }}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/next", http.StatusPermanentRedirect)
			return
		}
		_, _ = io.Copy(w, r.Body) // the test checks it
	}))
	defer web.Close()
	client, _ := origin.Client(base, nil)
	answer, err := client.Post(web.URL, "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); string(body) != "body" || asked != 1 {
		t.Errorf("got %q, asked %d times", body, asked)
	}
	if base.CheckRedirect == nil || client == base {
		t.Error("the client that was given is not left alone")
	}
}
