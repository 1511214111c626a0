package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestProof(t *testing.T) {
	key, other := newECKey(t, ""), newECKey(t, "")
	const token, address = "the-token", "https://h/mcp"
	now := time.Now()
	good := proofClaims{ID: "1", Method: "POST", URI: address, IssuedAt: now.Unix(), Token: digest(token)}
	sign := func(k *Key, c any, kind string, embed bool) string {
		t.Helper()
		text, err := k.sign(c, map[jose.HeaderKey]any{"typ": kind}, embed)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	change := func(f func(*proofClaims)) string {
		c := good
		f(&c)
		return sign(key, c, "dpop+jwt", true)
	}
	private, err := (&jose.JSONWebKey{Key: key.private}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	withPrivate, err := key.sign(good, map[jose.HeaderKey]any{"typ": "dpop+jwt", "jwk": jsonText(private)}, false)
	if err != nil {
		t.Fatal(err)
	}
	made, err := key.proof("POST", address+"?q=1#f", token, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, proof string
		want        error
	}{
		{"ours", made, nil},
		{"plain", sign(key, good, "dpop+jwt", true), nil},
		{"host in capitals, port", change(func(c *proofClaims) { c.URI = "HTTPS://H:443/mcp" }), nil},
		{"59 s old", change(func(c *proofClaims) { c.IssuedAt -= 59 }), nil},
		{"nonce that nobody asked for", change(func(c *proofClaims) { c.Nonce = "x" }), nil},
		{"62 s old", change(func(c *proofClaims) { c.IssuedAt -= 62 }), errProof},
		{"from the future", change(func(c *proofClaims) { c.IssuedAt += 62 }), errProof},
		{"no time", change(func(c *proofClaims) { c.IssuedAt = 0 }), errProof},
		{"method", change(func(c *proofClaims) { c.Method = "GET" }), errProof},
		{"method in small letters", change(func(c *proofClaims) { c.Method = "post" }), errProof},
		{"address", change(func(c *proofClaims) { c.URI = "https://h/other" }), errProof},
		{"host", change(func(c *proofClaims) { c.URI = "https://i/mcp" }), errProof},
		{"scheme", change(func(c *proofClaims) { c.URI = "http://h/mcp" }), errProof},
		{"query", change(func(c *proofClaims) { c.URI += "?x" }), errProof},
		{"no address", change(func(c *proofClaims) { c.URI = "" }), errProof},
		{"token", change(func(c *proofClaims) { c.Token = digest("another") }), errProof},
		{"no token", change(func(c *proofClaims) { c.Token = "" }), errProof},
		{"no ID", change(func(c *proofClaims) { c.ID = "" }), errProof},
		{"long ID", change(func(c *proofClaims) { c.ID = strings.Repeat("x", 257) }), errProof},
		{"type", sign(key, good, "JWT", true), errProof},
		{"no key", sign(key, good, "dpop+jwt", false), errProof},
		{"private key", withPrivate, errProof},
		{"another key", sign(other, good, "dpop+jwt", true), errProof},
		{"changed", strings.Replace(made, ".", ".A", 1), errProof},
		{"two", made + "," + made, errProof},
		{"too long", change(func(c *proofClaims) { c.Nonce = strings.Repeat("x", maxProof) }), errProof},
		{"empty", "", errProof},
	} {
		_, err := checkProof(c.proof, "POST", address, token, key.Thumbprint(), nil, now)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

type jsonText []byte

func (j jsonText) MarshalJSON() ([]byte, error) { return j, nil }

func TestNonces(t *testing.T) {
	n := newIssuedNonces()
	now := time.Unix(1_700_000_040, 0)
	nonce := n.current(now)
	for after, want := range map[time.Duration]bool{0: true, time.Minute: true, 2 * time.Minute: true, 5 * time.Minute: false} {
		if got := n.good(nonce, now.Add(after)); got != want {
			t.Errorf("after %v: %t", after, got)
		}
	}
	if n.good("", now) || n.good(newIssuedNonces().current(now), now) || n.good(n.current(now.Add(time.Hour)), now) {
		t.Error("a nonce of another server, or of another time, is good")
	}
}

func TestUsed(t *testing.T) {
	var u used
	now := time.Now()
	take := func(id string, after time.Duration, want error) {
		t.Helper()
		if err := u.take("key", id, now.Add(after)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s after %v: %v, want %v", id, after, err, want)
		}
	}
	take("a", 0, nil)
	take("a", 0, errReplay)
	take("b", proofAge, nil)
	take("a", 2*proofAge, errReplay)
	take("c", 2*proofAge+time.Second, nil) // switches generations
	take("b", 2*proofAge+2*time.Second, errReplay)
	take("a", 10*proofAge, nil) // no longer remembered, and no longer valid
	if err := u.take("another key", "a", now.Add(10*proofAge)); err != nil {
		t.Errorf("the ID of another key: %v", err)
	}
	var full used
	for i := range maxProofs {
		if err := full.take("key", fmt.Sprint(i), now); err != nil {
			t.Fatal(err)
		}
	}
	if err := full.take("key", "one more", now); !errors.Is(err, errFull) {
		t.Errorf("past the bound: %v", err)
	}
	if err := full.take("key", "0", now); !errors.Is(err, errReplay) {
		t.Errorf("past the bound, an old one: %v", err)
	}
}

func TestKept(t *testing.T) {
	var n nonces
	header := func(nonce string) http.Header { return http.Header{"Dpop-Nonce": {nonce}} }
	n.keep("https://h/mcp", header("one"))
	n.keep("https://h/other", header("two"))
	n.keep("https://h/mcp", http.Header{})
	n.keep("https://h/mcp", header(strings.Repeat("x", maxNonceText+1)))
	if got := n.get("https://H/mcp"); got != "two" {
		t.Errorf("nonce %q", got)
	}
	if got := n.get("https://i/mcp"); got != "" {
		t.Errorf("nonce of another origin %q", got)
	}
	for i := range 100 {
		n.keep(fmt.Sprintf("https://h%d/", i), header("x"))
	}
	if len(n.by) > maxNonces {
		t.Errorf("%d origins are remembered", len(n.by))
	}
}

// TestStepTime checks that the count of step-ups for the same scopes is reset after ten minutes.
func TestStepTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{Resource: "https://h/mcp"}
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
		may := func(want bool, scopes ...string) {
			t.Helper()
			if got := c.mayStep(scopes); got != want {
				t.Errorf("%v: %t", scopes, got)
			}
		}
		may(true, "a", "b")
		may(true, "b", "a")
		may(false, "a", "b")
		may(true, "a")
		time.Sleep(11 * time.Minute)
		may(true, "a", "b")
		for i := range 1000 {
			c.mayStep([]string{fmt.Sprint(i)})
		}
		if len(c.steps) > maxSteps {
			t.Errorf("%d sets of scopes are remembered", len(c.steps))
		}
	})
}
