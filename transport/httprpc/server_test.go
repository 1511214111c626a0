package httprpc

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

const (
	callText   = `{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}`
	answerText = `{"jsonrpc":"2.0","result":19,"id":1}`
	noteText   = `{"jsonrpc":"2.0","method":"update","params":[1]}`
)

// wire returns a plain raw response, without its Date.
func wire(status, body string) string {
	return "HTTP/1.1 " + status + "\r\nCache-Control: no-store\r\nContent-Length: " + itoa(len(body)) +
		"\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" + body
}

const wire204 = "HTTP/1.1 204 No Content\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"

// TestAnswersOnTheWire compares whole responses, byte for byte.
func TestAnswersOnTheWire(t *testing.T) {
	web := serve(t, Handler(methods()))
	const ok = "200 OK"
	tests := []struct{ name, body, want string }{
		{"a call", callText, wire(ok, answerText)},
		{"a call in pieces of white space", " \r\n\t" + callText + "\n", wire(ok, answerText)},
		{"a string id", `{"jsonrpc":"2.0","method":"subtract","params":{"minuend":1,"subtrahend":2},"id":"\u0031"}`, wire(ok, `{"jsonrpc":"2.0","result":-1,"id":"\u0031"}`)},
		{"a large id", `{"jsonrpc":"2.0","method":"update","id":9007199254740993}`, wire(ok, `{"jsonrpc":"2.0","result":null,"id":9007199254740993}`)},
		{"a notification", noteText, wire204},
		{"an unknown notification", `{"jsonrpc":"2.0","method":"nobody"}`, wire204},
		{"a batch of notifications", "[" + noteText + "," + noteText + "]", wire204},
		{"a response", answerText, wire204},
		{"a batch of responses", "[" + answerText + "]", wire204},
		{"a batch", "[" + callText + "," + noteText + "," + callText + "]", wire(ok, "["+answerText+","+answerText+"]")},
		{"unknown method", `{"jsonrpc":"2.0","method":"nobody","id":1}`, wire(ok, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`)},
		{"nothing", "", wire(ok, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
		{"white space", " \n", wire(ok, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
		{"not JSON", `{"jsonrpc"`, wire(ok, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
		{"a byte order mark", "\xef\xbb\xbf" + callText, wire(ok, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
		{"two texts", callText + callText, wire(ok, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`)},
		{"an empty batch", "[]", wire(ok, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`)},
		{"a number", "1", wire(ok, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`)},
		{"the wrong version", `{"jsonrpc":"1.0","method":"update","id":7}`, wire(ok, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":7}`)},
		{"a handler's error", `{"jsonrpc":"2.0","method":"fail","params":[{"code":7,"message":"no","data":[1]}],"id":1}`, wire(ok, `{"jsonrpc":"2.0","error":{"code":7,"message":"no","data":[1]},"id":1}`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := raw(t, web, post(tt.body)); got != tt.want {
				t.Errorf("%s\ngot  %q\nwant %q", tt.body, got, tt.want)
			}
		})
	}
	t.Run("chunked", func(t *testing.T) {
		if got := raw(t, web, post("10\r\n"+callText[:16]+"\r\n2d\r\n"+callText[16:]+"\r\n0\r\n\r\n", "Transfer-Encoding: chunked")); got != wire(ok, answerText) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a long answerText", func(t *testing.T) {
		text := `"` + strings.Repeat("x", 100_000) + `"`
		want := wire(ok, `{"jsonrpc":"2.0","result":[`+text+`],"id":1}`)
		if got := raw(t, web, post(`{"jsonrpc":"2.0","method":"echo","params":[`+text+`],"id":1}`)); got != want {
			t.Errorf("got %d bytes, want %d", len(got), len(want))
		}
	})
}

// TestRefusalsOnTheWire checks requests that reach no handler.
func TestRefusalsOnTheWire(t *testing.T) {
	web := serve(t, &Server{
		Answerer:     stuck{t},
		ContentTypes: []string{"application/a2a+json"},
		MaxMessage:   1000,
	})
	line := func(method string) string {
		return method + " /rpc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	}
	tests := []struct {
		name, request, want string
		headers             []string
	}{
		{"GET", line("GET"), "405", []string{"Allow: POST"}},
		{"HEAD", line("HEAD"), "405", []string{"Allow: POST"}},
		{"PUT", line("PUT"), "405", []string{"Allow: POST"}},
		{"DELETE", line("DELETE"), "405", []string{"Allow: POST"}},
		{"OPTIONS", line("OPTIONS"), "405", []string{"Allow: POST"}},
		{"PATCH", line("PATCH"), "405", []string{"Allow: POST"}},
		{"TRACE", line("TRACE"), "405", []string{"Allow: POST"}},
		{"a method nobody knows", line("GREET"), "405", []string{"Allow: POST"}},
		{"post in small letters", line("post"), "405", []string{"Allow: POST"}},
		{"GET with a body", "GET /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "405", []string{"Connection: close"}},
		{"text", post(callText, "Content-Type: text/plain"), "415", nil},
		{"a form", post(callText, "Content-Type: application/x-www-form-urlencoded"), "415", nil},
		{"no type", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", "415", nil},
		{"latin-1", post(callText, "Content-Type: application/json; charset=latin1"), "415", nil},
		{"gzip", post(callText, "Content-Encoding: gzip"), "415", []string{"Accept-Encoding: identity"}},
		{"HTML wanted", post(callText, "Accept: text/html"), "406", nil},
		{"JSON excluded", post(callText, "Accept: */*, application/json;q=0, text/event-stream;q=0"), "406", nil},
		{"too long", post(strings.Repeat(" ", 1001)), "413", []string{"Connection: close"}},
		{"too long, expecting", post("", "Expect: 100-continue", "Content-Length: 1001"), "413", []string{"Connection: close"}},
		{"too long, chunked", post("3e9\r\n"+strings.Repeat(" ", 1001)+"\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "413", []string{"Connection: close"}},
		{"a wrong chunk", post("zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), "400", []string{"Connection: close"}},
		{"expecting something else", post(callText, "Expect: wonders"), "417", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := raw(t, web, tt.request)
			head, body, _ := strings.Cut(got, "\r\n\r\n")
			status, headers, _ := strings.Cut(head, "\r\n")
			if !strings.HasPrefix(status, "HTTP/1.1 "+tt.want+" ") {
				t.Fatalf("got %q, want %s", got, tt.want)
			}
			for _, want := range tt.headers {
				if !strings.Contains("\r\n"+headers+"\r\n", "\r\n"+want+"\r\n") {
					t.Errorf("got %q, want %q in it", head, want)
				}
			}
			if tt.want != "417" && !strings.Contains(headers, "Content-Type: text/plain") {
				t.Errorf("got %q, want a plain text", head)
			}
			if strings.Contains(body, "HTTP/1.1 ") {
				t.Errorf("the body was read as a second request: %q", got)
			}
		})
	}
}

// stuck is an Answering that must not be reached.
type stuck struct{ t *testing.T }

func (s stuck) Answer(_ context.Context, dst, payload []byte, _ *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	s.t.Errorf("a handler was reached with %q", payload)
	return dst, nil
}

func TestAccepted(t *testing.T) {
	tests := []struct {
		accept string
		want   acceptance
	}{
		{"application/json", plain},
		{"*/*", plain},
		{"application/*", plain},
		{"application/json, text/*", plain},
		{"application/json, text/event-stream", either},
		{"text/event-stream, application/json", either},
		{"application/json;q=0.9, text/event-stream;q=0.1", either},
		{"text/event-stream, */*", either},
		{"text/event-stream", stream},
		{"text/*", stream},
		{"text/event-stream, application/json;q=0.5", stream},
		{"text/event-stream;q=0, application/json", plain},
		{"text/html", nothing},
		{"application/xml, text/event-stream;q=0", nothing},
	}
	for _, tt := range tests {
		if got := new(Server).accepted([]string{tt.accept}); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.accept, got, tt.want)
		}
	}
	if got := new(Server).accepted(nil); got != plain {
		t.Errorf("no Accept: got %d, want plain", got)
	}
	quiet := &Server{NoStream: true}
	for accept, want := range map[string]acceptance{"text/event-stream": nothing, "application/json, text/event-stream": plain} {
		if got := quiet.accepted([]string{accept}); got != want {
			t.Errorf("NoStream, %s: got %d, want %d", accept, got, want)
		}
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/event-stream\r\n" +
	"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"

// events returns a raw streamed response to a client of HTTP/1.0, which does not support chunks.
func events(data ...string) string {
	all := "HTTP/1.0 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/event-stream\r\n" +
		"X-Accel-Buffering: no\r\nX-Content-Type-Options: nosniff\r\n\r\n"
	for _, d := range data {
		all += "data: " + d + "\n\n"
	}
	return all
}

func TestStreamsOnTheWire(t *testing.T) {
	web := serve(t, Handler(methods()))
	old := func(body, accept string) string {
		return strings.Replace(strings.Replace(post(body, "Accept: "+accept), "HTTP/1.1", "HTTP/1.0", 1), "Connection: close\r\n", "", 1)
	}
	const both = "application/json, text/event-stream"
	plain10 := func(body string) string {
		return strings.Replace(strings.Replace(wire("200 OK", body), "HTTP/1.1", "HTTP/1.0", 1), "Connection: close\r\n", "", 1)
	}
	count := `{"jsonrpc":"2.0","method":"count","params":[2],"id":1}`
	ticks := []string{`{"jsonrpc":"2.0","method":"tick","params":[2]}`, `{"jsonrpc":"2.0","method":"tick","params":[1]}`}
	done := `{"jsonrpc":"2.0","result":"lift-off","id":1}`
	oneWay := `{"jsonrpc":"2.0","result":"one way","id":1}`
	try := `{"jsonrpc":"2.0","method":"try","id":1}`
	tests := []struct{ name, body, accept, want string }{
		{"a handler that notifies", count, both, events(append(ticks, done)...)},
		{"one that does not", callText, both, plain10(answerText)},
		{"a caller that takes none", try, "application/json", plain10(oneWay)},
		{"a caller that takes anything", try, "*/*", plain10(oneWay)},
		{"from the start", callText, "text/event-stream", events(answerText)},
		{"from the start, and notifies", count, "text/event-stream", events(append(ticks, done)...)},
		{"from the start, an error", "[]", "text/event-stream", events(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`)},
		{"preferred", callText, "application/json;q=0.5, text/event-stream", events(answerText)},
		{"a batch", "[" + count + "," + callText + "]", both, events(append(ticks, "["+done+","+answerText+"]")...)},
		{"an id with a line end in it", "{\"jsonrpc\":\"2.0\",\n\"method\":\"echo\",\n\"params\":[1,\n2],\"id\":1}", "text/event-stream",
			events("{\"jsonrpc\":\"2.0\",\"result\":[1,\ndata: 2],\"id\":1}")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := raw(t, web, old(tt.body, tt.accept))
			// net/http knows the length of a stream of one event, and may send it
			if strings.Contains(got, "event-stream") {
				got = regexp.MustCompile(`Content-Length: \d+\r\n`).ReplaceAllString(got, "")
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
	t.Run("a notification has no stream", func(t *testing.T) {
		if got := raw(t, web, post(noteText, "Accept: text/event-stream")); got != wire204 {
			t.Errorf("got %q, want %q", got, wire204)
		}
	})
	t.Run("in chunks", func(t *testing.T) {
		got := raw(t, web, post(callText, "Accept: text/event-stream"))
		want := streamHead + "Transfer-Encoding: chunked\r\n\r\n2c\r\ndata: " + answerText + "\n\n\r\n0\r\n\r\n"
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	t.Run("NoStream", func(t *testing.T) {
		quiet := Handler(methods())
		quiet.NoStream = true
		if got := raw(t, serve(t, quiet), old(try, both)); got != plain10(oneWay) {
			t.Errorf("got %q", got)
		}
	})
}

// TestStreamBeginsAtOnce has a handler that waits until its caller has received the headers of the
// stream, or its first event.
func TestStreamBeginsAtOnce(t *testing.T) {
	for _, tt := range []struct{ accept, want string }{
		{"text/event-stream", "lift-off"},
		{"application/json, text/event-stream", "tick"},
	} {
		seen := make(chan struct{})
		web := serve(t, Handler(jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			if tt.want == "tick" {
				if err := req.Peer().Notify(ctx, "tick", nil); err != nil {
					return nil, err
				}
			}
			<-seen
			return "lift-off", nil
		})))
		req, _ := http.NewRequest("POST", web.URL, strings.NewReader(callText))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", tt.accept)
		got, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(got.Body)
		if tt.want == "tick" {
			if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "tick") {
				t.Errorf("got %q, %v", line, err)
			}
		}
		close(seen)
		if rest, err := io.ReadAll(reader); err != nil || !strings.Contains(string(rest), "lift-off") {
			t.Errorf("got %q, %v", rest, err)
		}
		got.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestStatuses(t *testing.T) {
	s := Handler(methods())
	web := serve(t, s)
	mapped := Handler(methods())
	mapped.Status = func(e *jsonrpc.Error) int {
		if e.Code == jsonrpc.CodeMethodNotFound {
			return http.StatusNotFound
		}
		return 0
	}
	mappedWeb := serve(t, mapped)
	fail := func(code, data string) string {
		return `{"jsonrpc":"2.0","method":"fail","params":[{"code":` + code + `,"message":"no"` + data + `}],"id":1}`
	}
	tests := []struct {
		name   string
		web    *httptest.Server
		body   string
		status int
		header string
	}{
		{"busy", web, fail("-31001", `,"data":{"reason":"busy","retryable":true,"retryAfterMs":2001}`), 429, "3"},
		{"busy without data", web, fail("-31001", ""), 429, "1"},
		{"busy with strange data", web, fail("-31001", `,"data":[]`), 429, "1"},
		{"shutting down", web, fail("-31004", ""), 503, "1"},
		{"no backend", web, fail("-31006", ""), 502, ""},
		{"deadline", web, fail("-31002", ""), 200, ""},
		{"any other", web, fail("-32000", ""), 200, ""},
		{"a panic", web, `{"jsonrpc":"2.0","method":"panic","id":1}`, 200, ""},
		{"mapped", mappedWeb, `{"jsonrpc":"2.0","method":"nobody","id":1}`, 404, ""},
		{"not mapped", mappedWeb, fail("-31001", ""), 429, "1"},
		{"in a batch", mappedWeb, "[" + fail("-31001", "") + "]", 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.web.Client().Post(tt.web.URL, "application/json", strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			body, _ := io.ReadAll(got.Body)
			if got.StatusCode != tt.status || got.Header.Get("Retry-After") != tt.header || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %s %v, want %d, Retry-After %q", got.Status, got.Header, tt.status, tt.header)
			}
			if !strings.Contains(string(body), `"error":{"code":-3`) || strings.Contains(string(body), "secret") {
				t.Errorf("got %s", body)
			}
			if got.Close != (tt.status == 503) {
				t.Errorf("the connection closes: %t", got.Close)
			}
		})
	}
}

func TestDrainIs503(t *testing.T) {
	a := &jsonrpc.Answerer{Handler: methods()}
	web := serve(t, &Server{Answerer: a})
	if err := a.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := raw(t, web, post(callText))
	if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: 1\r\n") || !strings.Contains(got, `"code":-31004`) {
		t.Errorf("got %q", got)
	}
}

func TestZeroServer(t *testing.T) {
	got := raw(t, serve(t, new(Server)), post(callText))
	if want := wire("200 OK", `{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckSeesBoth(t *testing.T) {
	s := Handler(methods())
	s.Check = func(r *http.Request, req *jsonrpc.Request) error {
		if r.Header.Get("X-Method") != req.Method {
			return jsonrpc.NewError(-32020, "header and body differ")
		}
		return nil
	}
	web := serve(t, s)
	if got := raw(t, web, post(callText, "X-Method: subtract")); got != wire("200 OK", answerText) {
		t.Errorf("got %q", got)
	}
	want := wire("200 OK", `{"jsonrpc":"2.0","error":{"code":-32020,"message":"header and body differ"},"id":1}`)
	if got := raw(t, web, post(callText, "X-Method: add")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestHTTP2 runs calls, plain and streamed, over cleartext HTTP/2.
func TestHTTP2(t *testing.T) {
	web := httptest.NewUnstartedServer(Handler(methods()))
	both := new(http.Protocols)
	both.SetUnencryptedHTTP2(true)
	web.Config.Protocols = both
	web.Start()
	defer web.Close()
	transport := &http.Transport{Protocols: both}
	defer transport.CloseIdleConnections()
	for _, accept := range []string{"application/json", "text/event-stream"} {
		req, _ := http.NewRequest("POST", web.URL, strings.NewReader(callText))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", accept)
		got, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(got.Body)
		got.Body.Close()
		if got.Proto != "HTTP/2.0" || got.StatusCode != 200 || !strings.Contains(string(body), answerText) {
			t.Errorf("%s: got %s %s %q", accept, got.Proto, got.Status, body)
		}
	}
}

// TestTwoRequestsOnOneConnection checks that no state of one exchange, in particular no deadline,
// affects the next.
func TestTwoRequestsOnOneConnection(t *testing.T) {
	web := serve(t, Handler(methods()))
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for _, request := range []string{
		post(callText), post(noteText), post(callText, "Accept: text/event-stream"), post(""), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", post(callText),
	} {
		if _, err := io.WriteString(conn, strings.Replace(request, "Connection: close\r\n", "", 1)); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, got.Body); err != nil || got.Close {
			t.Errorf("%q: %v, closed %t", request, err, got.Close)
		}
		got.Body.Close()
	}
}
