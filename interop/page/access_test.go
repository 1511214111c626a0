package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// opened returns the number of targets on the page, which every attack here tries to increase.
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

// TestDoor checks that calls without the token are rejected, and so are calls with a foreign Host
// or Origin, even with the token.
func TestDoor(t *testing.T) {
	t.Parallel()
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
	} { // nine wrong tokens: after ten, wrong tokens are rejected for a minute
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

// TestForeignPages checks that the requests that a browser allows other pages are rejected: those
// of another site that has the token, and those of a page whose host name resolves to this machine.
func TestForeignPages(t *testing.T) {
	t.Parallel()
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
			`{method: "POST", mode: "no-cors", credentials: "include", body: new Blob([` + body + `], {type: "application/x-www-form-urlencoded"})}`,
		}
		return `Promise.all([` + "fetch('" + base + "rpc', " + strings.Join(tries, "), fetch('"+base+"rpc', ") + `)].map((f) => f.then((r) => r.type === "opaque" ? "opaque" : String(r.status), () => "refused")))`
	}
	p := open(t, evil.URL, desk)
	t.Logf("from another site: %q", ask[[]string](p, attack(u.base)))
	p.attackWithoutFetch(u, victim.address)
	ask[bool](p, `(() => { const f = document.createElement("iframe"); f.src = "`+u.base+`"; document.body.append(f); return new Promise((done) => f.onload = () => done(true)) })()`)
	if framed := ask[bool](p, `(() => { try { return !!document.querySelector("iframe").contentDocument } catch { return false } })()`); framed {
		t.Error("the page can be read in a frame")
	}
	p.mu.Lock()
	p.faults = nil // the browser reports the refused frame
	p.mu.Unlock()

	// The same name, which now resolves to this machine.
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
	p.attackWithoutFetch(u, victim.address)
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

// attackWithoutFetch sends what a web page can send to another site without a preflight: forms, a
// beacon, a WebSocket, an event stream, and images.
func (p *tab) attackWithoutFetch(u *up, victim string) {
	p.t.Helper()
	call := `{"jsonrpc":"2.0","id":1,"method":"targets/open","params":{"target":"` + victim + `","handshake":false},"x":"`
	got := ask[[]string](p, `(async () => {
		const base = `+strconv.Quote(u.base)+`, call = `+strconv.Quote(call)+`, out = [];
		for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
			const frame = document.createElement("iframe");
			frame.name = "f" + Math.random();
			const form = document.createElement("form");
			Object.assign(form, {method: "post", enctype: type, action: base + "rpc", target: frame.name});
			const field = document.createElement("input");
			Object.assign(field, {type: "hidden", name: call, value: '"}'});
			form.append(field);
			document.body.append(frame, form);
			const done = new Promise((r) => { frame.onload = r; });
			form.submit();
			await done;
		}
		navigator.sendBeacon(base + "rpc", new Blob([call + '"}'], {type: "text/plain"}));
		out.push("socket " + await new Promise((r) => { const s = new WebSocket(base.replace("http", "ws") + "rpc", ["`+u.token+`"]); s.onopen = () => r("open"); s.onerror = () => r("refused"); }));
		out.push("stream " + await new Promise((r) => { const s = new EventSource(base + "rpc?token=`+u.token+`"); s.onopen = () => r("open"); s.onerror = () => (s.close(), r("refused")); }));
		out.push("picture " + await new Promise((r) => { const i = new Image(); i.onload = () => r("open"); i.onerror = () => r("refused"); i.src = base + "session/save?token=`+u.token+`"; }));
		return out;
	})()`)
	for _, g := range got {
		if !strings.HasSuffix(g, " refused") {
			p.t.Errorf("a foreign page: %s", g)
		}
	}
	p.mu.Lock()
	p.faults = nil // the browser reports the refused requests
	p.mu.Unlock()
}

// TestTokenStays checks that the token stays in the page: it is in no Referer, no saved session and
// no copy, and is printed only once at the terminal.
func TestTokenStays(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.chatter(t)
	var seen []string
	var mu sync.Mutex
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Referer")+" "+r.URL.String())
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<!doctype html><title>elsewhere</title>")
	}))
	defer other.Close()
	p := u.page(t, desk, "")
	p.row("nowhere")
	for _, format := range []string{"jsonl", "har", "markdown"} {
		file := ask[string](p, `fetch("session/save", {method: "POST", headers: {Authorization: "Bearer `+u.token+`", "Content-Type": "application/json"}, body: JSON.stringify({format: "`+format+`"})}).then((r) => r.text())`)
		if len(file) < 500 || strings.Contains(file, u.token) {
			t.Errorf("%s of %d bytes holds the token", format, len(file))
		}
	}
	var rows struct {
		Refs []string `json:"refs"`
	}
	if err := json.Unmarshal(u.call(t, "wire/select", map[string]any{"filter": "kind:request"}), &rows); err != nil || len(rows.Refs) == 0 {
		t.Fatal(rows, err)
	}
	for _, as := range []string{"raw", "curl", "parley", "go", "python"} {
		if text := u.call(t, "copy", map[string]any{"ref": rows.Refs[0], "as": as, "secrets": true}); strings.Contains(string(text), u.token) {
			t.Errorf("copied as %s: %s", as, text)
		}
	}
	if n := strings.Count(u.stderr.String(), u.token); n != 1 {
		t.Errorf("the terminal shows the token %d times", n)
	}
	// Only in this tab's own storage, so that the page can be reloaded.
	if stored := ask[string](p, `JSON.stringify([{...localStorage}, document.cookie, location.href, history.state])`); strings.Contains(stored, u.token) {
		t.Errorf("the browser stores the token: %s", stored)
	}
	// Leave the page by a link, as a person does.
	ask[bool](p, `(() => { const a = document.createElement("a"); a.href = `+strconv.Quote(other.URL+"/next")+`; document.body.append(a); a.click(); return true; })()`)
	for end := time.Now().Add(patience); ; { // during the navigation, the page cannot be evaluated
		if title, err := try[string](p, "document.title"); err == nil && title == "elsewhere" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the other page is not there")
		}
	}
	if from := ask[string](p, "document.referrer"); from != "" {
		t.Errorf("the other page knows where it was linked: %s", from)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, s := range seen {
		if strings.Contains(s, u.token) || strings.HasSuffix(s, "/next") && s != " /next" {
			t.Errorf("the other site got %q", s)
		}
	}
}
