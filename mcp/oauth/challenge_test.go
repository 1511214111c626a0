package oauth_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/mcp/oauth"
)

// one returns a challenge with parameters: one("Bearer", "realm", "x").
func one(scheme string, pairs ...string) oauth.Challenge {
	c := oauth.Challenge{Scheme: scheme}
	for i := 0; i < len(pairs); i += 2 {
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		c.Params[pairs[i]] = pairs[i+1]
	}
	return c
}

var challengeCases = []struct {
	name    string
	headers []string
	want    []oauth.Challenge
	bad     bool
}{
	{"nothing", nil, nil, false},
	{"empty", []string{""}, nil, false},
	{"scheme alone", []string{"Bearer"}, []oauth.Challenge{one("Bearer")}, false},
	{"one parameter", []string{`Bearer resource_metadata="https://h/.well-known/oauth-protected-resource/mcp"`},
		[]oauth.Challenge{one("Bearer", "resource_metadata", "https://h/.well-known/oauth-protected-resource/mcp")}, false},
	{"order and case of names", []string{`bearer Scope="a b", ERROR=invalid_token`}, []oauth.Challenge{one("bearer", "scope", "a b", "error", "invalid_token")}, false},
	{"blanks around =", []string{"Bearer scope = \"a\" ,\terror= x"}, []oauth.Challenge{one("Bearer", "scope", "a", "error", "x")}, false},
	{"escapes", []string{`Bearer error_description="say \"no\" \\ \x"`}, []oauth.Challenge{one("Bearer", "error_description", `say "no" \ x`)}, false},
	{"comma and scheme inside quotes", []string{`Bearer realm="a, Basic b", scope="x"`}, []oauth.Challenge{one("Bearer", "realm", "a, Basic b", "scope", "x")}, false},
	{"two in one line", []string{`DPoP algs="ES256", Bearer scope="a"`}, []oauth.Challenge{one("DPoP", "algs", "ES256"), one("Bearer", "scope", "a")}, false},
	{"two lines", []string{`DPoP algs="ES256"`, `Bearer`}, []oauth.Challenge{one("DPoP", "algs", "ES256"), one("Bearer")}, false},
	{"schemes alone", []string{`Negotiate, Bearer, Basic realm="x"`}, []oauth.Challenge{one("Negotiate"), one("Bearer"), one("Basic", "realm", "x")}, false},
	{"token68", []string{`Negotiate YWJj==, Bearer scope=a`}, []oauth.Challenge{{Scheme: "Negotiate", Token: "YWJj=="}, one("Bearer", "scope", "a")}, false},
	{"a token that ends like a name", []string{`Bearer scope=`}, []oauth.Challenge{{Scheme: "Bearer", Token: "scope="}}, false},
	{"empty elements", []string{`, ,Bearer scope="a",, error="b",`}, []oauth.Challenge{one("Bearer", "scope", "a", "error", "b")}, false},
	{"empty value", []string{`Bearer scope=""`}, []oauth.Challenge{one("Bearer", "scope", "")}, false},
	{"UTF-8 inside quotes", []string{`Bearer realm="grün"`}, []oauth.Challenge{one("Bearer", "realm", "grün")}, false},

	{"twice", []string{`Bearer scope="a", scope="b"`}, nil, true},
	{"twice, other case", []string{`Bearer scope="a", SCOPE="b"`}, nil, true},
	{"open quote", []string{`Bearer scope="a`}, nil, true},
	{"open escape", []string{`Bearer scope="a\`}, nil, true},
	{"no value", []string{`Bearer error=x, scope=`}, nil, true},
	{"no comma", []string{`Bearer scope="a" error="b"`}, nil, true},
	{"two =", []string{`Bearer scope==x, y`}, nil, true},
	{"no scheme", []string{`"Bearer"`}, nil, true},
	{"what stood before counts", []string{`Basic realm="x", Bearer scope="a`, `DPoP`}, []oauth.Challenge{one("Basic", "realm", "x"), one("DPoP")}, true},
	{"too long", []string{"Bearer realm=\"" + strings.Repeat("x", oauth.MaxChallenge) + `"`}, nil, true},
}

func TestParseChallenges(t *testing.T) {
	for _, c := range challengeCases {
		got, err := oauth.ParseChallenges(c.headers)
		if (err != nil) != c.bad {
			t.Errorf("%s: %q: error %v, want one: %t", c.name, c.headers, err, c.bad)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %q (-want +got)\n%s", c.name, c.headers, diff)
		}
	}
}

// Bytes that are not allowed in a header are omitted: a value never starts a second header.
func TestChallengeString(t *testing.T) {
	c := one("Bearer", "scope", "a b", "error_description", "x\r\nSet-Cookie: y\x00\"\\")
	if got, want := c.String(), `Bearer error_description="xSet-Cookie: y\"\\", scope="a b"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzChallenges checks for any header that parsed challenges parse to the same value after they
// are written again.
func FuzzChallenges(f *testing.F) {
	for _, c := range challengeCases {
		f.Add(strings.Join(c.headers, ","), "")
	}
	f.Add(`Bearer scope="a`, `Bearer error="b"`)
	f.Fuzz(func(t *testing.T, a, b string) {
		all, _ := oauth.ParseChallenges([]string{a, b})
		for _, c := range all {
			if strings.ContainsAny(a+b, "\x00\r\n\x7f") || hasControls(c) {
				continue // not allowed in a header; String omits them
			}
			again, err := oauth.ParseChallenges([]string{c.String()})
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], c) {
				t.Fatalf("%q: read %+v, written %q, read again %+v, %v", a, c, c.String(), again, err)
			}
		}
	})
}

func hasControls(c oauth.Challenge) bool {
	for _, v := range c.Params {
		for _, b := range []byte(v) {
			if b < ' ' && b != '\t' {
				return true
			}
		}
	}
	return false
}

func TestScopes(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, " ": nil, "a": {"a"}, "b a b": {"b", "a"}, "mcp:use  x/y": {"mcp:use", "x/y"}, "a \"b c\\d é e": {"a", "e"},
	} {
		if diff := cmp.Diff(want, oauth.Scopes(text)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
	}
}
