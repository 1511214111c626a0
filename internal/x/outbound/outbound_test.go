package outbound_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIsPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "64:ff9b::808:808": true, "2002:808:808::1": true,
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "100.64.0.1": false, "100.127.0.1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12::1": false, "fec0::1": false,
		"224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false,
		"192.0.2.1": false, "198.51.100.7": false, "203.0.113.9": false, "198.18.0.1": false, "2001:db8::1": false, "3fff::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.1.1.1": false, "::ffff:8.8.8.8": true, "::127.0.0.1": false, "64:ff9b::7f00:1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b:1::a00:1": false, "2002:7f00:1::": false, "2002:a9fe:a9fe::1": false, "2001::1": false,
	} {
		if got := outbound.IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("IsPublic(%s) = %t, want %t", text, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	open, local := outbound.Policy{}, outbound.Policy{Loopback: true}
	typed := outbound.Policy{Plain: []string{"mcp.corp", "10.1.2.3"}}
	var secure outbound.Policy
	secure.Allow(&url.URL{Scheme: "https", Host: "MCP.corp:8443"})
	var here outbound.Policy
	here.Allow(&url.URL{Scheme: "https", Host: "[::1]:8443"})
	for _, c := range []struct {
		p       outbound.Policy
		address string
		ok      bool
	}{
		{open, "https://example.com/x", true},
		{open, "http://example.com/x", false},
		{open, "https://10.0.0.1/", false},
		{open, "https://[::1]/", false},
		{open, "https://localhost/", true}, // decided when the socket is dialled
		{open, "https://user:word@example.com/", false},
		{open, "file:///etc/passwd", false},
		{open, "https:///x", false},
		{local, "http://localhost:8080/", true},
		{local, "http://127.0.0.1:8080/", true},
		{local, "http://[::1]:8080/", true},
		{local, "http://10.0.0.1/", false},
		{local, "http://localhost.example.com/", false},
		{typed, "http://mcp.corp/", true},
		{typed, "http://10.1.2.3/", true},
		{typed, "http://10.1.2.4/", false},
		{typed, "https://10.1.2.4/", false},
		{typed, "http://MCP.corp/", true},
		{secure, "https://mcp.corp/", true},
		{secure, "http://mcp.corp/", false}, // no downgrade from TLS
		{secure, "http://127.0.0.1/", false},
		{here, "https://[::1]/", true},
		{here, "http://localhost/", true},
	} {
		u, err := url.Parse(c.address)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.p.Check(u); (err == nil) != c.ok || err != nil && !errors.Is(err, outbound.ErrForbidden) {
			t.Errorf("%+v.Check(%s) = %v, want ok: %t", c.p, c.address, err, c.ok)
		}
	}
}

// get requests an address under a policy and returns the body.
func get(t *testing.T, p outbound.Policy, address string) (string, error) {
	t.Helper()
	c := p.Client()
	defer c.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := outbound.Do(c, r)
	if err != nil {
		return "", err
	}
	return string(answer.Body), nil
}

// TestSocketIsChecked requests names that lead to this machine: no request may arrive.
func TestSocketIsChecked(t *testing.T) {
	reached := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer s.Close()
	u, _ := url.Parse(s.URL)
	for _, p := range []outbound.Policy{{}, {Hosts: []string{"elsewhere"}}} {
		if _, err := get(t, p, "https://localhost:"+u.Port()+"/"); !errors.Is(err, outbound.ErrForbidden) {
			t.Errorf("localhost under %+v: %v, want ErrForbidden", p, err)
		}
	}
	if reached != 0 {
		t.Errorf("the server was reached %d times", reached)
	}
}

func TestRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "authorization %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n) // 0 without a number
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case r.URL.Path == "/inside":
			http.Redirect(w, r, "https://169.254.169.254/latest", http.StatusFound)
		case n > 0:
			http.Redirect(w, r, fmt.Sprintf("%s/%d", s.URL, n-1), http.StatusFound)
		default:
			_, _ = io.WriteString(w, "here")
		}
	}))
	defer s.Close()
	local := outbound.Policy{Loopback: true}
	if got, err := get(t, local, s.URL+"/3"); err != nil || got != "here" {
		t.Errorf("three redirects: %q, %v", got, err)
	}
	if _, err := get(t, local, s.URL+"/4"); err == nil {
		t.Error("four redirects were followed")
	}
	if got, err := get(t, local, s.URL+"/away"); err != nil || got != `authorization ""` {
		t.Errorf("another origin got %s, %v", got, err)
	}
	if _, err := get(t, local, s.URL+"/inside"); !errors.Is(err, outbound.ErrForbidden) {
		t.Errorf("redirect to a link-local address: %v", err)
	}
	c := local.Client()
	defer c.CloseIdleConnections()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/1", strings.NewReader("code=secret"))
	answer, err := outbound.Do(c, r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != http.StatusFound {
		t.Errorf("a POST was redirected, to status %d", answer.Status)
	}
}

func TestMaxBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", outbound.MaxBody+len(r.URL.Path)-1))
	}))
	defer s.Close()
	if got, err := get(t, outbound.Policy{Loopback: true}, s.URL+"/"); err != nil || len(got) != outbound.MaxBody {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := get(t, outbound.Policy{Loopback: true}, s.URL+"/x"); !errors.Is(err, outbound.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}
