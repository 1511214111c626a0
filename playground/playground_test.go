package playground_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
)

// TestBytesGoOutAsTheyAre checks that valid and invalid text is sent byte for byte, and its
// response is paired with it.
func TestBytesGoOutAsTheyAre(t *testing.T) {
	web, tcp := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{
		{Name: "@web", Address: web + "/rpc"}, {Name: "@tcp", Address: tcp}, {Name: "@ws", Address: "ws" + strings.TrimPrefix(web, "http") + "/rpc"},
	}})
	for _, c := range []struct{ name, text, answer string }{
		{"spaces and order", `{ "method":"subtract" ,"id":  7,"params":[42,23], "jsonrpc":"2.0"}`, `"result":19`},
		{"an id past 2^53", `{"jsonrpc":"2.0","id":9007199254740993,"method":"get_data"}`, `9007199254740993`},
		{"no JSON", `{"jsonrpc":"2.0","id":1,"method":`, `-32700`},
		{"no request", `{"foo":"boo"}`, `-32600`},
		{"an empty batch", `[]`, `-32600`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"get_data"},1]`, `"hello"`},
		{"twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"get_data"}`, `-32600`},
		{"text of all kinds", `{"jsonrpc":"2.0","id":"\u00e9é𝄞` + "\u202e" + `","method":"echo","params":["<script>alert(1)</script>","javascript:alert(1)","` + "\u202e\u2066" + `"]}`, `javascript:alert(1)`},
	} {
		for _, target := range []string{"@web", "@tcp", "@ws"} {
			t.Run(c.name+target, func(t *testing.T) {
				b.TB = t
				s, answer := b.send(target, c.text)
				if !strings.Contains(answer, c.answer) {
					t.Errorf("the answer to %s is %s, want %s in it", c.text, answer, c.answer)
				}
				if got := b.text(s.Ref); got != c.text {
					t.Errorf("on the wire is %q, want %q", got, c.text)
				}
				var again sent
				b.call("resend", obj{"ref": s.Ref}, &again)
				if got := b.text(again.Ref); got != c.text {
					t.Errorf("sent again is %q, want %q", got, c.text)
				}
			})
		}
	}
	b.TB = t
	t.Run("bytes that are no text", func(t *testing.T) {
		b.TB = t
		var s sent
		bad := []byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}")
		b.call("send", obj{"target": "@tcp", "base64": bad, "wait": true}, &s)
		if got := b.text(s.Ref); got != string(bad) {
			t.Errorf("on the wire is %q", got)
		}
		if got := b.text(s.Answer); !strings.Contains(got, "-32700") {
			t.Errorf("the answer is %s", got)
		}
	})
	t.Run("newlines where a line is a message", func(t *testing.T) {
		b.TB = t
		s, answer := b.send("@tcp", "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"get_data\"}")
		if !strings.Contains(answer, "hello") || b.text(s.Ref) != "{\"jsonrpc\":\"2.0\", \"id\":1,\"method\":\"get_data\"}" {
			t.Errorf("%q: %s", b.text(s.Ref), answer)
		}
		b.call("send", obj{"target": "@tcp", "text": "{\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"get_data\"}", "line": "as-is", "wait": true}, &s)
		if answer := b.text(s.Answer); !strings.Contains(answer, "-32700") {
			t.Errorf("as it is the first line is no message, but the answer is %s", answer)
		}
	})
}

// TestHeaders checks that headers of one message override the defaults, and null removes a default.
func TestHeaders(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@s", Address: server.URL, Header: http.Header{"X-Mine": {"always"}}, Token: "the-token-of-it"}}})
	b.call("send", obj{"target": "@s", "text": "{}", "headers": []obj{{"name": "x-mine", "value": "once"}, {"name": "Accept", "value": nil}, {"name": "Content-Type", "value": "text/plain"}}}, nil)
	h := <-seen
	if h.Get("X-Mine") != "once" || h.Get("Content-Type") != "text/plain" || h.Get("Accept") != "" || h.Get("Authorization") != "Bearer the-token-of-it" {
		t.Errorf("the server saw %v", h)
	}
	var x struct {
		Request struct {
			Header [][2]string    `json:"header"`
			Rest   map[string]any `json:",embed"`
		} `json:"request"`
		Rest map[string]any `json:",embed"`
	}
	b.call("wire/exchange", obj{"http": 1}, &x)
	if text := fmt.Sprint(x.Request.Header); strings.Contains(text, "the-token-of-it") || !strings.Contains(text, capture.Hidden) {
		t.Errorf("the token is on record: %s", text)
	}
	for _, bad := range []obj{{"name": "a b", "value": "x"}, {"name": "a", "value": "x\r\ny: z"}, {"name": "", "value": "x"}} {
		if e := b.try("send", obj{"target": "@s", "text": "{}", "headers": []obj{bad}}, nil); e == nil || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("the header %v is taken: %v", bad, e)
		}
	}
}

// TestTargetHeaders checks that masked headers of a target are preserved when the page sets the
// others.
func TestTargetHeaders(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Clone()
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@s", Address: server.URL, Header: http.Header{"X-Api-Key": {"secret"}, "X-A": {"1"}}}}})
	var out struct {
		Target struct {
			Headers jsonrpc.Raw    `json:"headers"`
			Rest    map[string]any `json:",embed"`
		} `json:"target"`
	}
	b.call("targets/set", obj{"target": "@s", "headers": []obj{{"name": "X-Api-Key", "value": "•••"}, {"name": "X-A", "value": "2"}}}, &out)
	if string(out.Target.Headers) != `[{"name":"X-A","value":"2"},{"name":"X-Api-Key","value":"•••"}]` {
		t.Errorf("the page sees %s", out.Target.Headers)
	}
	b.call("send", obj{"target": "@s", "text": "{}"}, nil)
	if h := <-seen; h.Get("X-Api-Key") != "secret" || h.Get("X-A") != "2" {
		t.Errorf("the server got %v", h)
	}
}

// TestCancel checks that a call is cancelled with the protocol's own message.
func TestCancel(t *testing.T) {
	web, tcp := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@tcp", Address: tcp}, {Name: "@web", Address: web + "/rpc"}, {Name: "@mcp", Address: web + "/mcp", Protocol: playground.ProtocolMCP}}})
	var s, c sent
	b.call("send", obj{"target": "@tcp", "text": `{"jsonrpc":"2.0","id":"long","method":"sleep","params":[60000]}`}, &s)
	b.call("cancel", obj{"ref": s.Ref}, &c)
	if got := b.text(c.Ref); got != `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"long"}}` {
		t.Errorf("on a socket the message is %s", got)
	}
	if got := b.answerTo(s.Ref); !strings.Contains(got, "-32800") {
		t.Errorf("the answer is %s", got)
	}
	b.call("send", obj{"target": "@web", "text": `{"jsonrpc":"2.0","id":"long","method":"sleep","params":[60000]}`}, &s)
	b.call("cancel", obj{"ref": s.Ref}, &c)
	b.call("send", obj{"target": "@mcp", "text": `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"kitchen/cook","arguments":{}}}`}, &s)
	b.call("cancel", obj{"ref": s.Ref}, &c)
	if got := b.text(c.Ref); !strings.Contains(got, `"notifications/cancelled"`) || !strings.Contains(got, `"requestId":7`) {
		t.Errorf("in MCP the message is %s", got)
	}
}

// TestDescribe checks that the description of a target supplies forms, and its schemas supply lint.
func TestDescribe(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}, {Name: "@table", Address: web + "/mcp", Protocol: playground.ProtocolMCP}}})
	type item struct {
		Name     string         `json:"name"`
		Params   jsonrpc.Raw    `json:"params"`
		Schema   jsonrpc.Raw    `json:"schema"`
		Template jsonrpc.Raw    `json:"template"`
		Rest     map[string]any `json:",embed"`
	}
	var d struct {
		Methods []item         `json:"methods"`
		Tools   []item         `json:"tools"`
		Rest    map[string]any `json:",embed"`
	}
	find := func(list []item, name string) item {
		for _, x := range list {
			if x.Name == name {
				return x
			}
		}
		t.Errorf("there is no %s in %d", name, len(list))
		return item{}
	}
	b.call("describe", obj{"target": "@web"}, &d)
	if m := find(d.Methods, "subtract"); !strings.Contains(string(m.Params), `"x-order":["minuend","subtrahend"]`) {
		t.Errorf("subtract takes %s", m.Params)
	}
	b.call("describe", obj{"target": "@table"}, &d)
	find(d.Methods, "initialize")
	if x := find(d.Tools, "book-table"); !strings.Contains(string(x.Schema), "guests") || !strings.Contains(string(x.Template), `"name":"book-table"`) {
		t.Errorf("book-table is %s, to begin with %s", x.Schema, x.Template)
	}
	var l struct {
		Kind  string           `json:"kind"`
		Marks []map[string]any `json:"marks"`
		Rest  map[string]any   `json:",embed"`
	}
	b.call("lint", obj{"target": "@table", "text": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book-table","arguments":{"guests":"four"}}}`}, &l)
	if text := fmt.Sprint(l.Marks); !strings.Contains(text, "/params/arguments/guests") {
		t.Errorf("the marks are %v", l.Marks)
	}
}

// TestSaved checks that saved calls are readable files. Their responses are checked against the
// assertions.
func TestSaved(t *testing.T) {
	web, _ := services(t)
	dir := t.TempDir()
	b := open(t, &playground.Options{Folder: dir, Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}}})
	var f struct {
		File string `json:"file"`
	}
	call := obj{"name": "../a call: né \u2066", "target": "@web", "text": `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[{{much}}, 23]}`,
		"variables": obj{"much": "42"}, "headers": []obj{{"name": "Authorization", "value": "Bearer secret"}, {"name": "X-A", "value": "b"}},
		"asserts": []obj{{"path": "$.result", "is": "equals", "value": 19}, {"path": "$.error", "is": "missing"}, {"path": "$.result", "is": "more", "value": 20}}}
	b.call("saved/save", call, &f)
	if filepath.Dir(f.File) != dir {
		t.Errorf("it was written to %s", f.File)
	}
	text, err := os.ReadFile(f.File)
	if err != nil || strings.Contains(string(text), "secret") || !strings.Contains(string(text), "{{much}}") {
		t.Errorf("the file has %s, %v", text, err)
	}
	type outcome struct {
		Text    string `json:"text"`
		OK      bool   `json:"ok"`
		Results []struct {
			OK   bool           `json:"ok"`
			Text string         `json:"text"`
			Rest map[string]any `json:",embed"`
		} `json:"results"`
		Rest map[string]any `json:",embed"`
	}
	var out outcome
	b.call("saved/run", obj{"name": call["name"]}, &out)
	if out.OK || len(out.Results) != 3 || !out.Results[0].OK || !out.Results[1].OK || out.Results[2].OK {
		t.Errorf("the results are %+v", out)
	}
	b.call("saved/run", obj{"name": call["name"], "variables": obj{"much": "100"}}, &out)
	if out.Results[0].OK || !out.Results[2].OK || !strings.Contains(out.Text, "[100, 23]") {
		t.Errorf("with another variable the results are %+v", out)
	}
	b.call("saved/delete", obj{"name": call["name"]}, nil)
	if _, err := os.Stat(f.File); err == nil {
		t.Error("it is still there")
	}
	for _, bad := range []obj{{"name": " ", "target": "a", "text": ""}, {"name": "x", "target": "a", "text": "", "asserts": []obj{{"path": "result", "is": "exists"}}}} {
		if e := b.try("saved/save", bad, nil); e == nil {
			t.Errorf("%v is saved", bad)
		}
	}
}

// TestFilter checks that a filter hides a call with everything that belongs to it.
func TestFilter(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}}})
	b.send("@web", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`)
	b.send("@web", `{"jsonrpc":"2.0","id":2,"method":"get_data"}`)
	b.page.Recorder().Flush()
	type selected struct {
		Refs  []string `json:"refs"`
		Total int      `json:"total"`
	}
	for filter, want := range map[string]int{"": 7, "method:subtract": 2, "-method:subtract": 4, "-method:subtract -kind:open": 3, "hello": 1, "kind:http": 2, "target:@web kind:request": 2} {
		var s selected
		b.call("wire/select", obj{"filter": filter}, &s)
		if len(s.Refs) != want || s.Total != 7 {
			t.Errorf("%q chooses %v of %d, want %d", filter, s.Refs, s.Total, want)
		}
	}
	if e := b.try("wire/select", obj{"filter": "colour:red"}, nil); e == nil || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown key: %v", e)
	}
	var w struct {
		Values []string `json:"values"`
	}
	b.call("wire/words", obj{"key": "method"}, &w)
	if fmt.Sprint(w.Values) != "[get_data subtract]" {
		t.Errorf("the methods are %v", w.Values)
	}
}

// TestSessions checks that a saved session can be dropped on the page and shows the same rows.
func TestSessions(t *testing.T) {
	web, _ := services(t)
	b := open(t, &playground.Options{Targets: []playground.Target{{Name: "@web", Address: web + "/rpc"}}})
	s, _ := b.send("@web", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`)
	status, h, file := b.do(http.MethodPost, "/session/save", "application/json", `{}`, nil)
	if status != 200 || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
		t.Fatalf("save: %d %v", status, h)
	}
	status, _, text := b.do(http.MethodPost, "/session/open?name=..%2F%E2%80%AEmine.jsonl", "application/x-ndjson", file, nil)
	var o struct {
		Log  string         `json:"log"`
		Name string         `json:"name"`
		Rest map[string]any `json:",embed"`
	}
	if err := json.Unmarshal([]byte(text), &o); status != 200 || err != nil || o.Name != "mine.jsonl" {
		t.Fatalf("open: %d %s %v", status, text, err)
	}
	var m struct {
		Text string         `json:"text"`
		Rest map[string]any `json:",embed"`
	}
	b.call("wire/message", obj{"log": o.Log, "ref": s.Ref}, &m)
	if m.Text != `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}` {
		t.Errorf("#%s of it is %q", s.Ref, m.Text)
	}
	for format, want := range map[string]string{"har": `"log"`, "markdown": "# Session", "jsonl": "subtract"} {
		if status, _, text := b.do(http.MethodPost, "/session/save", "application/json", `{"log":"`+o.Log+`","format":"`+format+`"}`, nil); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %.80s", format, status, text)
		}
	}
	b.call("session/close", obj{"log": o.Log}, nil)
	if e := b.try("wire/message", obj{"log": o.Log, "ref": s.Ref}, nil); e == nil {
		t.Error("a closed session can be read")
	}
	for _, bad := range []struct {
		media, body string
		status      int
	}{{"application/x-ndjson", "this is no session\n", 422}, {"application/x-ndjson", "", 422}, {"text/plain", file, 415}, {"", file, 415}} {
		if status, _, text := b.do(http.MethodPost, "/session/open", bad.media, bad.body, nil); status != bad.status {
			t.Errorf("%q of type %q: %d %s, want %d", bad.body, bad.media, status, text, bad.status)
		}
	}
}

// TestAgents checks that an agent runs by its own protocol, and its questions are shown.
func TestAgents(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, &playground.Options{Targets: []playground.Target{
		{Name: "@scribe", Protocol: playground.ProtocolEditor, Command: []string{self}, Env: append(os.Environ(), editorWord+"=1"), Dir: t.TempDir()},
	}})
	body := `{"jsonrpc":"2.0","id":1,"method":"agents/run","params":{"target":"@scribe","agent":"","text":"water the plants"}}`
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, b.server.URL+"/rpc", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.page.Token())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream, application/json")
	answer, err := b.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var said, end strings.Builder
	asked := false
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var v struct {
			Run      string `json:"run"`
			Kind     string `json:"kind"`
			Text     string `json:"text"`
			Question *struct {
				Options []struct {
					ID   string         `json:"id"`
					Rest map[string]any `json:",embed"`
				} `json:"options"`
				Rest map[string]any `json:",embed"`
			} `json:"question"`
			Rest map[string]any `json:",embed"`
		}
		_ = jsonrpc.Scan(data, func(m *jsonrpc.Message) {
			if !m.Request {
				end.Write(data)
				return
			}
			if err := json.Unmarshal(m.Params, &v); err != nil {
				t.Fatal(err)
			}
		})
		if v.Kind == "output" {
			said.WriteString(v.Text)
		}
		if v.Kind == "question" && v.Question != nil {
			asked = true
			b.call("agents/answer", obj{"run": v.Run, "option": v.Question.Options[0].ID}, nil)
		}
	}
	if !asked || !strings.Contains(said.String(), "plants") || !strings.Contains(end.String(), `"state":"completed"`) {
		t.Errorf("asked %v, said %q, the end is %s", asked, said.String(), end.String())
	}
}
