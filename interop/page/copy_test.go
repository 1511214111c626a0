package page

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/interop/harness"
)

// A workshop is the environment in which copied texts run: a shell with parley in its PATH, a Go
// module that requires parley, Python.
type workshop struct {
	dir string
	env []string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	program := os.Getenv("PARLEY_PROGRAM")
	if program == "" {
		program = harness.Parley(t)
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	w := &workshop{dir: t.TempDir()}
	if err := os.Symlink(program, filepath.Join(w.dir, "parley")); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const module = "module copied\n\ngo 1.26\n\nrequire github.com/da1ed7bb/parley v0.0.0\n\nreplace github.com/da1ed7bb/parley => "
	for name, text := range map[string]string{"go.mod": module + checkout + "\n", "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.env = append(os.Environ(), "PATH="+w.dir+string(filepath.ListSeparator)+os.Getenv("PATH"), "GOFLAGS=-mod=mod", "GOWORK=off", "HOME="+home(t))
	return w
}

// home returns the home folder of the user, which contains the cache of the Go tool.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a copied text and returns its output.
func (w *workshop) run(t *testing.T, as, text, address string) string {
	t.Helper()
	var argv []string
	switch as {
	case "curl", "parley":
		argv = []string{"/bin/sh", "-c", text}
	case "python":
		argv = []string{"python3", "-c", text}
	case "go":
		if err := os.WriteFile(filepath.Join(w.dir, "main.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		argv = []string{"go", "run", "."}
	default: // the bytes themselves
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := harness.Command(ctx, t, argv)
	cmd.Dir, cmd.Env = w.dir, w.env
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil && as != "parley" { // its exit code reports errors in responses
		t.Errorf("as %s: %v\n%s\n%s", as, err, problems.String(), text)
	}
	return out.String()
}

// canonical returns JSON in canonical form.
func canonical(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(strings.TrimSpace(text))
	if err := v.Canonicalize(); err != nil {
		return text
	}
	return string(v)
}

// copies are the formats of "Copy as" in the composer.
var copies = []struct{ as, item string }{{"raw", "Raw message"}, {"curl", "curl"}, {"parley", "parley call"}, {"go", "Go"}, {"python", "Python"}}

// TestCopyAs checks that a copy from the composer has the same effect elsewhere: each of the five
// formats is run, and gets the same response as the page. The IDs are no plain numbers, which the
// composer may increase once the message is sent.
func TestCopyAs(t *testing.T) {
	t.Parallel()
	u := start(t)
	w := newWorkshop(t)
	var targets struct {
		Targets []struct {
			Name    string         `json:"name"`
			Address string         `json:"address"`
			Rest    map[string]any `json:",embed"`
		} `json:"targets"`
	}
	if err := json.Unmarshal(u.call(t, "targets/list", map[string]any{}), &targets); err != nil {
		t.Fatal(err)
	}
	address := map[string]string{}
	for _, x := range targets.Targets {
		address[x.Name] = x.Address
	}
	for _, c := range []struct {
		name, target, text string
		skip               string // a format that would take long and test nothing new
		whole              bool   // parley and Go print the whole response, not only its result
	}{
		{"a call by name", "@demo", `{"jsonrpc":"2.0","id":"a \"1\"","method":"echo","params":{"text":"it's \"ü\" $HOME ` + "`id`" + ` \\n 𝄞 %s","big":9007199254740993,"less":-1.50}}`, "", false},
		{"a batch with a bad member", "@demo", `[{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]},{"foo":"boo"},{"jsonrpc":"2.0","id":9007199254740993,"method":"get_data"}]`, "", true},
		{"an error", "@demo", `{"jsonrpc":"2.0","id":null,"method":"nobody"}`, "go parley", true},
		{"no JSON", "@demo", `{"jsonrpc":"2.0","method":'`, "go", true},
		{"a call over TCP", "@demo-tcp", `{"jsonrpc":"2.0","id":"5","method":"subtract","params":[42,23]}`, "raw curl go", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := u.page(t, desk, draftLink(c.target, c.text))
			ask[bool](p, `(navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve() }) && true`)
			p.see("region", "Composer")
			p.bytes(c.text)
			p.click("button", "/^Send/")
			answer := u.answer(t, c.text)
			var r struct {
				Result jsontext.Value `json:"result"`
				Rest   map[string]any `json:",embed"`
			}
			_ = json.Unmarshal([]byte(answer), &r) // a batch has no result
			for _, x := range copies {
				if strings.Contains(c.skip, x.as) {
					continue
				}
				ask[bool](p, `(window.copied = "") === ""`)
				p.click("button", "/^Copy as/")
				p.click("menuitem", x.item)
				p.until("nothing was copied", "window.copied")
				text := ask[string](p, "window.copied")
				got, want := w.run(t, x.as, text, address[c.target]), answer
				if !c.whole && (x.as == "parley" || x.as == "go") {
					want = string(r.Result)
				}
				if canonical(t, got) != canonical(t, want) {
					t.Errorf("as %s\n%s\nprints %s\nwant %s", x.as, text, got, want)
				}
			}
		})
	}
}

// answer waits for the response to the last message that was sent, and returns its bytes.
func (u *up) answer(t *testing.T, sent string) string {
	t.Helper()
	var h struct {
		Items []struct {
			Text string         `json:"text"`
			Ref  string         `json:"ref"`
			Rest map[string]any `json:",embed"`
		} `json:"items"`
	}
	for end := time.Now().Add(patience); ; {
		if err := json.Unmarshal(u.call(t, "history/list", map[string]any{"limit": 1}), &h); err != nil {
			t.Fatal(err)
		}
		if len(h.Items) > 0 && h.Items[0].Text == sent {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s was not sent", sent)
		}
	}
	// A check without assertions waits for the response.
	var m struct {
		Row struct {
			Answer string         `json:"answer"`
			Rest   map[string]any `json:",embed"`
		} `json:"row"`
		Text string         `json:"text"`
		Rest map[string]any `json:",embed"`
	}
	message := func(ref string) {
		t.Helper()
		if err := json.Unmarshal(u.call(t, "wire/message", map[string]any{"ref": ref}), &m); err != nil {
			t.Fatal(err)
		}
	}
	u.call(t, "saved/check", map[string]any{"ref": h.Items[0].Ref, "asserts": []any{}})
	message(h.Items[0].Ref)
	if m.Row.Answer == "" {
		t.Fatalf("%s has no answer: %+v", sent, m)
	}
	message(m.Row.Answer)
	return m.Text
}

// TestAnyID checks that every ID is sent as written, and an edited copy or a resent message has it
// to the last digit.
func TestAnyID(t *testing.T) {
	t.Parallel()
	u := start(t)
	lines := listen(t, nil)
	u.open(t, lines.address)
	p := u.page(t, desk, draftLink(lines.address, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
	sent := ""
	for _, id := range []string{`"s \u0031é"`, `1.50`, `null`, `123456789012345678901234567890`, `-0`, `1e2`, `""`} {
		text := `{"jsonrpc":"2.0","id":` + id + `,"method":"m` + itoa(len(sent)) + `"}`
		p.bytes(text)
		p.key("Ctrl+Enter")
		sent += text + "\n"
		lines.gets(t, []byte(sent))
		p.row(`m` + itoa(len(sent)-len(text)-1))
		p.clickOn(onRow(`m` + itoa(len(sent)-len(text)-1)))
		p.key("r")
		sent += text + "\n"
		lines.gets(t, []byte(sent))
		p.copyRow()
		p.until("the copy is another", "eyes.bytes().replace(/\\s+/g, '') === "+quoted(strings.ReplaceAll(text, " ", "")))
		p.click("textbox", "/^Bytes/")
		p.key("Ctrl+Enter")
		sent += text + "\n"
		lines.gets(t, []byte(sent))
	}
	// The ID field accepts any ID, too.
	p.bytes(`{"jsonrpc":"2.0","id":1,"method":"last"}`)
	p.fill("textbox", "id", "1.0")
	p.key("Ctrl+Enter")
	lines.gets(t, []byte(`{"jsonrpc":"2.0","id":1.0,"method":"last"}`+"\n"))
}

// TestHeadersOfAMessage checks that the server receives the headers of a message and of its target,
// and the exchange shows them without the secrets.
func TestHeadersOfAMessage(t *testing.T) {
	t.Parallel()
	u := start(t)
	seen := make(chan http.Header, 4)
	web := listenHTTPWith(t, func(h http.Header) { seen <- h })
	u.open(t, web.address)
	p := u.page(t, desk, draftLink(web.address, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
	p.click("button", "Headers and token")
	p.fill("textbox", "Token for this target", "the-token-of-it")
	p.key("Tab")
	for i, h := range [][2]string{{"X-Mine", "one"}, {"Accept", "text/plain"}, {"Content-Type", ""}} {
		p.click("button", "Header for this message")
		field := func(name string) string { return `eyes.all("textbox", "` + name + `")[` + itoa(i) + `]` }
		p.clickOn(field("Header name"))
		p.write(h[0])
		if h[1] == "" {
			p.clickOn(`eyes.all("checkbox")[` + itoa(i) + `]`)
			continue
		}
		p.clickOn(field("Header value"))
		p.write(h[1])
	}
	p.click("button", "/^Send/")
	select {
	case h := <-seen:
		if h.Get("X-Mine") != "one" || h.Get("Accept") != "text/plain" || h.Values("Content-Type") != nil || h.Get("Authorization") != "Bearer the-token-of-it" {
			t.Errorf("the server got %v", h)
		}
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	p.row(`^\d+ .*x`)
	p.clickOn(onRow(`^\d+ .*\bx\b`))
	p.click("button", "/^POST/")
	p.see("region", "Request headers")
	p.until("the exchange does not show the header", `/x-mine: one/i.test(eyes.text(eyes.first("region", "Request headers")))`)
	if text := ask[string](p, `eyes.text(document.body)`); strings.Contains(text, "the-token-of-it") {
		t.Error("the page shows the token")
	}
	p.judgeBoth("headers")

	// Headers for every message to the target are set here, too.
	p.click("button", "Header")
	p.fill("textbox", "Target header name", "X-Team")
	p.fill("textbox", "Target header value", "blue")
	p.key("Tab")
	for end := time.Now().Add(patience); !bytes.Contains(u.call(t, "targets/list", map[string]any{}), []byte("X-Team")); {
		if time.Now().After(end) {
			t.Fatal("the target does not have its header")
		}
	}
	p.click("button", "Remove header Content-Type")
	p.click("button", "/^Send/")
	select {
	case h := <-seen:
		if h.Get("X-Team") != "blue" || h.Get("X-Mine") != "one" || h.Get("Content-Type") != "application/json" {
			t.Errorf("with a header of the target the server got %v", h)
		}
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}

	// A resent first message has them again. The second is selected as soon as it is sent.
	p.until("the second is not selected", `(r => r.length === 2 && r[1].selected)(eyes.rows().filter((r) => /^\d+ .*\bx\b/.test(r.text)))`)
	p.clickOn(onRow(`^\d+ .*\bx\b`))
	p.until("the first is not selected", `eyes.rows().filter((r) => /^\d+ .*\bx\b/.test(r.text))[0].selected`)
	p.click("button", "/^Resend/")
	select {
	case h := <-seen:
		if h.Get("X-Mine") != "one" || h.Get("Accept") != "text/plain" || h.Values("Content-Type") != nil {
			t.Errorf("the second time the server got %v", h)
		}
	case <-time.After(patience):
		t.Fatal("nothing was sent again")
	}
}

// listenHTTPWith is listenHTTP, and passes the headers of each POST to tell.
func listenHTTPWith(t *testing.T, tell func(http.Header)) *raw {
	t.Helper()
	s := &raw{changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = s.Write(body) // writes to memory
		if r.Method == http.MethodPost && bytes.Contains(body, []byte(`"x"`)) {
			tell(r.Header.Clone())
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":true}`)
	}))
	t.Cleanup(server.Close)
	s.address = server.URL + "/rpc"
	return s
}
