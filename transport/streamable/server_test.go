package streamable

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const sessionHeader = "Test-Session"

// protocol is the protocol of the servers in these tests: hello begins a session, the header Alone
// marks a payload that belongs to no session.
type protocol struct {
	jsonrpc.Mux
	early  bool
	begun  chan *Session // may be nil
	cancel jsonrpc.Cancellation
	ended  func() // may be nil
}

func newProtocol() *protocol {
	p := &protocol{begun: make(chan *Session, 100)}
	p.Add("hello", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return "welcome", nil }))
	p.Add("echo", jsonrpc.Func(func(_ context.Context, in jsonrpc.Raw) (jsonrpc.Raw, error) { return in, nil }))
	p.Add("count", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, in struct {
		To int `json:"to"`
	}) (string, error) {
		for n := range in.To {
			if err := peer.Notify(ctx, "tick", []int{n + 1}); err != nil {
				return "", err
			}
		}
		return "done", nil
	}))
	p.Add("ask", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, _ struct{}) (jsonrpc.Raw, error) {
		var answer jsonrpc.Raw
		err := peer.Call(ctx, "question", nil, &answer)
		return answer, err
	}))
	p.Add("fail", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		var e []jsonrpc.Error
		if err := req.Params.Decode(&e); err != nil || len(e) != 1 {
			return nil, jsonrpc.ErrInvalidParams
		}
		return nil, &e[0]
	}))
	return p
}

// server returns a server of the protocol with the defaults.
func (p *protocol) server() *Server {
	alone := &Alone{Answerer: &jsonrpc.Answerer{Handler: &p.Mux}, Status: func(e *jsonrpc.Error, _ bool) int {
		if e.Code == jsonrpc.CodeMethodNotFound {
			return http.StatusNotFound
		}
		return 0
	}}
	return &Server{
		SessionHeader: sessionHeader,
		Door: func(r *http.Request, payload []byte) Route {
			switch {
			case r.Header.Get("Alone") != "":
				return Route{Alone: alone}
			case r.Header.Get(sessionHeader) == "" && strings.Contains(string(payload), `"hello"`):
				return Route{Begin: true}
			}
			return Route{}
		},
		Begin: func(s *Session, r *http.Request) {
			s.Answerer.Handler, s.Answerer.Mode = &p.Mux, p.Mode
			s.Early = p.early
			s.Cancellation = p.cancel
			if p.ended != nil {
				s.Ended = p.ended
			}
			s.Opened = func() bool { return r.Header.Get("Refused") == "" }
			if p.begun != nil {
				p.begun <- s
			}
		},
	}
}

// serve runs a server until the test ends.
func serve(t *testing.T, s *Server) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	t.Cleanup(s.Close) // before the server: streams would block its end
	return web
}

// raw sends bytes on a new connection and returns the raw response, without its Date.
func raw(t *testing.T, web *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may refuse it before the end
	var all strings.Builder
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if !strings.HasPrefix(line, "Date: ") {
			all.WriteString(line)
		}
		if err != nil {
			return all.String()
		}
	}
}

const both = "Accept: application/json, text/event-stream"

// request returns a whole request of HTTP/1.0, whose response has no chunks and ends with the
// connection.
func request(method, body string, headers ...string) string {
	h := strings.Join(headers, "\r\n")
	if h != "" {
		h += "\r\n"
	}
	if method == http.MethodPost && !strings.Contains(h, "Content-Type") {
		h += "Content-Type: application/json\r\n"
	}
	if method == http.MethodPost {
		h += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	return method + " /x HTTP/1.0\r\nHost: x\r\n" + h + "\r\n" + body
}

func post(body string, headers ...string) string { return request(http.MethodPost, body, headers...) }

// short removes the headers that all responses have.
func short(wire string) string {
	for _, line := range []string{"Cache-Control: no-store\r\n", "X-Content-Type-Options: nosniff\r\n", "X-Accel-Buffering: no\r\n", "Connection: close\r\n"} {
		wire = strings.Replace(wire, line, "", 1)
	}
	if strings.Contains(wire, "Content-Type: text/event-stream\r\n") {
		// net/http adds it if everything is available at once
		wire = contentLength.ReplaceAllString(wire, "")
	}
	return wire
}

var contentLength = regexp.MustCompile(`Content-Length: \d+\r\n`)

func plainly(status, body string) string {
	return fmt.Sprintf("HTTP/1.0 %s\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n%s", status, len(body), body)
}

const (
	streamHead = "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	accepted2  = "HTTP/1.0 202 Accepted\r\nContent-Length: 0\r\n\r\n"
	helloText  = `{"jsonrpc":"2.0","method":"hello","id":1}`
	welcome    = `{"jsonrpc":"2.0","result":"welcome","id":1}`
)

func echo(id, params string) string {
	return `{"jsonrpc":"2.0","method":"echo","params":` + params + `,"id":` + id + `}`
}

func result(id, value string) string {
	return `{"jsonrpc":"2.0","result":` + value + `,"id":` + id + `}`
}

func tick(n int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"tick","params":[%d]}`, n) }

func counting(to int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"count","params":{"to":%d},"id":7}`, to)
}

// begin begins a session and returns its header.
func begin(t *testing.T, web *httptest.Server, headers ...string) string {
	t.Helper()
	got := raw(t, web, post(helloText, append(headers, both)...))
	m := regexp.MustCompile(sessionHeader + `: ([!-~]{26,})\r\n`).FindStringSubmatch(got)
	if m == nil || !strings.HasPrefix(got, "HTTP/1.0 200 OK\r\n") || !strings.HasSuffix(got, "\r\n\r\n"+welcome) {
		t.Fatalf("hello was answered %q", got)
	}
	return sessionHeader + ": " + m[1]
}

// TestAloneOnTheWire compares whole responses to payloads that belong to no session.
func TestAloneOnTheWire(t *testing.T) {
	web := serve(t, newProtocol().server())
	for _, tt := range []struct{ name, body, want string }{
		{"a call", echo("1", `[1]`), plainly("200 OK", result("1", `[1]`))},
		{"a large id", echo("9007199254740993", `[1]`), plainly("200 OK", result("9007199254740993", `[1]`))},
		{"a notification", `{"jsonrpc":"2.0","method":"echo","params":[1]}`, accepted2},
		{"a response", result("1", "1"), plainly("400 Bad Request", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`)},
		{"a stream", counting(2), streamHead + "data: " + tick(1) + "\n\ndata: " + tick(2) + "\n\ndata: " + result("7", `"done"`) + "\n\n"},
		{"an error with a status", `{"jsonrpc":"2.0","method":"nobody","id":3}`, plainly("404 Not Found", `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":3}`)},
		{"not JSON", `{"jsonrpc`, plainly("200 OK", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
		{"nothing", ``, plainly("200 OK", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := short(raw(t, web, post(tt.body, both, "Alone: yes"))); got != tt.want {
				t.Errorf("%s\ngot  %q\nwant %q", tt.body, got, tt.want)
			}
		})
	}
	t.Run("only JSON is taken", func(t *testing.T) {
		if got, want := short(raw(t, web, post(counting(2), "Alone: yes"))), plainly("200 OK", result("7", `"done"`)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("only a stream is taken", func(t *testing.T) {
		got := short(raw(t, web, post(echo("1", `[1]`), "Accept: text/event-stream", "Alone: yes")))
		if want := streamHead + "data: " + result("1", `[1]`) + "\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestSessionOnTheWire compares whole responses within a session.
func TestSessionOnTheWire(t *testing.T) {
	web := serve(t, newProtocol().server())
	session := begin(t, web)
	for _, tt := range []struct{ name, body, want string }{
		{"plain when nothing streams", echo("1", `[1]`), plainly("200 OK", result("1", `[1]`))},
		{"a fraction and a large number", echo("9007199254740993", `[9007199254740993,1.10]`), plainly("200 OK", result("9007199254740993", `[9007199254740993,1.10]`))},
		{"a notification", `{"jsonrpc":"2.0","method":"echo","params":[1]}`, accepted2},
		{"a response that nobody waits for", result("1", "1"), accepted2},
		{"a stream with ids", counting(2), streamHead + "id: 1-1\ndata: " + tick(1) + "\n\nid: 1-2\ndata: " + tick(2) + "\n\nid: 1-3\ndata: " + result("7", `"done"`) + "\n\n"},
		{"a batch", "[" + echo("1", `[1]`) + "," + echo("2", `[2]`) + "]", plainly("200 OK", "["+result("1", `[1]`)+","+result("2", `[2]`)+"]")},
		{"busy", `{"jsonrpc":"2.0","method":"fail","params":[{"code":-31001,"message":"busy"}],"id":1}`,
			"HTTP/1.0 429 Too Many Requests\r\nContent-Length: 65\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\r\n" + `{"jsonrpc":"2.0","error":{"code":-31001,"message":"busy"},"id":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := short(raw(t, web, post(tt.body, both, session)))
			if got != tt.want {
				t.Errorf("%s\ngot  %q\nwant %q", tt.body, got, tt.want)
			}
		})
	}
	t.Run("only a stream is taken", func(t *testing.T) {
		got := short(raw(t, web, post(echo("1", `[1]`), "Accept: text/event-stream", session)))
		if want := streamHead + "id: 2-1\ndata: " + result("1", `[1]`) + "\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("only JSON is taken", func(t *testing.T) {
		if got, want := short(raw(t, web, post(counting(2), session))), plainly("200 OK", result("7", `"done"`)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestRefusals checks which requests are refused, and how.
func TestRefusals(t *testing.T) {
	s := newProtocol().server()
	s.MaxMessage = 1000
	web := serve(t, s)
	session := begin(t, web)
	fault := func(message, id string) string {
		return `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request: ` + message + `"},"id":` + id + `}`
	}
	for _, tt := range []struct{ name, request, status, rest string }{
		{"no session", post(echo("5", `[1]`), both), "400", fault("the session header is missing", "5")},
		{"an unknown session", post(echo(`"a"`, `[1]`), both, sessionHeader+": ABCDEFGHIJKLMNOPQRSTUVWXYZ"), "404", fault("unknown session", `"a"`)},
		{"an unknown session, many", post("["+echo("1", `[1]`)+","+echo("2", `[1]`)+"]", both, sessionHeader+": X"), "404", fault("unknown session", "null")},
		{"two sessions", post(echo("5", `[1]`), both, session, session), "400", fault("duplicate session header", "5")},
		{"GET of an unknown session", request("GET", "", "Accept: text/event-stream", sessionHeader+": X"), "404", fault("unknown session", "null")},
		{"DELETE of an unknown session", request("DELETE", "", sessionHeader+": X"), "404", fault("unknown session", "null")},
		{"GET of none", request("GET", "", "Accept: text/event-stream"), "405", "Allow: POST\r\n"},
		{"DELETE of none", request("DELETE", ""), "405", "Allow: POST\r\n"},
		{"GET alone", request("GET", "", "Accept: text/event-stream", "Alone: yes", session), "405", "Allow: POST\r\n"},
		{"GET of JSON", request("GET", "", "Accept: application/json", session), "406", ""},
		{"PUT", request("PUT", "", session), "405", "Allow: GET, POST, DELETE\r\n"},
		{"HTML wanted", post(echo("5", `[1]`), "Accept: text/html", session), "406", ""},
		{"text sent", post(echo("5", `[1]`), "Content-Type: text/plain", both, session), "415", ""},
		{"too long", post(echo("5", `["`+strings.Repeat("x", 1000)+`"]`), both, session), "413", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := raw(t, web, tt.request)
			if !strings.HasPrefix(got, "HTTP/1.0 "+tt.status+" ") || !strings.Contains(got, tt.rest) {
				t.Errorf("got %q, want %s and %q", got, tt.status, tt.rest)
			}
		})
	}
	t.Run("a session that does not come about", func(t *testing.T) {
		before := s.Sessions()
		got := raw(t, web, post(helloText, both, "Refused: yes"))
		if reserved, _ := places(s); strings.Contains(got, sessionHeader) || s.Sessions() != before || reserved != before {
			t.Errorf("got %q and %d sessions, %d reserved", got, s.Sessions(), reserved)
		}
	})
	t.Run("DELETE", func(t *testing.T) {
		if got := short(raw(t, web, request("DELETE", "", session))); got != "HTTP/1.0 204 No Content\r\n\r\n" {
			t.Errorf("got %q", got)
		}
		if got := raw(t, web, post(echo("5", `[1]`), both, session)); !strings.HasPrefix(got, "HTTP/1.0 404 ") {
			t.Errorf("after DELETE: got %q", got)
		}
	})
}

// A listener reads the events of a response.
type listener struct {
	answer *http.Response
	*eventstream.Reader
	cancel context.CancelFunc
}

// do makes a request whose response must be a stream.
func do(t *testing.T, web *httptest.Server, method, body string, headers ...string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, web.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	answer, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return &listener{answer, eventstream.NewReader(answer.Body, 0), cancel}
}

// hang closes the connection and drops the response.
func (l *listener) hang() {
	l.cancel()
	_ = l.answer.Body.Close()
}

// next returns the next event, which must arrive.
func (l *listener) next(t *testing.T) eventstream.Event {
	t.Helper()
	e, err := l.Next()
	if err != nil {
		t.Fatalf("no event: %v (status %d)", err, l.answer.StatusCode)
	}
	return e
}

func (l *listener) want(t *testing.T, id, data string) {
	t.Helper()
	if e := l.next(t); e.ID != id || string(e.Data) != data {
		t.Errorf("got event %q %q, want %q %q", e.ID, e.Data, id, data)
	}
}

func (l *listener) wantEnd(t *testing.T) {
	t.Helper()
	if e, err := l.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got event %q %q, %v, want the end", e.ID, e.Data, err)
	}
}

// TestVoice checks that messages that the server initiates wait for the GET, and arrive on its
// stream.
func TestVoice(t *testing.T) {
	p := newProtocol()
	web := serve(t, p.server())
	session := begin(t, web)
	n := <-p.begun
	notifier := n.Voice()
	if err := notifier.Notify(t.Context(), "tick", []int{1}); err != nil {
		t.Fatal(err)
	}
	get := do(t, web, "GET", "", session)
	get.want(t, "0-1", tick(1))
	if err := notifier.Notify(t.Context(), "tick", []int{2}); err != nil {
		t.Fatal(err)
	}
	get.want(t, "0-2", tick(2))

	t.Run("a second stream is refused", func(t *testing.T) {
		if second := do(t, web, "GET", "", session); second.answer.StatusCode != http.StatusConflict {
			t.Errorf("got status %d, want 409", second.answer.StatusCode)
		}
	})
	t.Run("an answer comes by POST", func(t *testing.T) {
		got := make(chan string, 1)
		go func() {
			var answer jsonrpc.Raw
			err := notifier.Call(t.Context(), "question", nil, &answer)
			got <- fmt.Sprint(string(answer), err)
		}()
		get.want(t, "0-3", `{"jsonrpc":"2.0","method":"question","id":1}`)
		if answer := raw(t, web, post(result("1", `"yes"`), both, session)); !strings.HasPrefix(answer, "HTTP/1.0 202 ") {
			t.Errorf("the answer was answered %q", answer)
		}
		if answer := <-got; answer != `"yes"<nil>` {
			t.Errorf("got %s", answer)
		}
	})
	t.Run("nobody listens: some wait, then whoever speaks", func(t *testing.T) {
		get.hang()
		gone(t, web, session, n)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		sent := 0
		for ; notifier.Notify(ctx, "tick", []int{sent}) == nil; sent++ {
		}
		if sent != mostUnheard {
			t.Errorf("%d messages were taken, want %d", sent, mostUnheard)
		}
	})
}

// gone waits until the stream of the GET of a session has no reader, while the server does other
// work.
func gone(t *testing.T, web *httptest.Server, session string, n *Session) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		raw(t, web, post(echo("1", "[1]"), both, session))
		n.mu.Lock()
		followed := n.notifier.reader != nil
		n.mu.Unlock()
		if !followed {
			return
		}
		if time.Now().After(until) {
			t.Fatal("the server does not notice that the client is gone")
		}
	}
}

// TestAskBack checks that a call from the server is sent on the stream of the POST, and that its
// response arrives in another POST.
func TestAskBack(t *testing.T) {
	p := newProtocol()
	p.cancel = jsonrpc.Cancellation{Method: "cancelled", Member: "requestId"}
	web := serve(t, p.server())
	session := begin(t, web)
	call := do(t, web, "POST", `{"jsonrpc":"2.0","method":"ask","id":"q"}`, session)
	call.want(t, "1-1", `{"jsonrpc":"2.0","method":"question","id":1}`)
	if got := raw(t, web, post(result("1", `{"a":1.0}`), both, session)); !strings.HasPrefix(got, "HTTP/1.0 202 ") {
		t.Errorf("the answer was answered %q", got)
	}
	call.want(t, "1-2", result(`"q"`, `{"a":1.0}`))
	call.wantEnd(t)

	t.Run("no longer wanted", func(t *testing.T) {
		n := <-p.begun
		call := do(t, web, "POST", `{"jsonrpc":"2.0","method":"ask","id":"r"}`, session)
		call.want(t, "2-1", `{"jsonrpc":"2.0","method":"question","id":2}`)
		n.Answerer.Cancel(jsonrpc.StringID("r"))
		call.want(t, "2-2", `{"jsonrpc":"2.0","method":"cancelled","params":{"requestId":2}}`)
	})
	t.Run("a caller without streams cannot be asked", func(t *testing.T) {
		got := raw(t, web, post(`{"jsonrpc":"2.0","method":"ask","id":"s"}`, session))
		if !strings.Contains(got, `"code":-32603`) {
			t.Errorf("got %q", got)
		}
	})
}

// TestStreamFromTheStart checks that a caller that accepts only a stream gets its headers at once.
func TestStreamFromTheStart(t *testing.T) {
	p := newProtocol()
	leave := make(chan struct{})
	p.Add("wait", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		<-leave
		return "waited", nil
	}))
	web := serve(t, p.server())
	const wait = `{"jsonrpc":"2.0","method":"wait","id":1}`
	// returns with the headers
	inside := do(t, web, "POST", wait, begin(t, web), "Accept: text/event-stream")
	outside := do(t, web, "POST", wait, "Alone: yes", "Accept: text/event-stream")
	close(leave)
	inside.want(t, "1-1", result("1", `"waited"`))
	outside.want(t, "", result("1", `"waited"`))
}

// TestMemory checks that bodies count while they are handled, and not afterwards.
func TestMemory(t *testing.T) {
	p := newProtocol()
	var held atomic.Int64
	p.Add("held", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		held.Store(budget.Messages.Used())
		return nil, nil
	}))
	web := serve(t, p.server())
	session := begin(t, web)
	text := `["` + strings.Repeat("x", 200_000) + `"]`
	before := budget.Messages.Used()
	for _, how := range []string{session, "Alone: yes"} {
		for range 3 {
			call := `{"jsonrpc":"2.0","method":"held","params":` + text + `,"id":1}`
			if got := raw(t, web, post(call, both, how)); !strings.HasPrefix(got, "HTTP/1.0 200 ") {
				t.Fatalf("got %.200q", got)
			}
			if during, after := held.Load()-before, budget.Messages.Used()-before; during < 400_000 || during > 600_000 || after != 0 {
				t.Errorf("%d bytes count while a body is handled, and %d afterwards", during, after)
			}
		}
	}
}
