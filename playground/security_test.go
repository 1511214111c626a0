package playground_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/race"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// touching returns a target whose program leaves a trace when it is started.
func touching(t *testing.T, name string) (playground.Target, func() bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	target := playground.Target{Name: name, Command: []string{self}, Env: append(os.Environ(), touchWord+"="+trace)}
	return target, func() bool {
		_, err := os.Stat(trace)
		return err == nil
	}
}

// TestTheDoor checks that a request from a foreign web page or without the token reaches no method
// and starts no program. The checks run in the order Host, Origin, token (the first rows of the
// table also fail the later checks).
func TestTheDoor(t *testing.T) {
	program, started := touching(t, "@program")
	b := open(t, &playground.Options{Targets: []playground.Target{program}})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(b.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	start := `{"jsonrpc":"2.0","id":1,"method":"targets/open","params":{"target":"@program","handshake":false}}`
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(value string) func(*http.Request) { return func(r *http.Request) { r.Host = value } }
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"rebinding", func(r *http.Request) {
			r.Host = "evil.example:" + port
			r.Header.Set("Origin", "http://evil.example:"+port)
		}, 403},
		{"rebinding without Origin", host("evil.example"), 403},
		{"another port", host("127.0.0.1:1"), 403},
		{"a name like ours", host("localhost.evil.example:" + port), 403},
		{"no host", host("."), 403},
		{"another site", set("Origin", "https://evil.example"), 403},
		{"another port of this machine", set("Origin", "http://127.0.0.1:1"), 403},
		{"Origin null", set("Origin", "null"), 403},
		{"an origin that begins like ours", set("Origin", "http://127.0.0.1:"+port+".evil.example"), 403},
		{"by Fetch Metadata alone", set("Sec-Fetch-Site", "cross-site"), 403},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"a wrong token", set("Authorization", "Bearer "+strings.Repeat("A", 43)), 401},
		{"half a token", func(r *http.Request) { r.Header.Set("Authorization", r.Header.Get("Authorization")[:30]) }, 401},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+bearer(r)) }, 401},
		{"the token in the address", func(r *http.Request) { r.URL.RawQuery = "token=" + bearer(r); r.Header.Del("Authorization") }, 401},
		{"the token as a cookie", func(r *http.Request) { r.Header.Set("Cookie", "token="+bearer(r)); r.Header.Del("Authorization") }, 401},
		{"a form", set("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"plain text", set("Content-Type", "text/plain"), 415},
		{"no type", func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		{"a preflight", func(r *http.Request) {
			r.Method = http.MethodOptions
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("Access-Control-Request-Method", "POST")
		}, 403},
		{"GET", func(r *http.Request) { r.Method = http.MethodGet }, 405},
	} {
		for _, path := range []string{"/rpc", "/session/open", "/session/save"} {
			if path != "/rpc" && (c.status == 415 || c.status == 405) {
				continue
			}
			b := b
			if c.status == http.StatusUnauthorized {
				// After ten wrong tokens, the status would be 429.
				b = open(t, &playground.Options{Targets: []playground.Target{program}})
			}
			status, h, text := b.do(http.MethodPost, path, "application/json", start, c.change)
			if status != c.status {
				t.Errorf("%s at %s: %d %s, want %d", c.name, path, status, text, c.status)
			}
			if strings.Contains(text, "evil") || strings.Contains(text, b.page.Token()) {
				t.Errorf("%s is told what it said: %s", c.name, text)
			}
			for name := range h {
				if strings.HasPrefix(name, "Access-Control") {
					t.Errorf("%s at %s: there is %s", c.name, path, name)
				}
			}
		}
	}
	if started() {
		t.Error("a program was started")
	}
	if rows := b.page.Recorder().Len(); rows > 0 {
		t.Errorf("%d rows were recorded", rows)
	}
	// With the right token the call succeeds.
	status, _, text := b.do(http.MethodPost, "/rpc", "application/json", start, nil)
	if status != 200 || strings.Contains(text, `"error"`) {
		t.Fatalf("the page itself: %d %s", status, text)
	}
	b.call("targets/close", obj{"target": "@program"}, nil)
	if !started() {
		t.Error("the program that was to be started was not")
	}
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// TestGuessing checks that after ten wrong tokens in a minute, further wrong tokens are rejected
// for a while. The page itself continues to work: a malicious program on this machine must not lock
// it out.
func TestGuessing(t *testing.T) {
	b := open(t, &playground.Options{})
	wrong := func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") }
	for i := range 12 {
		want := 401
		if i >= 10 {
			want = 429
		}
		status, h, _ := b.do(http.MethodPost, "/rpc", "application/json", `{}`, wrong)
		if status != want {
			t.Errorf("guess %d: %d, want %d", i+1, status, want)
		}
		if status == 429 && h.Get("Retry-After") == "" {
			t.Errorf("guess %d is not told to wait", i+1)
		}
	}
	if status, _, _ := b.do(http.MethodPost, "/rpc", "application/json", `{}`, nil); status != 200 {
		t.Errorf("the right token behind them: %d", status)
	}
	if status, _, _ := b.do(http.MethodGet, "/", "", "", nil); status != 200 {
		t.Errorf("the page behind them: %d", status)
	}
}

// TestThePage checks that the page is the same for everyone, contains no secret, and sets the
// browser's security headers.
func TestThePage(t *testing.T) {
	b := open(t, &playground.Options{})
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	status, h, text := b.do(http.MethodGet, "/", "", "", nobody)
	if status != 200 || strings.Contains(text, b.page.Token()) || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		t.Fatalf("the page: %d %v", status, h)
	}
	for _, path := range []string{"/", "/rpc", "/nothing", "/healthz"} {
		_, h, _ := b.do(http.MethodGet, path, "", "", nobody)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; img-src 'self' data:; " +
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s of %s is %q, want %q", name, path, got, want)
			}
		}
		if h.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", path)
		}
	}
	if status, _, _ := b.do(http.MethodGet, "/", "", "", func(r *http.Request) { r.Host = "evil.example" }); status != 403 {
		t.Errorf("the page under another name: %d", status)
	}
	for _, path := range []string{"/../page.go", "/%2e%2e/page.go", "/.gitkeep", "/assets", "/index.html/.."} {
		if status, _, text := b.do(http.MethodGet, path, "", "", nobody); status == 200 && strings.Contains(text, "package playground") {
			t.Errorf("%s is served", path)
		}
	}
}

// TestNoProgramOfThePage checks that the page starts only the programs that it was given at the
// start, with any request.
func TestNoProgramOfThePage(t *testing.T) {
	program, started := touching(t, "@program")
	strange, strangeStarted := touching(t, "other")
	self := program.Command[0]
	b := open(t, &playground.Options{Targets: []playground.Target{program}, Configs: pastes{playground.ConfigEntry{Target: strange}}})
	for _, target := range []string{
		"-- " + self, "exec:" + self, "exec:", "stdio:", "stdio:" + self, "@other", "other", self, "file://" + self, "javascript:alert(1)", "", " ", "@", "@program ",
		"@program\x00", "@PROGRAM", "unix:" + self, "http://", "data:,x", "\u202e@program",
	} {
		for _, method := range []string{"targets/open", "send", "describe", "agents/list", "targets/set", "oauth/start"} {
			params := obj{"target": target}
			if method == "send" {
				params["text"] = "{}"
			}
			if e := b.try(method, params, nil); e == nil && method != "targets/set" {
				t.Errorf("%s %q is done", method, target)
			}
		}
	}
	var c struct {
		Config  string           `json:"config"`
		Entries []map[string]any `json:"entries"`
		Rest    map[string]any   `json:",embed"`
	}
	b.call("config/read", obj{"text": "x"}, &c)
	if len(c.Entries) != 1 || !strings.HasPrefix(fmt.Sprint(c.Entries[0]["command"]), "parley up -c ") {
		t.Errorf("the pasted program is shown as %v", c.Entries)
	}
	if e := b.try("targets/open", obj{"config": c.Config, "name": "other"}, nil); e == nil || !strings.Contains(e.Message, "parley up -c") {
		t.Errorf("a pasted program is opened: %v", e)
	}
	for _, params := range []obj{
		{"target": "@program", "command": []string{self}}, {"target": "@program", "env": []string{"A=b"}}, {"name": "@new", "command": self, "target": "@new"},
	} {
		if e := b.try("targets/open", params, nil); e == nil || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%v is taken: %v", params, e)
		}
	}
	if e := b.try("targets/forget", obj{"target": "@program"}, nil); e == nil {
		t.Error("the page can forget a target of the file")
	}
	if started() || strangeStarted() {
		t.Fatal("a program was started")
	}
	b.call("targets/open", obj{"target": "@program", "handshake": false}, nil)
	b.call("targets/close", obj{"target": "@program"}, nil)
	if !started() || strangeStarted() {
		t.Error("the one program that may run was not started, or another one was")
	}
}

// pastes is a configuration with one program.
type pastes [1]playground.ConfigEntry

func (p pastes) Found() []playground.Config { return nil }

func (p pastes) Read(string, string) playground.Config { return playground.Config{Entries: p[:]} }

// TestStartsAreLogged checks that each start and each exit of a program is logged.
func TestStartsAreLogged(t *testing.T) {
	program, _ := touching(t, "@program")
	lines := make(chan string, 100)
	b := open(t, &playground.Options{Targets: []playground.Target{program}, Log: func(line string) { lines <- line }})
	for range 2 {
		b.call("targets/open", obj{"target": "@program", "handshake": false}, nil)
		b.call("targets/close", obj{"target": "@program"}, nil)
	}
	var all strings.Builder
	for len(lines) > 0 {
		fmt.Fprintln(&all, <-lines)
	}
	if strings.Count(all.String(), "@program started (pid ") != 2 || strings.Count(all.String(), "@program ended (pid ") != 2 {
		t.Errorf("the terminal says:\n%s", all.String())
	}
}

// TestSetTargets checks that reloading a configuration can remove programs, but cannot add any that
// were not allowed. Open connections stay open.
func TestSetTargets(t *testing.T) {
	first, _ := touching(t, "@first")
	second, secondStarted := touching(t, "@second")
	b := open(t, &playground.Options{Targets: []playground.Target{first}})
	b.call("targets/open", obj{"target": "@first", "handshake": false}, nil)
	second.Problem = "it is not approved"
	b.page.SetTargets([]playground.Target{first, second})
	if e := b.try("targets/open", obj{"target": "@second", "handshake": false}, nil); e == nil || !strings.Contains(e.Message, "not approved") || secondStarted() {
		t.Errorf("@second: %v, started %v", e, secondStarted())
	}
	if state := b.state("@first"); state != "open" {
		t.Errorf("@first is %s", state)
	}
	b.page.SetTargets(nil)
	if e := b.try("send", obj{"target": "@first", "text": "{}"}, nil); e == nil {
		t.Error("what is gone can be spoken to")
	}
}

func (b *browser) state(name string) string {
	b.Helper()
	var list struct {
		Targets []struct {
			Name  string         `json:"name"`
			State string         `json:"state"`
			Rest  map[string]any `json:",embed"`
		} `json:"targets"`
	}
	b.call("targets/list", nil, &list)
	for _, t := range list.Targets {
		if t.Name == name {
			return t.State
		}
	}
	return ""
}

// TestHostileText checks that text with special meaning elsewhere has no effect here: it is
// returned unchanged as JSON, never as markup.
func TestHostileText(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}}})
	for _, hostile := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, "\u202egnp.exe", "\u2066\u2069\u200b\U000e0041", "a\x00b\x1b[31m", `${jndi:ldap://x}`,
		`'; DROP TABLE calls; --`, `../../../../etc/passwd`, `{{constructor.constructor('alert(1)')()}}`, strings.Repeat("𝄞", 10_000),
	} {
		text := `{"jsonrpc":"2.0","id":1,"method":"echo","params":` + string(mustJSON(t, []string{hostile})) + `}`
		s, answer := b.send("@web", text)
		if b.text(s.Ref) != text || !strings.Contains(answer, string(mustJSON(t, hostile))) {
			t.Errorf("%q went as %q and came back as %q", hostile, b.text(s.Ref), answer)
		}
		for _, method := range []string{"copy", "lint", "saved/save", "wire/select", "wire/rows", "config/read", "targets/open", "saved/run", "lessons/open", "wire/words"} {
			params := map[string]obj{
				"copy": {"target": "@web", "text": hostile, "as": "curl"}, "lint": {"text": hostile}, "saved/save": {"name": hostile, "target": hostile, "text": hostile},
				"wire/select": {"filter": hostile}, "wire/rows": {"filter": hostile}, "config/read": {"text": hostile, "name": hostile}, "targets/open": {"target": hostile},
				"saved/run": {"name": hostile}, "lessons/open": {"lesson": hostile}, "wire/words": {"key": hostile},
			}[method]
			_ = b.try(method, params, nil) // any response must be JSON: try fails otherwise
		}
	}
	if status, h, text := b.do(http.MethodGet, "/%3Cscript%3Ealert(1)%3C/script%3E", "", "", nil); status != 404 || strings.Contains(text, "<script") || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("a hostile path: %d %v %s", status, h, text)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := jsonrpc.AppendValue(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCopiesAreQuoted checks that a shell receives the intended words for any message.
func TestCopiesAreQuoted(t *testing.T) {
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: "http://127.0.0.1:1/rpc", Token: "very-secret-token", Header: http.Header{"X-Api-Key": {"also-secret"}}}}})
	hostile := `{"jsonrpc":"2.0","id":1,"method":"x'; touch /tmp/pwned; '","params":["$(id)","` + "`id`" + `","\n"]}`
	for _, as := range []string{"raw", "curl", "parley", "go", "python"} {
		var c struct {
			Text string `json:"text"`
		}
		b.call("copy", obj{"target": "@web", "text": hostile, "as": as}, &c)
		if strings.Contains(c.Text, "very-secret-token") || strings.Contains(c.Text, "also-secret") {
			t.Errorf("as %s it has the secrets: %s", as, c.Text)
		}
		if (as == "curl" || as == "parley") && strings.Contains(strings.ReplaceAll(c.Text, `'\''`, ""), "'; touch") {
			t.Errorf("as %s a quote gets out: %s", as, c.Text)
		}
	}
}

// TestALongSessionOpensFast checks that a long session opens immediately, and all of it is
// available. The goal is a second of processor time; the limit detects only what is slower by an
// order of magnitude, because test machines are busy.
func TestALongSessionOpensFast(t *testing.T) {
	messages, limit := 100_000, 10*time.Second
	if race.Enabled { // the race detector makes it many times slower
		messages, limit = 5_000, time.Minute
	}
	var file bytes.Buffer
	rec, err := capture.New(&capture.Options{File: filepath.Join(t.TempDir(), "long.jsonl"), MaxMemory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	wire := rec.Wire(capture.WireInfo{Target: "@x", Carrier: "tcp"})
	for i := range messages / 2 {
		wire.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"subtract","params":[42,23]}`, i))
		wire.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":19}`, i))
	}
	rec.Flush()
	if err := rec.WriteSession(&file, nil); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	b := open(t, &playground.Options{})
	best := time.Hour
	for i := range 3 { // other programs on the machine must not fail the test
		begin, used := time.Now(), spent()
		status, _, text := b.do(http.MethodPost, "/session/open", "application/x-ndjson", file.String(), nil)
		log := fmt.Sprintf("s%d", i+1)
		if status != 200 || !strings.Contains(text, `"log":"`+log+`"`) {
			t.Fatalf("%d %s", status, text)
		}
		b.call("follow", obj{"log": log}, nil) // sends all rows to the page
		t.Logf("%v by the clock", time.Since(begin))
		if best = min(best, spent()-used); best <= limit {
			break
		}
	}
	t.Logf("%d messages, %d MiB: %v of processor time, both ends", messages, file.Len()>>20, best)
	if best > limit {
		t.Errorf("it took %v, want at most %v", best, limit)
	}
	var rows struct {
		Total int            `json:"total"`
		Rest  map[string]any `json:",embed"`
	}
	b.call("wire/rows", obj{"log": "s1", "limit": 1}, &rows)
	if rows.Total < messages {
		t.Errorf("there are %d rows, want %d", rows.Total, messages)
	}
}

// TestNoRowIsLost checks that a fast server loses no row, and a following page receives each of
// them.
func TestNoRowIsLost(t *testing.T) {
	const messages = 10_000
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			served <- err
			return
		}
		defer conn.Close()
		for i := range messages {
			if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","method":"tick","params":[%d]}`+"\n", i); err != nil {
				served <- err
				return
			}
		}
		served <- nil
		_, _ = conn.Read(make([]byte, 1)) // until the page disconnects
	}()
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@fast", Address: "tcp://" + listener.Addr().String()}}})
	b.call("targets/open", obj{"target": "@fast"}, nil)
	seen := make(map[string]bool)
	b.follow(func(method string, params jsonrpc.Raw) bool {
		if method == "rows" {
			for _, part := range strings.Split(string(params), `{"ref":"`)[1:] {
				ref, rest, _ := strings.Cut(part, `"`)
				if strings.Contains(rest, `"method":"tick"`) {
					seen[ref] = true
				}
			}
		}
		return len(seen) == messages
	})
	if err := <-served; err != nil {
		t.Error(err)
	}
	if lost := b.page.Recorder().Lost(); lost != 0 {
		t.Errorf("%d events are lost", lost)
	}
}
