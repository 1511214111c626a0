package oauth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

var (
	testPolicy = new(outbound.Policy)
	testNow    = time.Unix(1_700_000_000, 0)
)

// carrierFunc is an http.RoundTripper that responds without a network.
type carrierFunc func(*http.Request) (*http.Response, error)

func (f carrierFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func testKey(t *testing.T, private crypto.Signer, algorithm, id string) *Key {
	t.Helper()
	k, err := KeyOf(private, algorithm)
	if err != nil {
		t.Fatal(err)
	}
	k.ID = id
	return k
}

func newECKey(t *testing.T, id string) *Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testKey(t, private, "ES256", id)
}

func keyList(keys ...*Key) string {
	var list []string
	for _, k := range keys {
		list = append(list, string(k.Public()))
	}
	return `{"keys":[` + strings.Join(list, ",") + `]}`
}

// TestKeySet checks when keys are fetched, and which keys are used while they cannot be fetched.
func TestKeySet(t *testing.T) {
	a, b := newECKey(t, "a"), newECKey(t, "b")
	synctest.Test(t, func(t *testing.T) {
		fetched, body, status := 0, keyList(a), 200
		k, err := newKeySet("https://as.example", "https://as.example/jwks", nil)
		if err != nil {
			t.Fatal(err)
		}
		k.web = &http.Client{Transport: carrierFunc(func(*http.Request) (*http.Response, error) {
			fetched++
			return respond(status, body)
		})}
		step := func(what, id string, wantFetched int, wantErr error) {
			t.Helper()
			_, err := k.key(t.Context(), id)
			if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
				t.Errorf("%s: %v, want %v", what, err, wantErr)
			}
			if fetched != wantFetched {
				t.Errorf("%s: fetched %d times, want %d", what, fetched, wantFetched)
			}
		}
		step("first", "a", 1, nil)
		time.Sleep(14 * time.Minute)
		step("within the time", "a", 1, nil)
		body = keyList(b)
		step("new key", "b", 2, nil)
		step("old key, gone", "a", 2, ErrToken)
		time.Sleep(59 * time.Second)
		step("unknown key, too soon", "c", 2, ErrToken)
		time.Sleep(time.Second)
		step("unknown key, a minute later", "c", 3, ErrToken)
		time.Sleep(15 * time.Minute)
		status = 500
		step("the issuer is ill", "b", 4, nil)
		step("still ill, not asked again", "b", 4, nil)
		step("ill, unknown key", "c", 4, ErrKeys)
		time.Sleep(24 * time.Hour)
		step("ill for a day", "b", 5, ErrKeys)
		status, body = 200, keyList(a, b)
		time.Sleep(time.Minute)
		step("well again", "b", 6, nil)
	})
}

// TestKeySetTogether checks that many concurrent callers cause one fetch, and that a cancelled
// caller does not stop it.
func TestKeySetTogether(t *testing.T) {
	a := newECKey(t, "a")
	synctest.Test(t, func(t *testing.T) {
		fetched := 0
		k, err := newKeySet("https://as.example", "https://as.example/jwks", nil)
		if err != nil {
			t.Fatal(err)
		}
		k.web = &http.Client{Transport: carrierFunc(func(*http.Request) (*http.Response, error) {
			fetched++
			time.Sleep(2 * time.Second)
			return respond(200, keyList(a))
		})}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 10)
		go func() { _, err := k.key(t.Context(), "a"); done <- err }()
		synctest.Wait()
		for range 8 {
			go func() { _, err := k.key(t.Context(), "a"); done <- err }()
		}
		if _, err := k.key(impatient, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gave up: %v", err)
		}
		for range 9 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if fetched != 1 {
			t.Errorf("fetched %d times", fetched)
		}
	})
}

func TestReadKeys(t *testing.T) {
	a := newECKey(t, "a")
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private, err := (&jose.JSONWebKey{Key: small, KeyID: "private"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body string
		want int // -1: rejected
	}{
		"one":              {keyList(a), 1},
		"with an odd kind": {strings.Replace(keyList(a), "[", `[{"kty":"odd","kid":"x"},{"kty":"oct","kid":"y","k":"AAAA"},`, 1), 1},
		"private left out": {strings.Replace(keyList(a), "[", "["+string(private)+",", 1), 1},
		"encryption":       {strings.ReplaceAll(keyList(a), `"use":"sig"`, `"use":"enc"`), -1},
		"without ID":       {strings.ReplaceAll(keyList(a), `"kid":"a",`, ``), -1},
		"one ID twice":     {keyList(a, a), -1},
		"empty":            {`{"keys":[]}`, -1},
		"too many":         {`{"keys":[` + strings.Repeat(string(a.Public())+",", 100) + string(a.Public()) + `]}`, -1},
	} {
		k, err := newKeySet("https://as.example", "https://as.example/jwks", nil)
		if err != nil {
			t.Fatal(err)
		}
		k.web = &http.Client{Transport: carrierFunc(func(*http.Request) (*http.Response, error) { return respond(200, c.body) })}
		keys, err := k.read(t.Context())
		if got := len(keys); err == nil && got != c.want || err != nil && c.want >= 0 {
			t.Errorf("%s: %d keys, %v, want %d", name, got, err, c.want)
		}
	}
}

// jwtWorld is a verifier whose issuer has one key of each kind.
type jwtWorld struct {
	v    *JWT
	keys map[string]*Key
}

func newJWTWorld(t *testing.T) *jwtWorld {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &jwtWorld{keys: map[string]*Key{
		"ec": newECKey(t, "ec"), "rsa": testKey(t, rsaKey, "RS256", "rsa"), "ed": testKey(t, edKey, "EdDSA", "ed"),
		"rs512": testKey(t, rsaKey, "RS512", "rs512"),
	}}
	w.v = &JWT{Issuer: "https://as.example", Audience: "https://h/mcp", KeysURL: "https://as.example/jwks"}
	if err := w.v.start(); err != nil {
		t.Fatal(err)
	}
	w.v.keys.web = &http.Client{Transport: carrierFunc(func(*http.Request) (*http.Response, error) {
		return respond(200, keyList(w.keys["ec"], w.keys["rsa"], w.keys["ed"], w.keys["rs512"]))
	})}
	return w
}

func goodClaims() map[string]any {
	return map[string]any{"iss": "https://as.example", "sub": "alice", "aud": "https://h/mcp", "exp": time.Now().Add(time.Minute).Unix(),
		"client_id": "c", "scope": "a b"}
}

func with(m map[string]any, name string, value any) map[string]any {
	out := maps.Clone(m)
	if out[name] = value; value == nil {
		delete(out, name)
	}
	return out
}

func (w *jwtWorld) sign(t *testing.T, key string, claims any, headers map[jose.HeaderKey]any) string {
	t.Helper()
	h := map[jose.HeaderKey]any{"kid": key, "typ": "at+jwt"}
	for name, value := range headers {
		if h[name] = value; value == nil {
			delete(h, name)
		}
	}
	token, err := w.keys[key].sign(claims, h, false)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestJWT(t *testing.T) {
	w := newJWTWorld(t)
	good := goodClaims()
	now := time.Now()
	b64 := base64.RawURLEncoding.EncodeToString
	payload, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	hmacOf := func(header string, key []byte) string {
		mac := hmac.New(sha256.New, key)
		text := b64([]byte(header)) + "." + b64(payload)
		mac.Write([]byte(text))
		return text + "." + b64(mac.Sum(nil))
	}
	other := newECKey(t, "ec")
	foreign, err := other.sign(good, map[jose.HeaderKey]any{"kid": "ec"}, false)
	if err != nil {
		t.Fatal(err)
	}
	brought, err := other.sign(good, map[jose.HeaderKey]any{"kid": "ec"}, true)
	if err != nil {
		t.Fatal(err)
	}
	ec := w.sign(t, "ec", good, nil)
	for _, c := range []struct {
		name, token string
		ok          bool
	}{
		{"ES256", ec, true},
		{"RS256", w.sign(t, "rsa", good, nil), true},
		{"EdDSA", w.sign(t, "ed", good, nil), true},
		{"audience among others", w.sign(t, "ec", with(good, "aud", []string{"x", "https://h/mcp"}), nil), true},
		{"typ JWT", w.sign(t, "ec", good, map[jose.HeaderKey]any{"typ": "JWT"}), true},
		{"typ application/at+jwt", w.sign(t, "ec", good, map[jose.HeaderKey]any{"typ": "application/AT+JWT"}), true},
		{"no typ", w.sign(t, "ec", good, map[jose.HeaderKey]any{"typ": nil}), true},
		{"ended 20 s ago, and this machine may be slow", w.sign(t, "ec", with(good, "exp", now.Add(-20*time.Second).Unix()), nil), true},
		{"begins in 29 s", w.sign(t, "ec", with(good, "nbf", now.Add(29*time.Second).Unix()), nil), true},
		{"end with a fraction", w.sign(t, "ec", with(good, "exp", float64(now.Unix())+60.5), nil), true},
		{"azp in place of client_id", w.sign(t, "ec", with(with(good, "client_id", nil), "azp", "p"), nil), true},

		{"ended 32 s ago", w.sign(t, "ec", with(good, "exp", now.Add(-32*time.Second).Unix()), nil), false},
		{"begins in 40 s", w.sign(t, "ec", with(good, "nbf", now.Add(40*time.Second).Unix()), nil), false},
		{"no end", w.sign(t, "ec", with(good, "exp", nil), nil), false},
		{"end is text", w.sign(t, "ec", with(good, "exp", "later"), nil), false},
		{"end is null", w.sign(t, "ec", map[string]any{"iss": good["iss"], "sub": "a", "aud": good["aud"], "exp": jsonNull{}}, nil), false},
		{"other issuer", w.sign(t, "ec", with(good, "iss", "https://as.example/"), nil), false},
		{"no issuer", w.sign(t, "ec", with(good, "iss", nil), nil), false},
		{"other audience", w.sign(t, "ec", with(good, "aud", "https://h/mcp/"), nil), false},
		{"no audience", w.sign(t, "ec", with(good, "aud", nil), nil), false},
		{"nobody", w.sign(t, "ec", with(with(good, "sub", nil), "client_id", nil), nil), false},
		{"an ID assertion", w.sign(t, "ec", good, map[jose.HeaderKey]any{"typ": "oauth-id-jag+jwt"}), false},
		{"a proof", w.sign(t, "ec", good, map[jose.HeaderKey]any{"typ": "dpop+jwt"}), false},
		{"unknown key", w.sign(t, "ec", good, map[jose.HeaderKey]any{"kid": "zz"}), false},
		{"key of another kind", w.sign(t, "ec", good, map[jose.HeaderKey]any{"kid": "rsa"}), false},
		{"no key ID", w.sign(t, "ec", good, map[jose.HeaderKey]any{"kid": nil}), false},
		{"critical", w.sign(t, "ec", good, map[jose.HeaderKey]any{"crit": []string{"exp2"}, "exp2": 1}), false},
		{"an algorithm that is not taken", w.sign(t, "rs512", good, nil), false},
		{"foreign key under our ID", foreign, false},
		{"key in the token", brought, false},
		{"none", b64([]byte(`{"alg":"none","kid":"ec"}`)) + "." + b64(payload) + ".", false},
		{"HS256 with the public key", hmacOf(`{"alg":"HS256","kid":"ec"}`, w.keys["ec"].Public()), false},
		{"doubled claim", w.signRaw(t, `{"iss":"https://as.example","sub":"alice","sub":"bob","aud":"https://h/mcp","exp":9999999999}`), false},
		{"claim in capitals", w.signRaw(t, `{"ISS":"https://as.example","sub":"alice","AUD":"https://h/mcp","exp":9999999999}`), false},
		{"changed payload", strings.Replace(ec, ".", ".A", 1), false},
		{"four parts", ec + ".x", false},
		{"two parts", ec[:strings.LastIndex(ec, ".")], false},
		{"empty", "", false},
		{"dots", strings.Repeat(".", 5000), false},
		{"too long", w.sign(t, "ec", with(good, "x", strings.Repeat("x", maxJWT)), nil), false},
	} {
		i, err := w.v.Verify(t.Context(), c.token)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrToken) {
			t.Errorf("%s: %v, want ok: %t", c.name, err, c.ok)
		}
		if err == nil && (i.Subject != "alice" || i.Issuer != "https://as.example" || fmt.Sprint(i.Scopes) != "[a b]" || i.ClientID == "") {
			t.Errorf("%s: %+v", c.name, i)
		}
		if err != nil && len(c.token) > 40 && strings.Contains(err.Error(), c.token[10:40]) {
			t.Errorf("%s: the error shows the token: %v", c.name, err)
		}
	}
}

type jsonNull struct{}

func (jsonNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// signRaw signs a payload that no marshaler would produce.
func (w *jwtWorld) signRaw(t *testing.T, payload string) string {
	t.Helper()
	k := w.keys["ec"]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.algorithm, Key: k.private},
		&jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "ec"}})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// FuzzJWT checks that no text makes the verifier panic or, without a key, return an identity.
func FuzzJWT(f *testing.F) {
	b64 := base64.RawURLEncoding.EncodeToString
	f.Add(b64([]byte(`{"alg":"none"}`)) + "." + b64([]byte(`{}`)) + ".")
	f.Add(b64([]byte(`{"alg":"ES256","kid":"a"}`)) + "." + b64([]byte(`{"iss":"https://as.example"}`)) + "." + b64(make([]byte, 64)))
	f.Add(b64([]byte(`{"alg":"ES256","kid":"a","crit":["b64"],"b64":false}`)) + "." + b64([]byte(`x`)) + "." + b64(make([]byte, 64)))
	f.Add("..")
	key, err := NewKey()
	if err != nil {
		f.Fatal(err)
	}
	key.ID = "a"
	v := &JWT{Issuer: "https://as.example", Audience: "https://h/mcp", KeysURL: "https://as.example/jwks"}
	if err := v.start(); err != nil {
		f.Fatal(err)
	}
	v.keys.web = &http.Client{Transport: carrierFunc(func(*http.Request) (*http.Response, error) { return respond(200, keyList(key)) })}
	f.Fuzz(func(t *testing.T, token string) {
		if i, err := v.Verify(t.Context(), token); err == nil {
			t.Fatalf("%q is %+v", token, i)
		}
		if _, err := checkProof(token, "POST", "https://h/mcp", "t", key.Thumbprint(), nil, time.Now()); err == nil {
			t.Fatalf("%q is a proof", token)
		}
	})
}

// TestRegistrationsInMemory checks that a server that names another issuer each time does not make
// the client remember all of them.
func TestRegistrationsInMemory(t *testing.T) {
	c := &Client{regs: map[string]*Registration{}}
	for i := range 10 * maxNonces {
		issuer := fmt.Sprint("https://", i, ".example")
		c.rememberRegistration(issuer, &Registration{Issuer: issuer})
		if c.regs[issuer] == nil {
			t.Fatal("the last registration is not stored")
		}
	}
	if len(c.regs) > maxNonces {
		t.Errorf("%d registrations are stored", len(c.regs))
	}
}
