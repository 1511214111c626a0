package playground_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// A guarded is an MCP server that requires a token, with its authorization server at the same
// address.
type guarded struct {
	*httptest.Server

	mu      sync.Mutex // guards the fields below
	secrets []string   // codes, verifiers and tokens, which must not appear anywhere
	good    map[string]bool
	serial  int
	lives   int // expires_in, in seconds; 0: omitted
	// audience makes tokens JWTs with this audience and no signature. If "", they are opaque.
	audience string
	end      time.Time         // exp of the JWTs
	deny     bool              // the authorization endpoint denies
	change   map[string]string // members that replace the correct ones in the metadata
	shown    []string          // received tokens, in order
}

func guard(t *testing.T) *guarded {
	g := &guarded{good: map[string]bool{}, change: map[string]string{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *guarded) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	show := func(v obj) {
		for name := range v {
			switch other, ok := g.change[name]; {
			case ok && other == "":
				delete(v, name)
			case ok:
				v[name] = other
			}
		}
		w.Header().Set("Content-Type", "application/json")
		text, _ := json.Marshal(v)
		_, _ = w.Write(text) // the client may have disconnected
	}
	switch r.URL.Path {
	case "/.well-known/oauth-protected-resource/mcp":
		show(obj{"resource": g.URL + "/mcp", "authorization_servers": []string{g.URL}, "scopes_supported": []string{"use"}})
	case "/.well-known/oauth-authorization-server":
		show(obj{"issuer": g.URL, "authorization_endpoint": g.URL + "/authorize", "token_endpoint": g.URL + "/token", "registration_endpoint": g.URL + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"}})
	case "/register":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		g.secrets = append(g.secrets, "registration-secret")
		// The client may have disconnected.
		_, _ = io.WriteString(w, `{"client_id":"dyn-1","registration_access_token":"registration-secret"}`)
	case "/authorize":
		back := url.Values{"state": {r.URL.Query().Get("state")}, "iss": {g.URL}}
		if g.deny {
			back.Set("error", "access_denied")
		} else {
			code := g.secret("code")
			back.Set("code", code)
		}
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	case "/token":
		_ = r.ParseForm() // on an error the form is empty
		g.secrets = append(g.secrets, r.PostForm.Get("code_verifier"))
		access, refresh := g.secret("access"), g.secret("refresh")
		if g.audience != "" {
			access = "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iss":%q,"aud":%q,"exp":%d}`, g.URL, g.audience, g.end.Unix())) + "." + access
			g.secrets = append(g.secrets, access)
		} else {
			g.good[access] = true
		}
		v := obj{"access_token": access, "token_type": "Bearer", "refresh_token": refresh}
		if g.lives > 0 {
			v["expires_in"] = g.lives
		}
		show(v)
	case "/mcp":
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		g.shown = append(g.shown, token)
		if !g.good[token] {
			challenge := `Bearer resource_metadata="` + g.URL + `/.well-known/oauth-protected-resource/mcp"`
			if token != "" {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_ = jsonrpc.Scan(body, func(m *jsonrpc.Message) {
			if m.ID.IsZero() {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		})
	default:
		http.NotFound(w, r)
	}
}

// secret returns a new secret. The caller holds mu.
func (g *guarded) secret(what string) string {
	g.serial++
	s := fmt.Sprintf("%s-of-the-other-side-%d", what, g.serial)
	g.secrets = append(g.secrets, s)
	return s
}

type loginStep struct {
	N     int    `json:"n"`
	Title string `json:"title"`
	State string `json:"state"`
	Text  string `json:"text"`
	Rule  string `json:"rule"`
	HTTP  int64  `json:"http"`
	Facts []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
		About string `json:"about"`
	} `json:"facts"`
	Request  obj `json:"request"`
	Response obj `json:"response"`
}

// signIn signs in at a target. person is called with the authorization address.
func (b *browser) signIn(target string, person func(address string)) (steps []loginStep, said, end string) {
	b.Helper()
	body, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.IntID(1), "oauth/start", obj{"target": target})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.URL+"/rpc", bytes.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.page.Token())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream, application/json")
	answer, err := b.server.Client().Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 16<<20)
	var all strings.Builder
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			data = lines.Bytes() // not a stream, but an immediate response
		}
		all.Write(data)
		_ = jsonrpc.Scan(data, func(m *jsonrpc.Message) {
			switch {
			case !m.Request:
				end = string(data)
			case m.Method == "visit":
				var v struct {
					URL string `json:"url"`
				}
				if err := json.Unmarshal(m.Params, &v); err != nil {
					b.Fatal(err)
				}
				person(v.URL)
			case m.Method == "step":
				var s loginStep
				if err := json.Unmarshal(m.Params, &s); err != nil {
					b.Fatalf("%v in %s", err, m.Params)
				}
				if i := slices.IndexFunc(steps, func(o loginStep) bool { return o.N == s.N }); i >= 0 {
					steps[i] = s
				} else {
					steps = append(steps, s)
				}
			}
		})
	}
	return steps, all.String(), end
}

// yes returns a person who follows the address, as a browser does.
func yes(t *testing.T) func(string) {
	return func(address string) {
		resp, err := http.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

func titles(steps []loginStep) (list []string) {
	for _, s := range steps {
		list = append(list, s.State+": "+s.Title)
	}
	return list
}

func (s *loginStep) fact(name string) string {
	for _, f := range s.Facts {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// TestSignIn checks that each step of a login is sent to the page with its rule, and recorded.
// Neither contains secrets.
func TestSignIn(t *testing.T) {
	g := guard(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@guarded", Protocol: playground.ProtocolMCP, Address: g.URL + "/mcp"}}})
	e := b.try("targets/open", obj{"target": "@guarded"}, nil)
	if e == nil || string(e.Data) != `{"signIn":"@guarded"}` || !strings.Contains(e.Message, "401") {
		t.Fatalf("opened without a token: %v %s", e, e.Data)
	}
	steps, said, end := b.signIn("@guarded", yes(t))
	want := []string{
		"done: The server requires authentication", "done: Protected resource metadata", "done: Authorization server metadata", "done: Client registration",
		"done: Authorization request", "done: Authorization response", "done: Token request", "done: The same request again, with the token",
	}
	if got := titles(steps); !slices.Equal(got, want) {
		t.Fatalf("the steps are %q, want %q; %s", got, want, end)
	}
	if !strings.Contains(end, `"masked":"•••`) || !strings.Contains(end, `"refresh":true`) {
		t.Errorf("the end is %s", end)
	}
	for i, s := range steps {
		if s.Rule == "" || s.Text == "" || i != 4 && s.HTTP == 0 {
			t.Errorf("step %d says too little: %+v", s.N, s)
		}
	}
	for _, c := range []struct {
		step        int
		name, value string
	}{
		{1, "resource", g.URL + "/mcp"}, {2, "issuer", g.URL}, {3, "client_id", "dyn-1"}, {4, "resource", g.URL + "/mcp"}, {4, "code_challenge_method", "S256"}, {5, "iss", g.URL}, {6, "grant_type", "authorization_code"},
	} {
		if got := steps[c.step].fact(c.name); got != c.value {
			t.Errorf("%s: %s is %q, want %q", steps[c.step].Title, c.name, got, c.value)
		}
	}
	_, answer := b.send("@guarded", `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	if answer != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("with the token: %s", answer)
	}

	// The recording, the events and the copies contain none of the secrets.
	_, _, file := b.do(http.MethodPost, "/session/save", "application/json", `{}`, nil)
	var list jsonrpc.Raw
	b.call("targets/list", nil, &list)
	var m struct {
		Rows []struct {
			Ref  string `json:"ref"`
			Kind string `json:"kind"`
			Rest obj    `json:",embed"`
		} `json:"rows"`
		Rest obj `json:",embed"`
	}
	b.call("wire/rows", obj{"limit": 1000}, &m)
	var rows strings.Builder
	for _, r := range m.Rows {
		fmt.Fprintln(&rows, b.text(r.Ref), r.Rest)
	}
	for _, where := range []struct{ name, text string }{{"the steps", said}, {"the session", file}, {"the targets", string(list)}, {"the wire", rows.String()}} {
		for _, s := range g.secrets {
			if s != "" && strings.Contains(where.text, s) {
				t.Errorf("%s hold the secret %s", where.name, s)
			}
		}
		if where.name != "the targets" && !strings.Contains(where.text, "dyn-1") {
			t.Errorf("%s do not tell the client_id: %.300s", where.name, where.text)
		}
	}
	for _, what := range []string{"code_verifier=[redacted]", "code=[redacted]", `"access_token":"[redacted]"`, `"registration_access_token":"[redacted]"`} {
		if !strings.Contains(rows.String(), what) {
			t.Errorf("the wire does not show %s", what)
		}
	}

	b.call("oauth/forget", obj{"target": "@guarded"}, nil)
	if e := b.try("targets/open", obj{"target": "@guarded"}, nil); e == nil {
		t.Error("it opens without a token")
	}
}

// TestRefresh checks that a token that is about to expire is refreshed before the next message, and
// the refresh is recorded. A token that the server rejects is refreshed on a person's request. No
// new approval is needed.
func TestRefresh(t *testing.T) {
	g := guard(t)
	g.lives = 5 // less than the margin before the expiry
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@guarded", Protocol: playground.ProtocolMCP, Address: g.URL + "/mcp"}}})
	if steps, _, end := b.signIn("@guarded", yes(t)); len(steps) < 8 {
		t.Fatalf("%q %s", titles(steps), end)
	}
	nobody := func(string) { t.Error("a person was asked again") }
	b.send("@guarded", `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	g.mu.Lock()
	first, last := g.shown[1], g.shown[len(g.shown)-1]
	g.mu.Unlock()
	if first == last || last == "" {
		t.Errorf("the token %q was shown again", last)
	}
	var found struct {
		Refs []string `json:"refs"`
		Rest obj      `json:",embed"`
	}
	b.call("wire/select", obj{"filter": "refresh_token"}, &found)
	if len(found.Refs) == 0 {
		t.Error("the refresh is not on the wire")
	}

	g.set(func() { g.lives = 0; clear(g.good) })
	b.signIn("@guarded", nobody) // expired tokens are gone: the new ones do not expire
	g.set(func() { clear(g.good) })
	status := b.wants("@guarded")
	if status {
		t.Error("it wants a token already")
	}
	if _, answer := b.sendNoWait("@guarded", `{"jsonrpc":"2.0","id":8,"method":"ping"}`); answer != "" {
		t.Errorf("a withdrawn token was taken: %s", answer)
	}
	b.follow(func(string, jsonrpc.Raw) bool { return b.wants("@guarded") })
	steps, _, end := b.signIn("@guarded", nobody)
	got := titles(steps)
	if want := []string{"bad: The server rejects this token", "done: Protected resource metadata", "done: Authorization server metadata", "done: Refresh", "done: The same request again, with the token"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q; %s", got, want, end)
	}
	if b.wants("@guarded") {
		t.Error("it wants a token still")
	}
	if _, answer := b.send("@guarded", `{"jsonrpc":"2.0","id":9,"method":"ping"}`); !strings.Contains(answer, "result") {
		t.Errorf("after the refresh: %s", answer)
	}
}

// wants reports whether a target is shown as requiring a token.
func (b *browser) wants(name string) bool {
	b.Helper()
	var list struct {
		Targets []struct {
			Name  string `json:"name"`
			Wants bool   `json:"wants"`
			Rest  obj    `json:",embed"`
		} `json:"targets"`
	}
	b.call("targets/list", nil, &list)
	for _, t := range list.Targets {
		if t.Name == name {
			return t.Wants
		}
	}
	return false
}

// sendNoWait sends a text that may have no response.
func (b *browser) sendNoWait(target, text string) (s sent, answer string) {
	b.Helper()
	b.call("send", obj{"target": target, "text": text}, &s)
	if s.Answer != "" {
		answer = b.text(s.Answer)
	}
	return s, answer
}

// TestSignInFails checks that errors are reported as text, with the rule that applies. The next
// attempt starts from scratch.
func TestSignInFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(g *guarded)
		says  string
		rule  string
	}{
		{"denied", func(g *guarded) { g.deny = true }, "Access was denied", "section 4.1.2.1"},
		{"wrong audience", func(g *guarded) { g.audience, g.end = "https://elsewhere.example/mcp", time.Now().Add(time.Hour) }, "Wrong audience: the token is for https://elsewhere.example/mcp, and this server is http://127.0.0.1", "RFC 8707"},
		{"expired", func(g *guarded) { g.audience, g.end = g.URL+"/mcp", time.Unix(1_000_000_000, 0) }, "Expired at 2001-09-09", "RFC 7519"},
		{"another resource", func(g *guarded) { g.change["resource"] = "https://elsewhere.example/mcp" }, "different resource", "RFC 9728"},
		{"another issuer", func(g *guarded) { g.change["issuer"] = "https://elsewhere.example" }, "different issuer than the one that was asked", "RFC 9207"},
		{"no PKCE", func(g *guarded) { g.change["code_challenge_methods_supported"] = "" }, "does not list S256", "Code Protection"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := guard(t)
			c.spoil(g)
			b := open(t, &playground.Options{})
			steps, _, end := b.signIn(g.URL+"/mcp", yes(t))
			last := steps[len(steps)-1]
			if last.State != "bad" || !strings.Contains(last.Text, c.says) || !strings.Contains(last.Rule, c.rule) || !strings.Contains(end, `"error"`) {
				t.Errorf("the last step is %+v, want %q by %q; %s", last, c.says, c.rule, end)
			}
			if c.name == "another resource" || c.name == "another issuer" {
				for _, s := range steps {
					if s.Title == "Client registration" || s.Title == "Authorization request" {
						t.Errorf("there is a step %q", s.Title)
					}
				}
			}
			g.set(func() { g.deny, g.audience = false, ""; clear(g.change) })
			if steps, _, end := b.signIn(g.URL+"/mcp", yes(t)); !strings.Contains(end, `"masked"`) {
				t.Errorf("the next try: %q %s", titles(steps), end)
			}
		})
	}
}

// TestSignInStray checks that a request with another state is reported and ignored. The correct one
// is still awaited.
func TestSignInStray(t *testing.T) {
	g := guard(t)
	b := open(t, &playground.Options{})
	steps, _, end := b.signIn(g.URL+"/mcp", func(address string) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		yes(t)(u.Query().Get("redirect_uri") + "?state=" + "somebody-elses" + "&code=planted-code-of-somebody")
		yes(t)(address)
	})
	var found bool
	for _, s := range steps {
		if s.Title == "Response to another request" {
			found = s.State == "bad" && s.fact("state") == "somebody-elses" && s.HTTP > 0
		}
	}
	if !found || !strings.Contains(end, `"masked"`) {
		t.Errorf("%q %s", titles(steps), end)
	}
	_, _, file := b.do(http.MethodPost, "/session/save", "application/json", `{}`, nil)
	if strings.Contains(file, "planted-code-of-somebody") || !strings.Contains(file, "somebody-elses") {
		t.Error("the wire shows the code, or does not show the request")
	}
}

// TestNothingToSignInTo checks that a server that requires no token is reported as such.
func TestNothingToSignInTo(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{})
	if _, _, end := b.signIn(web+"/mcp", func(string) { t.Error("a person was sent somewhere") }); !strings.Contains(end, "has no sign-in") {
		t.Error(end)
	}
}
