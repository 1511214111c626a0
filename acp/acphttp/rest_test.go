package acphttp

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/acp"
)

// sdkBody returns the body that acp-sdk 1.0.3 posts, byte for byte.
func sdkBody(agent, text, mode, more string) string {
	return `{"agent_name":"` + agent + `","input":[{"role":"user","parts":[{"content_type":"text/plain","content":"` + text +
		`","content_encoding":"plain"}],"created_at":"2026-11-20T14:39:17.123Z","completed_at":"2026-11-20T14:39:17.123Z"}],"mode":"` + mode + `"` + more + `}`
}

const plainHead = "Cache-Control: no-store\r\nContent-Length: N\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"

const runHead = "Cache-Control: no-store\r\nContent-Length: N\r\nContent-Type: application/json\r\nRun-ID: A\r\nX-Content-Type-Options: nosniff\r\n"

// TestRESTOnTheWire checks whole responses to the requests of the npm client.
func TestRESTOnTheWire(t *testing.T) {
	s := newStage(t, nil)
	web := serveREST(t, s, nil)
	const (
		manifest  = `{"name":"echo","description":"For tests.","input_content_types":["*/*"],"output_content_types":["*/*"]}`
		message   = `{"role":"agent/echo","parts":[{"content_type":"text/plain","content":"Howdy!"}],"created_at":"T","completed_at":"T"}`
		run       = `{"run_id":"A","agent_name":"echo","session_id":"B","status":`
		completed = run + `"completed","output":[` + message + `],"created_at":"T","finished_at":"T"}`
	)
	node := []string{"accept-language: *", "sec-fetch-mode: cors", "user-agent: node", "accept-encoding: gzip, deflate"}
	tests := []struct {
		name, method, path, body, accept, status, head, want string
	}{
		{"ping", "GET", "/ping", "", "*/*", "200", plainHead, `{}`},
		{"agent", "GET", "/agents/echo", "", "*/*", "200", plainHead, manifest},
		{"one agent of all", "GET", "/agents?limit=1", "", "*/*", "200", plainHead, `{"agents":[` + manifest + `]}`},
		{"no agents behind the last", "GET", "/agents?limit=5&offset=99", "", "*/*", "200", plainHead, `{"agents":[]}`},
		{"sync", "POST", "/runs", sdkBody("echo", "Howdy!", "sync", ""), "*/*", "200", runHead, completed},
		{"async", "POST", "/runs", sdkBody("echo", "Howdy!", "async", ""), "*/*", "202", runHead, run + `"created","output":[],"created_at":"T"}`},
		{"stream", "POST", "/runs", sdkBody("echo", "Howdy!", "stream", ""), "text/event-stream", "200",
			"Cache-Control: no-store\r\nContent-Type: text/event-stream\r\nRun-ID: A\r\nX-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\n",
			"id: 1\ndata: " + `{"type":"run.created","run":` + run + `"created","output":[],"created_at":"T"}}` + "\n\n" +
				"id: 2\ndata: " + `{"type":"run.in-progress","run":` + run + `"in-progress","output":[],"created_at":"T"}}` + "\n\n" +
				"id: 3\ndata: " + `{"type":"message.created","message":{"role":"agent/echo","parts":[],"created_at":"T","completed_at":null}}` + "\n\n" +
				"id: 4\ndata: " + `{"type":"message.part","part":{"content_type":"text/plain","content":"Howdy!"}}` + "\n\n" +
				"id: 5\ndata: " + `{"type":"message.completed","message":` + message + `}` + "\n\n" +
				"id: 6\ndata: " + `{"type":"run.completed","run":` + completed + `}` + "\n\n"},
		{"awaiting", "POST", "/runs", sdkBody("ask", "x", "sync", `,"session_id":"`+uuid1+`"`), "*/*", "200", runHead,
			`{"run_id":"A","agent_name":"ask","session_id":"B","status":"awaiting","await_request":{"type":"message","message":{"role":"agent/ask",` +
				`"parts":[{"content_type":"text/plain","content":"Your name?"}],"created_at":"T","completed_at":"T"}},"output":[],"created_at":"T"}`},
	}
	length := anyLength
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := steady(raw(t, web, request(web, tt.method, tt.path, tt.body, append(node, "accept: "+tt.accept)...)))
			status, head, body := parts(got)
			if tt.name == "stream" { // net/http may set the length of a short one
				head = length.ReplaceAllString(head, "")
			}
			if status != tt.status || length.ReplaceAllString(head, "Content-Length: N\r\n") != tt.head || body != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.status+" "+tt.head+tt.want)
			}
		})
	}
}

// TestRESTRefusals checks the status and the error of invalid requests.
func TestRESTRefusals(t *testing.T) {
	s := newStage(t, nil)
	web := serveREST(t, s, &Options{MaxMessage: 2000})
	c := acp.Local(s.Server, nil)
	defer c.Close()
	over := must(t)(c.Run(t.Context(), ask("echo", "x"))).ID
	waiting := must(t)(c.Run(t.Context(), ask("ask", "x"))).ID
	const resume = `"await_resume":{"type":"message","message":{"role":"user","parts":[{"content_type":"text/plain","content":"y"}],"created_at":null,"completed_at":null}}`
	tests := []struct {
		name, method, path, body string
		headers                  []string
		status, code             string // an empty code: plain text
	}{
		{"a path that is none", "GET", "/", "", nil, "404", "not_found"},
		{"another", "GET", "/ping/x", "", nil, "404", "not_found"},
		{"agents and nothing", "GET", "/agents/", "", nil, "404", "not_found"},
		{"too deep", "GET", "/runs/" + over + "/events/1", "", nil, "404", "not_found"},
		{"deep elsewhere", "GET", "/agents/echo/events", "", nil, "404", "not_found"},
		{"unknown agent", "GET", "/agents/nope", "", nil, "404", "not_found"},
		{"unknown run", "GET", "/runs/" + uuid1, "", nil, "404", "not_found"},
		{"events of an unknown run", "GET", "/runs/" + uuid1 + "/events", "", nil, "404", "not_found"},
		{"cancel of an unknown run", "POST", "/runs/" + uuid1 + "/cancel", "", nil, "404", "not_found"},
		{"resume of an unknown run", "POST", "/runs/" + uuid1, `{"mode":"sync",` + resume + `}`, nil, "404", "not_found"},
		{"unknown session", "GET", "/sessions/" + uuid1, "", nil, "404", "not_found"},
		{"unknown session, as specified", "GET", "/session/" + uuid1, "", nil, "404", "not_found"},
		{"unknown resource", "GET", "/resources/" + uuid1, "", nil, "404", "not_found"},
		{"a run of an unknown agent", "POST", "/runs", sdkBody("nope", "x", "sync", ""), nil, "404", "not_found"},
		{"a stream of an unknown agent", "POST", "/runs", sdkBody("nope", "x", "stream", ""), []string{"Accept: text/event-stream"}, "404", "not_found"},

		{"no JSON", "POST", "/runs", "{", nil, "422", "invalid_input"},
		{"no body", "POST", "/runs", "", nil, "422", "invalid_input"},
		{"no object", "POST", "/runs", "[]", nil, "422", "invalid_input"},
		{"no UTF-8", "POST", "/runs", "{\"agent_name\":\"\xff\"}", nil, "422", "invalid_input"},
		{"a member twice", "POST", "/runs", `{"agent_name":"echo","agent_name":"echo"}`, nil, "422", "invalid_input"},
		{"upper case", "POST", "/runs", `{"Agent_Name":"echo","input":[]}`, nil, "422", "invalid_input"},
		{"empty input", "POST", "/runs", `{"agent_name":"echo","input":[],"mode":"sync"}`, nil, "422", "invalid_input"},
		{"a wrong mode", "POST", "/runs", sdkBody("echo", "x", "fast", ""), nil, "422", "invalid_input"},
		{"a wrong session", "POST", "/runs", sdkBody("echo", "x", "sync", `,"session_id":"1"`), nil, "422", "invalid_input"},
		{"two sessions", "POST", "/runs", sdkBody("echo", "x", "sync", `,"session_id":"`+uuid1+`","session":{"id":"6f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20","history":[]}`), nil, "400", "invalid_input"},
		{"a wrong limit", "GET", "/agents?limit=0", "", nil, "422", "invalid_input"},
		{"a limit too high", "GET", "/agents?limit=1001", "", nil, "422", "invalid_input"},
		{"a limit that is none", "GET", "/agents?limit=x", "", nil, "422", "invalid_input"},
		{"a negative offset", "GET", "/agents?offset=-1", "", nil, "422", "invalid_input"},
		{"another run in the body", "POST", "/runs/" + waiting, `{"mode":"sync","run_id":"` + over + `",` + resume + `}`, nil, "422", "invalid_input"},
		{"resume without a mode", "POST", "/runs/" + waiting, `{` + resume + `}`, nil, "422", "invalid_input"},
		{"after what has not been", "GET", "/runs/" + over + "/events?after=7", "", nil, "422", "invalid_input"},
		{"an event id that is none", "GET", "/runs/" + over + "/events", "", []string{"Accept: text/event-stream", "Last-Event-ID: x"}, "422", "invalid_input"},
		{"an event id that has not been", "GET", "/runs/" + over + "/events", "", []string{"Accept: text/event-stream", "Last-Event-ID: 7"}, "422", "invalid_input"},

		{"cancel of what is over", "POST", "/runs/" + over + "/cancel", "", nil, "403", "server_error"},
		{"resume of what is over", "POST", "/runs/" + over, `{"mode":"sync",` + resume + `}`, nil, "403", "server_error"},
		{"resume with another type", "POST", "/runs/" + waiting, `{"mode":"sync","await_resume":{"type":"form"}}`, nil, "403", "server_error"},

		{"a wrong method", "DELETE", "/runs/" + over, "", nil, "405", ""},
		{"a GET of what is made", "GET", "/runs", "", nil, "405", ""},
		{"a POST of what is shown", "POST", "/ping", "{}", nil, "405", ""},
		{"a preflight", "OPTIONS", "/runs", "", nil, "405", ""},
		{"text", "POST", "/runs", sdkBody("wait", "x", "async", ""), []string{"Content-Type: text/plain"}, "415", ""},
		{"a form", "POST", "/runs", "agent_name=wait", []string{"Content-Type: application/x-www-form-urlencoded"}, "415", ""},
		{"compressed", "POST", "/runs", sdkBody("wait", "x", "async", ""), []string{"Content-Encoding: gzip"}, "415", ""},
		{"too long", "POST", "/runs", sdkBody("wait", strings.Repeat("x", 2000), "async", ""), nil, "413", ""},
		{"a stream that is not taken", "POST", "/runs", sdkBody("wait", "x", "stream", ""), []string{"Accept: application/json"}, "406", ""},
		{"JSON that is not taken", "POST", "/runs", sdkBody("wait", "x", "sync", ""), []string{"Accept: text/event-stream"}, "406", ""},
		{"HTML wanted", "GET", "/agents", "", []string{"Accept: text/html"}, "406", ""},

		// two Host headers
		{"another host", "GET", "/ping", "", []string{"Host: evil.example"}, "400", ""},
		{"another origin", "POST", "/runs", sdkBody("wait", "x", "async", ""), []string{"Origin: https://evil.example"}, "403", ""},
		{"no origin", "POST", "/runs", sdkBody("wait", "x", "async", ""), []string{"Origin: null"}, "403", ""},
		{"from another site", "GET", "/agents", "", []string{"Sec-Fetch-Site: cross-site"}, "403", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, head, body := parts(raw(t, web, request(web, tt.method, tt.path, tt.body, tt.headers...)))
			kind := "application/json"
			if tt.code == "" {
				kind = "text/plain"
			}
			if status != tt.status || !strings.Contains(head, "Content-Type: "+kind) || tt.code != "" && !strings.HasPrefix(body, `{"code":"`+tt.code+`","message":"`) {
				t.Errorf("got %s %s%q, want %s %s", status, head, body, tt.status, tt.code)
			}
			if tt.status == "405" && !strings.Contains(head, "Allow: ") {
				t.Errorf("no Allow: %s", head)
			}
		})
	}
	t.Run("rebinding", func(t *testing.T) {
		got := raw(t, web, "POST /runs HTTP/1.0\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		if status, _, _ := parts(got); status != "403" {
			t.Error(got)
		}
	})
	select {
	case <-s.begun:
		t.Error("something that was refused began a run")
	default:
	}
	if run := must(t)(c.Resume(t.Context(), waiting, acp.Answer(acp.Text("Ada")))); run.Text() != "Hello Ada" {
		t.Errorf("after all that: %+v", run)
	}
}

func TestHosts(t *testing.T) {
	s := newStage(t, nil)
	web := serveREST(t, s, &Options{Hosts: []string{"agents.example:*"}, Origins: []string{"https://app.example"}})
	open := serveREST(t, s, &Options{NoDoor: true})
	get := func(host string, headers ...string) string {
		return "GET /ping HTTP/1.0\r\nHost: " + host + "\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
	}
	for name, tt := range map[string]struct{ got, want string }{
		"configured host":   {raw(t, web, get("agents.example:80")), "200"},
		"configured origin": {raw(t, web, get("agents.example:80", "Origin: https://app.example")), "200"},
		"no door":           {raw(t, open, get("any.example")), "200"},
	} {
		if status, _, _ := parts(tt.got); status != tt.want {
			t.Errorf("%s: %s", name, tt.got)
		}
	}
	if _, err := NewREST(s.Server, &Options{Hosts: []string{"a b"}}); err == nil {
		t.Error("a host that is none was taken")
	}
	if _, err := NewRPC(s.Server, &Options{Origins: []string{"a b"}}); err == nil {
		t.Error("an origin that is none was taken")
	}
}

// TestResources checks that the messages of a session are available at the URLs in its history.
func TestResources(t *testing.T) {
	s := newStage(t, nil)
	h, err := NewREST(s.Server, nil)
	web := serve(t, http.StripPrefix("/a/b", h), err)
	fixed := serveREST(t, s, &Options{BaseURL: "https://agents.example/x/"})
	c, err := Dial(web.URL+"/a/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := must(t)(c.Run(t.Context(), ask("echo", "x")))
	session, err := c.Session(t.Context(), run.SessionID)
	if err != nil || len(session.History) != 2 {
		t.Fatalf("%+v, %v", session, err)
	}
	for _, at := range session.History {
		if !strings.HasPrefix(at, web.URL+"/a/b/resources/") {
			t.Errorf("%s", at)
		}
		answer, err := web.Client().Get(at)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 200 || !strings.Contains(string(text), `"content":"x"`) {
			t.Errorf("%s: %s, %v", at, text, err)
		}
	}
	_, _, body := parts(raw(t, fixed, request(fixed, "GET", "/session/"+run.SessionID, "")))
	if !strings.Contains(body, `"https://agents.example/x/resources/`) {
		t.Error(body)
	}
}

// TestDisconnect checks that a client that disconnects cancels its run only if CancelOnDisconnect
// is set.
func TestDisconnect(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		t.Run(strconv.FormatBool(wanted), func(t *testing.T) {
			s := newStage(t, &acp.Options{CancelOnDisconnect: wanted})
			web := serveREST(t, s, nil)
			for _, mode := range []string{"sync", "stream"} {
				answered := make(chan error, 1)
				req, err := http.NewRequestWithContext(t.Context(), "POST", web.URL+"/runs", strings.NewReader(sdkBody("wait", "x", mode, "")))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				client := &http.Client{Transport: &http.Transport{}}
				go func() {
					answer, err := client.Do(req)
					if err == nil {
						defer answer.Body.Close()
						_, err = io.Copy(io.Discard, answer.Body)
					}
					answered <- err
				}()
				job := eventually(t, s.begun)
				web.CloseClientConnections()
				if err := eventually(t, answered); err == nil {
					t.Error("the client noticed nothing")
				}
				client.CloseIdleConnections()
				if wanted {
					if cause := eventually(t, s.ended); !errors.Is(cause, acp.ErrCancelled) {
						t.Errorf("%s: %v", mode, cause)
					}
					continue
				}
				s.release <- struct{}{}
				if run, err := s.Wait(t.Context(), job.ID()); err != nil || run.Status != acp.RunCompleted {
					t.Errorf("%s: %+v, %v", mode, run, err)
				}
			}
		})
	}
}

func TestBusy(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Active: 1}})
	web := serveREST(t, s, nil)
	c := acp.Local(s.Server, nil)
	defer c.Close()
	must(t)(c.Start(t.Context(), ask("wait", "x")))
	status, head, body := parts(raw(t, web, request(web, "POST", "/runs", sdkBody("echo", "x", "sync", ""))))
	if status != "503" || !strings.Contains(head, "Retry-After: 1\r\n") || !strings.HasPrefix(body, `{"code":"server_error"`) {
		t.Error(status, head, body)
	}
}

// TestHEAD checks that HEAD gets the headers of GET without a body, and that the connection can be
// used again.
func TestHEAD(t *testing.T) {
	web := serveREST(t, newStage(t, nil), nil)
	lines := " /ping HTTP/1.1\r\nHost: " + web.Listener.Addr().String() + "\r\n"
	head, _, _ := strings.Cut(raw(t, web, "GET"+lines+"Connection: close\r\n\r\n"), "\r\n\r\n")
	status, _, _ := strings.Cut(head, "\r\n")
	if !strings.HasPrefix(status, "HTTP/1.1 200") || !strings.Contains(head, "Content-Length: 2\r\n") {
		t.Fatalf("GET has %q", head)
	}
	want := head + "\r\n\r\n"
	got := raw(t, web, "HEAD"+lines+"\r\nHEAD"+lines+"Connection: close\r\n\r\n")
	if first := strings.Replace(want, "Connection: close\r\n", "", 1); steady(got) != steady(first+want) {
		t.Errorf("two HEAD get\n%q, want\n%q", got, first+want)
	}
}
