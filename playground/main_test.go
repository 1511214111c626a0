package playground_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/playground"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// editorWord runs this test program as the demo's agent for editors. touchWord makes it leave a
// trace that it was started.
const (
	editorWord = "PARLEY_TEST_EDITOR"
	touchWord  = "PARLEY_TEST_TOUCH"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(touchWord); name != "" {
		_ = os.WriteFile(name, []byte("started"), 0o600) // the test checks the file
		_, _ = io.Copy(io.Discard, os.Stdin)             // until stdin is closed
		return
	}
	if os.Getenv(editorWord) != "" {
		report := func(string, error) {}
		// Serve returns when its stdin ends.
		_ = demo.Editor("1", "scribe", demo.Agents("1", report), report).Serve(context.Background(), stdio.New(nil))
		return
	}
	goleak.VerifyTestMain(m)
}

// services starts the demo's servers on free ports: HTTP with /rpc and /mcp, and TCP.
func services(t testing.TB) (web, tcp string) {
	t.Helper()
	service := demo.New("1")
	tools := demo.NewMCP("1", nil)
	handler := mcphttp.NewHandler(tools.Server, &mcphttp.Options{Unguarded: true})
	listener := &parley.Listener{Handler: service.Handler(), Mode: service.Mux.Mode, Mounts: map[string]parley.Mount{"/mcp": {Handler: handler, Drain: handler.Shutdown}}}
	bound, err := listener.Listen(context.Background(), parley.Target{Scheme: "http", Address: "127.0.0.1:0"}, parley.Target{Scheme: "tcp", Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- bound.Serve(context.Background()) }()
	t.Cleanup(func() {
		tools.Close()
		if err := bound.Close(); err != nil {
			t.Log(err)
		}
		<-done
	})
	at := bound.Targets()
	return "http://" + at[0].Address, at[1].String()
}

// A browser simulates the page's HTTP requests to a Playground.
type browser struct {
	testing.TB
	page   *playground.Playground
	server *httptest.Server
}

func open(t testing.TB, o *playground.Options) *browser {
	t.Helper()
	if o.Folder == "" {
		o.Folder = t.TempDir()
	}
	page, err := playground.New(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t, page, httptest.NewServer(page)}
	t.Cleanup(func() {
		if err := page.Close(); err != nil {
			t.Error(err)
		}
		b.server.Close()
	})
	return b
}

// do makes a request with the page's token, unless change removes it.
func (b *browser) do(method, path, contentType, body string, change func(*http.Request)) (int, http.Header, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.page.Token())
	r.Header.Set("Accept", "application/json, text/event-stream")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if change != nil {
		change(r)
	}
	answer, err := b.server.Client().Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

// try calls a method and returns its error or nil.
func (b *browser) try(method string, params, result any) *jsonrpc.Error {
	b.Helper()
	body, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.IntID(1), method, params)
	if err != nil {
		b.Fatal(err)
	}
	status, _, text := b.do(http.MethodPost, "/rpc", "application/json", string(body), nil)
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text = strings.TrimSpace(text[i+len("data: "):])
	}
	var out struct {
		Result jsonrpc.Raw `json:"result"`
		Error  *struct {
			Code    int64       `json:"code"`
			Message string      `json:"message"`
			Data    jsonrpc.Raw `json:"data"`
		} `json:"error"`
		Rest map[string]any `json:",embed"`
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		b.Fatalf("%s: %d %s: %v", method, status, text, err)
	}
	if out.Error != nil {
		return &jsonrpc.Error{Code: out.Error.Code, Message: out.Error.Message, Data: out.Error.Data}
	}
	if result != nil {
		if err := json.Unmarshal(out.Result, result); err != nil {
			b.Fatalf("%s: %v in %s", method, err, out.Result)
		}
	}
	return nil
}

func (b *browser) call(method string, params, result any) {
	b.Helper()
	if e := b.try(method, params, result); e != nil {
		b.Fatalf("%s %v: %v %s", method, params, e, e.Data)
	}
}

type sent struct {
	Ref    string         `json:"ref"`
	Answer string         `json:"answer"`
	Rest   map[string]any `json:",embed"`
}

// send sends a text and returns the response.
func (b *browser) send(target, text string) (s sent, answer string) {
	b.Helper()
	b.call("send", map[string]any{"target": target, "text": text, "wait": true}, &s)
	return s, b.text(s.Answer)
}

// text returns the bytes of a row.
func (b *browser) text(ref string) string {
	b.Helper()
	var m struct {
		Text   string         `json:"text"`
		Base64 []byte         `json:"base64"`
		Rest   map[string]any `json:",embed"`
	}
	b.call("wire/message", map[string]any{"ref": ref}, &m)
	return m.Text + string(m.Base64)
}

type obj = map[string]any

// follow reads changes until until returns true.
func (b *browser) follow(until func(method string, params jsonrpc.Raw) bool) {
	b.Helper()
	if !b.followLog("live", until) {
		b.Fatal("the stream ended")
	}
}

// followLog reads changes of a recording, and reports whether until returned true before the stream
// ended.
func (b *browser) followLog(log string, until func(method string, params jsonrpc.Raw) bool) bool {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.URL+"/rpc", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"follow","params":{"log":"`+log+`"}}`))
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
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		enough := false
		_ = jsonrpc.Scan(data, func(m *jsonrpc.Message) { enough = m.Request && until(m.Method, m.Params) })
		if enough {
			return true
		}
	}
	if lines.Err() != nil {
		b.Fatal(lines.Err())
	}
	return false
}
