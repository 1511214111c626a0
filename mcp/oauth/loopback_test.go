package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

func get(t *testing.T, address, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	carrier := &http.Transport{DisableKeepAlives: true}
	resp, err := carrier.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func TestLoopback(t *testing.T) {
	opened := make(chan string, 1)
	l := &oauth.Loopback{Open: func(_ context.Context, address string) error { opened <- address; return nil }}
	visit, err := l.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(visit.Redirect)
	if err != nil || at.Hostname() != "127.0.0.1" || at.Path != "/callback" || at.Port() == "0" {
		t.Fatalf("redirect %s, %v", visit.Redirect, err)
	}
	if status, _ := get(t, visit.Redirect+"?code=x&state=", ""); status != 400 {
		t.Errorf("before the browser was opened: %d", status)
	}
	came := make(chan url.Values, 1)
	go func() {
		query, err := visit.Go(t.Context(), "https://as.example/authorize?state=S&client_id=c")
		if err != nil {
			t.Error(err)
		}
		came <- query
	}()
	if got := <-opened; got != "https://as.example/authorize?state=S&client_id=c" {
		t.Errorf("opened %s", got)
	}
	for address, c := range map[string]struct {
		host   string
		status int
	}{
		visit.Redirect + "?code=x&state=T":                                   {"", 400},
		visit.Redirect + "?code=x":                                           {"", 400},
		strings.Replace(visit.Redirect, "callback", "other", 1) + "?state=S": {"", 404},
		visit.Redirect + "?code=evil&state=S":                                {"evil.example", 404},
		visit.Redirect + "?code=evil&state=S&x":                              {"evil.example:" + at.Port(), 404},
	} {
		if status, body := get(t, address, c.host); status != c.status || strings.Contains(body, "evil") {
			t.Errorf("%s as %q: %d %s, want %d", address, c.host, status, body, c.status)
		}
	}
	if status, page := get(t, visit.Redirect+"?code=x&state=S&iss=i", ""); status != 200 || !strings.Contains(page, "close this window") {
		t.Errorf("%d %s", status, page)
	}
	if diff := cmp.Diff(url.Values{"code": {"x"}, "state": {"S"}, "iss": {"i"}}, <-came); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if status, _ := get(t, visit.Redirect+"?code=y&state=S", ""); status != 400 {
		t.Errorf("a second time: %d", status)
	}
	visit.Close()
	again, err := l.Begin(t.Context(), []string{"http://127.0.0.1:1/elsewhere", "https://app.example/callback", visit.Redirect})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Redirect != visit.Redirect {
		t.Errorf("another port: %s, before %s", again.Redirect, visit.Redirect)
	}
	other, err := l.Begin(t.Context(), []string{visit.Redirect})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Redirect == visit.Redirect {
		t.Error("a port that is taken was given out again")
	}
}

func TestLoopbackRefuses(t *testing.T) {
	l := &oauth.Loopback{Open: func(_ context.Context, address string) error { t.Errorf("opened %s", address); return nil }}
	for _, address := range []string{"http://as.example/authorize", "file:///etc/passwd", "javascript:alert(1)", "https://u:p@as.example/", "-x", ""} {
		visit, err := l.Begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := visit.Go(t.Context(), address); err == nil {
			t.Errorf("%q: no error", address)
		}
		visit.Close()
	}
	l.Open = func(context.Context, string) error { return errors.New("no browser") }
	visit, err := l.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer visit.Close()
	if _, err := visit.Go(t.Context(), "https://as.example/?state=x"); err == nil || !strings.Contains(err.Error(), "no browser") {
		t.Errorf("without a browser: %v", err)
	}
	noticed := ""
	l.Notice = func(address string) { noticed = address }
	patient, err := l.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := patient.Go(ctx, "https://as.example/?state=x"); !errors.Is(err, context.DeadlineExceeded) || noticed != "https://as.example/?state=x" {
		t.Errorf("a user who reads the address and does nothing: %v, %q", err, noticed)
	}
	if err := oauth.OpenBrowser(t.Context(), "--help"); err == nil {
		t.Error("OpenBrowser took a flag")
	}
}
