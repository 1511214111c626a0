package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// opened is how many targets the page knows: what every attempt here tries to add to.
func (u *up) opened(t *testing.T) int {
	t.Helper()
	var r struct {
		Targets []struct {
			Name string `json:"name"`
		} `json:"targets"`
	}
	if err := json.Unmarshal(u.call(t, "targets/list", map[string]any{}), &r); err != nil {
		t.Fatal(err)
	}
	return len(r.Targets)
}

// Without the token there is no call, and neither with a Host or an Origin that is not ours, whatever the token.
func TestDoor(t *testing.T) {
	u := start(t)
	victim := listen(t, nil)
	before := u.opened(t)
	host := strings.TrimSuffix(strings.TrimPrefix(u.base, "http://"), "/")
	port := host[strings.LastIndexByte(host, ':'):]
	for _, c := range []struct {
		name, token string
		header      http.Header
		want        int
	}{
		{"no token", "", nil, 401},
		{"wrong token", strings.Repeat("A", 43), nil, 401},
		{"part of the token", u.token[:42], nil, 401},
		{"foreign host", u.token, http.Header{"Host": {rebound + port}}, 403},
		{"host of another port", u.token, http.Header{"Host": {"127.0.0.1:1"}}, 403},
		{"foreign origin", u.token, http.Header{"Origin": {"https://evil.example"}}, 403},
		{"origin null", u.token, http.Header{"Origin": {"null"}}, 403},
		{"origin that ends like ours", u.token, http.Header{"Origin": {"http://evil-127.0.0.1" + port}}, 403},
		{"form", u.token, http.Header{"Content-Type": {"text/plain"}}, 415},
		{"ours", u.token, http.Header{"Origin": {"http://127.0.0.1" + port}}, 200},
	} { // nine wrong tokens, since after ten the door stays shut for a minute
		status, answer := u.post(t, u.base+"rpc", c.token, c.header, "targets/list", map[string]any{})
		if status != c.want {
			t.Errorf("%s: status %d, want %d: %s", c.name, status, c.want, answer)
		}
		if c.want == 200 {
			continue
		}
		u.post(t, u.base+"rpc", c.token, c.header, "targets/open", map[string]any{"target": victim.address, "handshake": false})
		if status, answer := u.post(t, u.base+"session/save", c.token, c.header, "", nil); status != c.want {
			t.Errorf("%s: session/save: status %d, want %d: %s", c.name, status, c.want, answer)
		}
	}
	if n := u.opened(t); n != before {
		t.Errorf("there are %d targets, %d before", n, before)
	}
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if len(victim.conns) != 0 {
		t.Error("a target was opened")
	}
}

// What a browser lets other pages do is not enough: neither one of another site that knows the token, nor one whose name leads here.
func TestForeignPages(t *testing.T) {
	u := start(t)
	victim := listen(t, nil)
	before := u.opened(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>elsewhere</title>")
	}))
	defer evil.Close()
	attack := func(base string) string {
		body := strconv.Quote(`{"jsonrpc":"2.0","id":1,"method":"targets/open","params":{"target":"` + victim.address + `","handshake":false}}`)
		tries := []string{
			`{method: "POST", headers: {"Content-Type": "application/json", "Authorization": "Bearer ` + u.token + `"}, body: ` + body + `}`,
			`{method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: ` + body + `}`,
			`{method: "POST", mode: "no-cors", body: ` + body + `}`,
		}
		return `Promise.all([` + "fetch('" + base + "rpc', " + strings.Join(tries, "), fetch('"+base+"rpc', ") + `)].map((f) => f.then((r) => r.type === "opaque" ? "opaque" : String(r.status), () => "refused")))`
	}
	p := open(t, evil.URL, desk)
	t.Logf("from another site: %q", ask[[]string](p, attack(u.base)))
	ask[bool](p, `(() => { const f = document.createElement("iframe"); f.src = "`+u.base+`"; document.body.append(f); return new Promise((done) => f.onload = () => done(true)) })()`)
	if framed := ask[bool](p, `(() => { try { return !!document.querySelector("iframe").contentDocument } catch { return false } })()`); framed {
		t.Error("the page can be read in a frame")
	}
	p.mu.Lock()
	p.faults = nil // the browser reports the frame that was refused
	p.mu.Unlock()

	// The same name, but it leads to this machine now.
	here := strings.Replace(u.base, "127.0.0.1", rebound, 1)
	p.visit(here)
	if status := ask[int](p, `fetch("/").then((r) => r.status)`); status != http.StatusForbidden {
		t.Errorf("the page answers %d under a foreign name, want 403", status)
	}
	for _, got := range ask[[]string](p, attack(here)) {
		if got != "403" && got != "415" && got != "refused" && got != "opaque" {
			t.Errorf("under a foreign name a call is answered with %s", got)
		}
	}
	p.mu.Lock()
	p.faults = nil
	p.mu.Unlock()
	if n := u.opened(t); n != before {
		t.Errorf("there are %d targets, %d before", n, before)
	}
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if len(victim.conns) != 0 {
		t.Error("a target was opened")
	}
}
