package acphttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A breaker is a proxy between client and server that closes connections in the middle of
// responses.
type breaker struct {
	net.Listener
	to string

	after  int // bytes of a response that pass
	all    sync.WaitGroup
	broken atomic.Int64
}

// newBreaker returns a breaker that passes the given number of bytes of each connection: some
// events.
func newBreaker(t *testing.T, web *httptest.Server, after int) *breaker {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{Listener: l, to: web.Listener.Addr().String(), after: after}
	b.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.all.Go(func() { b.pass(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		b.all.Wait()
	})
	return b
}

func (b *breaker) url() string { return "http://" + b.Addr().String() }

// pass proxies one connection.
func (b *breaker) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", b.to)
	if err != nil {
		return
	}
	defer server.Close()
	b.all.Go(func() {
		io.Copy(server, client)
		server.Close()
	})
	if _, err := io.CopyN(client, server, int64(b.after)); err == nil {
		b.broken.Add(1)
	}
}

// TestDroppedStream checks that a stream that breaks repeatedly has no missing and no repeated
// events, in both bindings: over REST with Last-Event-ID, over JSON-RPC with runs/subscribe.
func TestDroppedStream(t *testing.T) {
	hosts := &Options{Hosts: []string{"127.0.0.1:*"}}
	for name, dial := range map[string]func(t *testing.T, s *stage) (*acp.Client, *breaker){
		"REST": func(t *testing.T, s *stage) (*acp.Client, *breaker) {
			b := newBreaker(t, serveREST(t, s, hosts), 1500)
			c, err := Dial(b.url(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return c, b
		},
		"JSON-RPC": func(t *testing.T, s *stage) (*acp.Client, *breaker) {
			b := newBreaker(t, serveRPC(t, s, hosts), 2500)
			return acp.NewClient(httprpc.NewClient(b.url(), &httprpc.Options{Open: acp.Open}), nil), b
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			c, b := dial(t, s)
			defer c.Close()
			go func() {
				for range 10 {
					s.release <- struct{}{}
				}
			}()
			next := int64(1)
			run := must(t)(c.Stream(t.Context(), ask("count", "x"), func(e acp.Event) error {
				if e.Seq != next {
					t.Errorf("event %d, want %d", e.Seq, next)
				}
				next++
				return nil
			}))
			if run.Text() != "0123456789" || next != 16 || b.broken.Load() < 1 {
				t.Errorf("%+v: %d events, %d breaks", run, next-1, b.broken.Load())
			}
			t.Logf("%d breaks", b.broken.Load())
		})
	}
}

// A lines is a response that is read line by line.
type lines struct {
	*http.Response
	t    *testing.T
	body *bufio.Scanner
	stop func()
}

// open makes a request, whose response is closed with the test.
func open(t *testing.T, method, url, body string, headers ...string) *lines {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Do(req) //nolint:bodyclose // by stop
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	l := &lines{Response: answer, t: t, body: bufio.NewScanner(answer.Body)}
	l.stop = func() {
		cancel()
		answer.Body.Close()
		client.CloseIdleConnections()
	}
	t.Cleanup(l.stop)
	return l
}

// next returns the next line that is not empty, or "" at the end.
func (l *lines) next() string {
	for l.body.Scan() {
		if text := l.body.Text(); text != "" {
			return text
		}
	}
	return ""
}

func (l *lines) until(prefix string) string {
	l.t.Helper()
	for {
		text := l.next()
		if text == "" {
			l.t.Fatalf("no line began with %q", prefix)
		}
		if strings.HasPrefix(text, prefix) {
			return text
		}
	}
}

// TestLastEventID checks that an EventSource of a browser, or curl, resumes after its last event,
// and is informed of the end.
func TestLastEventID(t *testing.T) {
	s := newStage(t, nil)
	web := serveREST(t, s, nil)
	first := open(t, "POST", web.URL+"/runs", sdkBody("count", "x", "stream", ""), "Accept: text/event-stream")
	id := first.Header.Get("Run-ID")
	s.release <- struct{}{}
	first.until("id: 4") // the first part
	first.stop()

	at := web.URL + "/runs/" + id + "/events"
	second := open(t, "GET", at, "", "Accept: text/event-stream", "Last-Event-ID: 4")
	if second.Header.Get("Run-ID") != id || second.Header.Get("Content-Type") != "text/event-stream" || second.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%v", second.Header)
	}
	for i := 1; i < 10; i++ {
		s.release <- struct{}{}
		if got := second.next(); got != fmt.Sprintf("id: %d", i+4) {
			t.Errorf("got %q, want id %d", got, i+4)
		}
		if got, want := second.next(), fmt.Sprintf(`data: {"type":"message.part","part":{"content_type":"text/plain","content":"%d"}}`, i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := second.until("id: 15"); got == "" {
		t.Error("no end")
	}
	if got := second.next(); !strings.HasPrefix(got, `data: {"type":"run.completed"`) {
		t.Error(got)
	}
	if got := second.next(); got != "" {
		t.Errorf("behind the end: %q", got)
	}
	for _, tt := range []struct {
		name, url, accept, last string
		status, events          int
	}{
		{"all", at, "text/event-stream", "", 200, 15},
		{"some", at, "text/event-stream", "12", 200, 3},
		{"none left", at, "text/event-stream", "15", 204, 0},
		{"by the query", at + "?after=13", "text/event-stream", "", 200, 2},
		{"the header counts more", at + "?after=1", "text/event-stream", "14", 200, 1},
		{"nothing but new ones", at + "?after=-1", "text/event-stream", "", 204, 0},
	} {
		headers := []string{"Accept: " + tt.accept}
		if tt.last != "" {
			headers = append(headers, "Last-Event-ID: "+tt.last)
		}
		l := open(t, "GET", tt.url, "", headers...)
		n := 0
		for text := l.next(); text != ""; text = l.next() {
			if strings.HasPrefix(text, "data: ") {
				n++
			}
		}
		if l.StatusCode != tt.status || n != tt.events {
			t.Errorf("%s: %d, %d events", tt.name, l.StatusCode, n)
		}
	}
	// A client that accepts both gets a list, unless it names the stream.
	for accept, want := range map[string]string{"*/*": "application/json", "application/json, text/event-stream;q=0.5": "application/json", "application/json, text/event-stream": "text/event-stream"} {
		l := open(t, "GET", at, "", "Accept: "+accept)
		if got := l.Header.Get("Content-Type"); got != want {
			t.Errorf("%s: %s", accept, got)
		}
	}
}

// TestEventsNotKept checks that removed events end a stream with an error, or are an error from the
// start.
func TestEventsNotKept(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Events: 8}})
	web := serveREST(t, s, nil)
	c, err := Dial(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := must(t)(c.Start(t.Context(), ask("count", "x")))
	for range 10 {
		s.release <- struct{}{}
	}
	if _, err := s.Wait(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"list": func() error { _, err := c.Events(t.Context(), run.ID, 0); return err }(),
		"stream": func() error {
			_, err := c.Subscribe(t.Context(), run.ID, 1, func(acp.Event) error { return nil })
			return err
		}(),
	} {
		var e *acp.Error
		if !errors.Is(err, acp.ErrNotKept) || !errors.As(err, &e) || !strings.Contains(string(e.Data), `"oldest":`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if status, _, _ := parts(raw(t, web, request(web, "GET", "/runs/"+run.ID+"/events", ""))); status != "410" {
		t.Error(status)
	}
}

func TestKeepAlive(t *testing.T) {
	s := newStage(t, nil)
	o := &Options{KeepAlive: 20 * time.Millisecond}
	rest, rpc := serveREST(t, s, o), serveRPC(t, s, o)
	l := open(t, "POST", rest.URL+"/runs", sdkBody("wait", "x", "stream", ""), "Accept: text/event-stream")
	l.until(": keep-alive")
	job := eventually(t, s.begun)
	l = open(t, "POST", rpc.URL, `{"jsonrpc":"2.0","id":1,"method":"runs/subscribe","params":{"run_id":"`+job.ID()+`","after":2}}`)
	l.until(": keep-alive") // before the first event
	l = open(t, "GET", rest.URL+"/runs/"+job.ID()+"/events", "", "Accept: text/event-stream", "Last-Event-ID: 2")
	l.until(": keep-alive")
}

// TestRPCOnTheWire checks what the JSON-RPC binding adds to POST.
func TestRPCOnTheWire(t *testing.T) {
	s := newStage(t, nil)
	web := serveRPC(t, s, nil)
	create := `{"jsonrpc":"2.0","id":1,"method":"runs/create","params":{"agent_name":"echo","mode":"stream","input":[{"role":"user","parts":[{"content":"Hi"}]}]}}`
	const (
		run       = `{"run_id":"A","agent_name":"echo","session_id":"B","status":`
		message   = `{"role":"agent/echo","parts":[{"content_type":"text/plain","content":"Hi"}],"created_at":"T","completed_at":"T"}`
		completed = run + `"completed","output":[` + message + `],"created_at":"T","finished_at":"T"}`
	)
	event := func(seq, event string) string {
		return "id: " + seq + "\ndata: " + `{"jsonrpc":"2.0","method":"runs/event","params":{"run_id":"A","seq":` + seq + `,"request_id":1,"event":` + event + "}}\n\n"
	}
	tail := event("5", `{"type":"message.completed","message":`+message+`}`) + event("6", `{"type":"run.completed","run":`+completed+`}`) +
		"data: " + `{"jsonrpc":"2.0","result":` + completed + `,"id":1}` + "\n\n"
	want := event("1", `{"type":"run.created","run":`+run+`"created","output":[],"created_at":"T"}}`) +
		event("2", `{"type":"run.in-progress","run":`+run+`"in-progress","output":[],"created_at":"T"}}`) +
		event("3", `{"type":"message.created","message":{"role":"agent/echo","parts":[],"created_at":"T","completed_at":null}}`) +
		event("4", `{"type":"message.part","part":{"content_type":"text/plain","content":"Hi"}}`) + tail
	var id string
	for _, accept := range []string{"", "*/*", "text/event-stream", "application/json, text/event-stream", "application/json;q=0.9, text/*"} {
		headers := []string{}
		if accept != "" {
			headers = append(headers, "Accept: "+accept)
		}
		got := raw(t, web, request(web, "POST", "/any", create, headers...))
		id = anyUUID.FindString(got)
		status, head, body := parts(steady(got))
		if status != "200" || body != want || !strings.Contains(head, "Content-Type: text/event-stream\r\n") || !strings.Contains(head, "Run-ID: A\r\n") ||
			!strings.Contains(head, "X-Accel-Buffering: no\r\n") || !strings.Contains(head, "Cache-Control: no-") {
			t.Errorf("Accept %q: %s %s\ngot  %s\nwant %s", accept, status, head, body, want)
		}
	}
	subscribe := func(more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"runs/subscribe","params":{"run_id":"` + id + `"` + more + `}}`
	}
	for name, tt := range map[string]struct{ body, last string }{
		"by the header":           {subscribe(""), "Last-Event-ID: 4"},
		"by the params":           {subscribe(`,"after":4`), "X: y"},
		"the params count more":   {subscribe(`,"after":4`), "Last-Event-ID: 1"},
		"with blanks in the text": {strings.ReplaceAll(subscribe(""), "{", "{ \n "), "Last-Event-ID: 4"},
	} {
		if _, _, body := parts(steady(raw(t, web, request(web, "POST", "/", tt.body, tt.last)))); body != tail {
			t.Errorf("%s\ngot  %s\nwant %s", name, body, tail)
		}
	}
	const jsonHead = "application/json"
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     string
		kind, want string
	}{
		{"not a stream", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, "200", jsonHead, `{"jsonrpc":"2.0","result":{},"id":1}`},
		{"an error before the first event", strings.Replace(create, "echo", "nope", 1), []string{"Accept: text/event-stream"}, "200", jsonHead,
			`{"jsonrpc":"2.0","error":{"code":-32001,"message":"The agent was not found.","data":{"code":"not_found","message":"The agent was not found."}},"id":1}`},
		{"no stream taken", create, []string{"Accept: application/json"}, "406", "text/plain", ""},
		{"nothing taken", create, []string{"Accept: text/html"}, "406", "text/plain", ""},
		{"a stream in a batch", "[" + create + "]", nil, "200", jsonHead,
			`[{"jsonrpc":"2.0","error":{"code":-32602,"message":"Streams are not supported in a batch.","data":{"code":"invalid_input","message":"Streams are not supported in a batch."}},"id":1}]`},
		{"no JSON", "{", nil, "200", jsonHead, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`},
		{"an event id that is none", subscribe(""), []string{"Last-Event-ID: x"}, "200", jsonHead,
			`{"jsonrpc":"2.0","error":{"code":-32602,"message":"Last-Event-ID must be a number from 0 on.","data":{"code":"invalid_input","message":"Last-Event-ID must be a number from 0 on."}},"id":1}`},
		{"an event id for no run", `{"jsonrpc":"2.0","id":1,"method":"runs/subscribe","params":{}}`, []string{"Last-Event-ID: 4"}, "200", jsonHead,
			`{"jsonrpc":"2.0","error":{"code":-32001,"message":"The run was not found.","data":{"code":"not_found","message":"The run was not found."}},"id":1}`},
		{"params by position", `{"jsonrpc":"2.0","id":1,"method":"runs/subscribe","params":["x"]}`, []string{"Last-Event-ID: 4"}, "200", jsonHead,
			`{"jsonrpc":"2.0","error":{"code":-32602,"message":"params must be an object: this protocol has no positional params.","data":{"code":"invalid_input","message":"params must be an object: this protocol has no positional params."}},"id":1}`},
		{"a notification", strings.Replace(create, `"id":1,`, "", 1), nil, "204", "", ""},
		{"text", create, []string{"Content-Type: text/plain"}, "415", "text/plain", ""},
		{"another origin", create, []string{"Origin: https://evil.example"}, "403", "text/plain", ""},
	} {
		status, head, body := parts(raw(t, web, request(web, "POST", "/", tt.body, tt.headers...)))
		if status != tt.status || tt.kind != "" && !strings.Contains(head, "Content-Type: "+tt.kind) || tt.want != "" && body != tt.want {
			t.Errorf("%s: %s %s\ngot  %s\nwant %s", tt.name, status, head, body, tt.want)
		}
	}
	if status, head, _ := parts(raw(t, web, request(web, "GET", "/", ""))); status != "405" || !strings.Contains(head, "Allow: POST") {
		t.Errorf("GET: %s %s", status, head)
	}
}

func TestClientIsBounded(t *testing.T) {
	s := newStage(t, nil)
	web := serveREST(t, s, nil)
	c, err := Dial(web.URL, &DialOptions{MaxMessage: 500})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	long := strings.Repeat("x", 1000)
	if _, err := c.Run(t.Context(), ask("echo", long)); !errors.Is(err, jsonrpc.ErrTooLarge) {
		t.Errorf("run: %v", err)
	}
	if _, err := c.Stream(t.Context(), ask("echo", long), func(acp.Event) error { return nil }); !errors.Is(err, jsonrpc.ErrTooLarge) {
		t.Errorf("stream: %v", err)
	}
	for _, address := range []string{"", "ftp://x", "127.0.0.1:1", "http://"} {
		if _, err := Dial(address, nil); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}

// TestClientClose checks that Close ends waiting calls, and waits for them.
func TestClientClose(t *testing.T) {
	s := newStage(t, nil)
	c, err := Dial(serveREST(t, s, nil).URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 2)
	go func() { _, err := c.Run(t.Context(), ask("wait", "x")); failed <- err }()
	go func() {
		_, err := c.Stream(t.Context(), ask("wait", "x"), func(acp.Event) error { return nil })
		failed <- err
	}()
	eventually(t, s.begun)
	eventually(t, s.begun)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := eventually(t, failed); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if err := c.Ping(t.Context()); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("%v", err)
	}
}
