package guard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const secret = "correct-horse-battery-staple-and-more"

func withToken(values ...string) *http.Request {
	r := came("POST", "localhost:3000")
	r.RemoteAddr = "192.0.2.7:5555"
	for _, v := range values {
		r.Header.Add("Authorization", v)
	}
	return r
}

func TestToken(t *testing.T) {
	o := &Options{
		Tokens: []Digest{DigestOf("another-token-of-some-length"), DigestOf(secret)},
		Pages:  func(r *http.Request) bool { return r.URL.Path == "/" },
	}
	tests := []struct {
		name   string
		values []string
		want   int
		header string
	}{
		{"right", []string{"Bearer " + secret}, 200, ""},
		{"the scheme in another case", []string{"bEARER " + secret}, 200, ""},
		{"more spaces", []string{"Bearer   " + secret}, 200, ""},
		{"none", nil, 401, "Bearer"},
		{"wrong", []string{"Bearer " + secret + "x"}, 401, `Bearer error="invalid_token"`},
		{"cut", []string{"Bearer " + secret[1:]}, 401, `Bearer error="invalid_token"`},
		{"empty", []string{"Bearer "}, 401, `Bearer error="invalid_token"`},
		{"another scheme", []string{"Basic " + secret}, 401, `Bearer error="invalid_token"`},
		{"no scheme", []string{secret}, 401, `Bearer error="invalid_token"`},
		{"twice", []string{"Bearer " + secret, "Bearer " + secret}, 401, `Bearer error="invalid_token"`},
		{"9 KiB", []string{"Bearer " + strings.Repeat("x", 9<<10)}, 401, `Bearer error="invalid_token"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			mustDoor(t, o).Wrap(ok200).ServeHTTP(w, withToken(tt.values...))
			if w.Code != tt.want || w.Header().Get("WWW-Authenticate") != tt.header {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Header().Get("WWW-Authenticate"), tt.want, tt.header)
			}
			if strings.Contains(w.Body.String(), secret[1:]) {
				t.Error("the answer repeats the token")
			}
		})
	}
	page := withToken()
	page.Method, page.URL.Path = "GET", "/"
	if got := status(mustDoor(t, o).Check(page)); got != 200 {
		t.Errorf("a page: got %d, want 200", got)
	}
	page.Method = "POST"
	if got := status(mustDoor(t, o).Check(page)); got != 401 {
		t.Errorf("POST to a page: got %d, want 401", got)
	}
	o.Challenge = `resource_metadata="https://box.example/.well-known/x"`
	if got := mustDoor(t, o).Check(withToken()).Value; got != `Bearer resource_metadata="https://box.example/.well-known/x"` {
		t.Errorf("Challenge: got %q", got)
	}
}

// TestTenWrongTokens checks that further wrong tokens are rejected for a minute, and that a correct
// token is always accepted from the same address.
func TestTenWrongTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mustDoor(t, &Options{Tokens: []Digest{DigestOf(secret)}})
		wrong := func() int { return status(d.Check(withToken("Bearer wrong"))) }
		right := func() int { return status(d.Check(withToken("Bearer " + secret))) }

		for range 50 { // missing credentials are not attempts
			if got := status(d.Check(withToken())); got != 401 {
				t.Fatalf("without: got %d, want 401", got)
			}
		}
		for i := range 20 { // one per seven seconds never makes ten per minute
			if got := wrong(); got != 401 {
				t.Fatalf("slow try %d: got %d, want 401", i, got)
			}
			time.Sleep(7 * time.Second)
		}
		time.Sleep(time.Minute)
		for i := range 10 {
			if got := wrong(); got != 401 {
				t.Fatalf("try %d: got %d, want 401", i, got)
			}
		}
		for range 1000 {
			if got := wrong(); got != 429 {
				t.Fatalf("after ten: got %d, want 429", got)
			}
			if got := right(); got != 200 {
				t.Fatalf("the right one among them: got %d, want 200", got)
			}
		}
		if got := status(d.Check(withToken("Bearer "+secret, "Bearer wrong"))); got != 429 {
			t.Errorf("the right one and another: got %d, want 429", got)
		}
		if f := d.Check(withToken("Bearer wrong")); f.Name != "Retry-After" || f.Value != "60" {
			t.Errorf("got %s: %s, want Retry-After: 60", f.Name, f.Value)
		}
		elsewhere := withToken("Bearer wrong")
		elsewhere.RemoteAddr = "192.0.2.8:5555"
		if got := status(d.Check(elsewhere)); got != 401 {
			t.Errorf("another address: got %d, want 401", got)
		}
		time.Sleep(60*time.Second - time.Nanosecond)
		if got := wrong(); got != 429 {
			t.Errorf("just before a minute: got %d, want 429", got)
		}
		time.Sleep(time.Nanosecond)
		if got := wrong(); got != 401 {
			t.Errorf("after a minute: got %d, want 401", got)
		}
	})
}

func TestStrikesAreBounded(t *testing.T) {
	var s Strikes
	now := time.Unix(0, 0)
	for i := range 3 * maxGuests {
		s.count(guestOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)), now.Add(time.Duration(i)))
	}
	if len(s.guests) > maxGuests {
		t.Errorf("%d addresses are remembered, want at most %d", len(s.guests), maxGuests)
	}
	last := guestOf("10.0.47.255:1")
	if s.guests[last] == nil {
		t.Error("the newest address was forgotten")
	}
}

func TestGuestOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:1":               "192.0.2.7",
		"[::ffff:192.0.2.7]:1":      "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:1":  "2001:db8:1:2::",
		"[2001:db8:1:2:ffff::1]:99": "2001:db8:1:2::",
		"[fe80::1%eth0]:1":          "fe80::",
	} {
		if got := guestOf(remote); got != netip.MustParseAddr(want) {
			t.Errorf("guestOf(%s) = %s, want %s", remote, got, want)
		}
	}
	if guestOf("@").IsValid() {
		t.Error("a Unix socket has no address")
	}
}

func TestNewToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) != 43 {
		t.Errorf("got %q and %q, want two of 43 characters", a, b)
	}
}
