package oauth

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestLocations(t *testing.T) {
	for _, c := range []struct {
		of       func(*url.URL) []string
		from     string
		want     []string
		function string
	}{
		{resourceLocations, "https://h/mcp", []string{"https://h/.well-known/oauth-protected-resource/mcp", "https://h/.well-known/oauth-protected-resource"}, "resource"},
		{resourceLocations, "https://h:8443/a/mcp/", []string{"https://h:8443/.well-known/oauth-protected-resource/a/mcp", "https://h:8443/.well-known/oauth-protected-resource"}, "resource"},
		{resourceLocations, "https://h", []string{"https://h/.well-known/oauth-protected-resource"}, "resource"},
		{resourceLocations, "https://h/", []string{"https://h/.well-known/oauth-protected-resource"}, "resource"},
		{resourceLocations, "https://h/mcp?k=v", []string{"https://h/.well-known/oauth-protected-resource/mcp?k=v", "https://h/.well-known/oauth-protected-resource"}, "resource"},
		{resourceLocations, "https://h/a%2Fb", []string{"https://h/.well-known/oauth-protected-resource/a%2Fb", "https://h/.well-known/oauth-protected-resource"}, "resource"},
		{serverLocations, "https://as", []string{"https://as/.well-known/oauth-authorization-server", "https://as/.well-known/openid-configuration"}, "server"},
		{serverLocations, "https://as/", []string{"https://as/.well-known/oauth-authorization-server", "https://as/.well-known/openid-configuration"}, "server"},
		{serverLocations, "https://as/t/1", []string{"https://as/.well-known/oauth-authorization-server/t/1", "https://as/.well-known/openid-configuration/t/1", "https://as/t/1/.well-known/openid-configuration"}, "server"},
	} {
		if diff := cmp.Diff(c.want, c.of(parse(t, c.from))); diff != "" {
			t.Errorf("%s %s (-want +got)\n%s", c.function, c.from, diff)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		resource, address string
		want              bool
	}{
		{"https://h/mcp", "https://h/mcp", true},
		{"https://h/mcp/", "https://h/mcp", true},
		{"https://h", "https://h/mcp", true},
		{"https://h/", "https://h/mcp", true},
		{"https://H/mcp", "https://h/mcp", true},
		{"https://h:443/mcp", "https://h/mcp", true},
		{"https://h/a", "https://h/a/mcp", true},
		{"https://h/mcp", "https://h/mcp?x=1", true},
		{"https://h/mcp", "https://h/mcp2", false},
		{"https://h/mcp/x", "https://h/mcp", false},
		{"https://h/MCP", "https://h/mcp", false},
		{"http://h/mcp", "https://h/mcp", false},
		{"https://h:8443/mcp", "https://h/mcp", false},
		{"https://evil.example/mcp", "https://h/mcp", false},
		{"https://h.evil.example/mcp", "https://h/mcp", false},
		{"https://h/mcp#x", "https://h/mcp", false},
		{"https://h/mcp?y", "https://h/mcp", false},
		{"https://h/other/../mcp", "https://h/other/../mcp", false},
	} {
		if got := covers(parse(t, c.resource), parse(t, c.address)); got != c.want {
			t.Errorf("covers(%s, %s) = %t", c.resource, c.address, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"https://Example.COM/mcp":   "https://example.com/mcp",
		"https://example.com/":      "https://example.com",
		"https://example.com":       "https://example.com",
		"HTTPS://example.com/MCP/":  "https://example.com/MCP/",
		"https://example.com/mcp#f": "https://example.com/mcp",
		"https://u:p@example.com/x": "https://example.com/x",
	} {
		if got, err := Canonical(in); err != nil || got != want {
			t.Errorf("Canonical(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "mcp", "/mcp", "ftp://h/x", "mailto:a@b", "https:///x", "http://[::1"} {
		if got, err := Canonical(in); err == nil {
			t.Errorf("Canonical(%s) = %s, want an error", in, got)
		}
	}
}

// FuzzMetadata checks that untrusted documents are parsed without a panic, and that accepted ones
// are usable: they are about the server, and their endpoints are addresses.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"resource":"https://h/mcp","authorization_servers":["https://as"],"scopes_supported":["a"]}`), []byte(`{"issuer":"https://as","token_endpoint":"https://as/token"}`))
	f.Add([]byte(`{"resource":"https://h/mcp","resource":"https://evil.example"}`), []byte(`{"Issuer":"https://as","issuer":"https://as"}`))
	f.Add([]byte(`{"resource":7}`), []byte(`[]`))
	f.Add([]byte(`{"resource":"https://h/../mcp","authorization_servers":[""]}`), []byte("{\"issuer\":\"\xff\"}"))
	f.Add([]byte(`{"access_token":"x","token_type":"bearer","expires_in":"60"}`), []byte(`{"access_token":"x y","expires_in":1e400}`))
	address := &url.URL{Scheme: "https", Host: "h", Path: "/mcp"}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var r ResourceMetadata
		if decode(a, &r) == nil && checkResource(&r, address) == nil {
			u, err := url.Parse(r.Resource)
			if err != nil || u.Scheme != "https" || hostPort(u) != "h:443" && hostPort(u) != "H:443" {
				t.Fatalf("%q was taken for metadata of %v", a, address)
			}
		}
		var s ServerMetadata
		if decode(b, &s) == nil && checkServer(&s, testPolicy) == nil {
			u, err := url.Parse(s.TokenEndpoint)
			if err != nil || u.Scheme != "https" || u.Host == "" {
				t.Fatalf("%q was taken, with token endpoint %q", b, s.TokenEndpoint)
			}
		}
		for _, text := range [][]byte{a, b} {
			var in answer
			if decode(text, &in) == nil {
				if d, ok := in.seconds(); ok && d < 0 {
					t.Fatalf("%q: %v", text, d)
				}
				if got, err := in.token("token", nil, nil, testNow); err == nil && (!isCredential(got.Access) || got.Type != SchemeBearer) {
					t.Fatalf("%q: token %+v", text, got)
				}
			}
			var c claims
			_ = decode(text, &c) // must not panic
		}
	})
}
