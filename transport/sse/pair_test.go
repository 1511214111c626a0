package sse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// conversing serves each stream by a Conn, as a program would.
func conversing(h jsonrpc.Handler) func(context.Context, jsonrpc.Transport, *http.Request) {
	return func(ctx context.Context, t jsonrpc.Transport, _ *http.Request) {
		c := jsonrpc.NewConn(t)
		c.Handler = h
		_ = c.Serve(ctx) // errors of the peer's end are ignored
	}
}

func methods() *jsonrpc.Mux {
	m := new(jsonrpc.Mux)
	m.Add("echo", jsonrpc.Func(func(_ context.Context, in jsonrpc.Raw) (jsonrpc.Raw, error) { return in, nil }))
	m.Add("ask", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, _ struct{}) (string, error) {
		return jsonrpc.Call[string](ctx, p, "answer", nil)
	}))
	return m
}

func start(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web
}

// TestPairOnTheWire runs a whole conversation with only an HTTP client.
func TestPairOnTheWire(t *testing.T) {
	web := start(t, &Pair{Serve: conversing(methods())})
	stream, err := web.Client().Get(web.URL + "/sse?x=y")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if stream.StatusCode != 200 || stream.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %s %v", stream.Status, stream.Header)
	}
	lines := bufio.NewReader(stream.Body)
	next := func() string {
		var event strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if event.WriteString(line); line == "\n" {
				return event.String()
			}
		}
	}
	first := next()
	match := regexp.MustCompile(`^event: endpoint\ndata: (/sse\?sessionId=[0-9a-f]{32})\n\n$`).FindStringSubmatch(first)
	if match == nil {
		t.Fatalf("the first event is %q", first)
	}
	post := func(to, body string) string {
		answer, err := web.Client().Post(web.URL+to, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return fmt.Sprint(answer.StatusCode, " ", string(text))
	}
	for _, tt := range []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}`, `{"jsonrpc":"2.0","result":[1],"id":1}`},
		{`[{"jsonrpc":"2.0","id":2,"method":"echo","params":[2]}]`, `[{"jsonrpc":"2.0","result":[2],"id":2}]`},
		{`nonsense`, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`},
	} {
		if got := post(match[1], tt.body); got != "202 Accepted\n" {
			t.Errorf("%s: got %q, want 202", tt.body, got)
		}
		if got, want := next(), "event: message\ndata: "+tt.want+"\n\n"; got != want {
			t.Errorf("%s: got %q, want %q", tt.body, got, want)
		}
	}
	stream.Body.Close()
	for range 1000 { // the server detects it after a moment
		got := post(match[1], "{}")
		if strings.HasPrefix(got, "404 ") {
			return
		}
	}
	t.Error("the stream is gone, and its address still takes messages")
}

func TestPairRefuses(t *testing.T) {
	p := &Pair{
		Serve:      conversing(methods()),
		MaxMessage: 100,
		Caller:     func(r *http.Request) string { return r.Header.Get("X-Who") },
	}
	web := start(t, p)
	own, err := http.NewRequest("GET", web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	own.Header.Set("X-Who", "me")
	stream, err := web.Client().Do(own)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	e, err := NewReader(stream.Body, 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	endpoint := string(e.Data)
	other := endpoint[:len(endpoint)-1] + string('0'+('1'-endpoint[len(endpoint)-1])&1)
	tests := []struct {
		name, method, to, headers, body string
		want                            int
	}{
		{"no stream named", "POST", "/", "", "{}", 404},
		{"an empty name", "POST", "/?sessionId=", "", "{}", 404},
		{"another name", "POST", other, "", "{}", 404},
		{"two names", "POST", endpoint + "&sessionId=x", "", "{}", 404},
		{"somebody else", "POST", endpoint, "X-Who: you", "{}", 404},
		{"text", "POST", endpoint, "Content-Type: text/plain", "{}", 415},
		{"no stream wanted", "GET", "/", "Accept: application/json", "", 406},
		{"DELETE", "DELETE", endpoint, "", "", 405},
		{"OPTIONS", "OPTIONS", "/", "", "", 405},
		// the conversation is over
		{"too long", "POST", endpoint, "", strings.Repeat(" ", 101), 413},
		{"after the end", "POST", endpoint, "", "{}", 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequest(tt.method, web.URL+tt.to, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Who", "me")
			if name, value, ok := strings.Cut(tt.headers, ": "); ok {
				r.Header.Set(name, value)
			}
			answer, err := web.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != tt.want {
				t.Errorf("got %s, want %d", answer.Status, tt.want)
			}
			if tt.want == 405 && answer.Header.Get("Allow") != "GET, POST" {
				t.Errorf("Allow: %q", answer.Header.Get("Allow"))
			}
		})
	}
	rest, err := io.ReadAll(stream.Body)
	if err != nil || !strings.Contains(string(rest), "-32600") {
		t.Errorf("the stream ended with %q, %v; want a reason", rest, err)
	}
}

func TestPairIsBounded(t *testing.T) {
	for name, p := range map[string]*Pair{
		"in all":     {MaxStreams: 2},
		"per caller": {MaxPerCaller: 2},
	} {
		p.Serve = func(ctx context.Context, _ jsonrpc.Transport, _ *http.Request) { <-ctx.Done() }
		web := start(t, p)
		for i := range 3 {
			answer, err := web.Client().Get(web.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if i < 2 && answer.StatusCode != 200 || i == 2 && (answer.StatusCode != 503 || answer.Header.Get("Retry-After") != "5") {
				t.Errorf("%s: stream %d: %s", name, i, answer.Status)
			}
		}
	}
}

// TestALineThatIsFull has a conversation that reads nothing.
func TestALineThatIsFull(t *testing.T) {
	p := &Pair{WriteTimeout: 50 * time.Millisecond, Serve: func(ctx context.Context, _ jsonrpc.Transport, _ *http.Request) { <-ctx.Done() }}
	web := start(t, p)
	tr, err := Dial(t.Context(), web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	for n := range maxLine + 1 {
		var b jsonrpc.Burst
		b.Add([]byte("{}"))
		err = tr.Write(b)
		if (err != nil) != (n == maxLine) {
			t.Errorf("message %d: %v", n, err)
		}
	}
	if s, ok := errors.AsType[*StatusError](err); !ok || s.Status != 503 || s.Header.Get("Retry-After") != "1" {
		t.Errorf("got %v, want 503", err)
	}
}

func TestEndpointPath(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/cut/", http.StripPrefix("/cut", &Pair{Serve: conversing(methods())}))
	mux.Handle("/set", &Pair{Serve: conversing(methods()), Messages: "/elsewhere"})
	web := start(t, mux)
	for path, want := range map[string]string{"/cut/a%20b": "/cut/a%20b?", "/set": "/elsewhere?"} {
		answer, err := web.Client().Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := NewReader(answer.Body, 0).Next(); err != nil || !strings.HasPrefix(string(e.Data), want) {
			t.Errorf("%s: got %q, %v; want %s", path, e.Data, err, want)
		}
		answer.Body.Close()
	}
	r := httptest.NewRequest("GET", "//evil.example/x", nil)
	if got := new(Pair).endpoint(r, "7"); got != "/evil.example/x?sessionId=7" && got != "/x?sessionId=7" {
		t.Errorf("two slashes: got %s, which is another host", got)
	}
}

// TestBothAsk has both ends call each other at once, over one pair.
func TestBothAsk(t *testing.T) {
	web := start(t, &Pair{Serve: conversing(methods())})
	tr, err := Dial(t.Context(), web.URL, &Options{Token: "x"})
	if err != nil {
		t.Fatal(err)
	}
	c := jsonrpc.NewConn(tr)
	own := new(jsonrpc.Mux)
	own.Add("answer", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return "forty-two", nil }))
	c.Handler = own
	c.Start(t.Context())
	defer c.Close()
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			if got, err := jsonrpc.Call[string](t.Context(), c, "ask", nil); err != nil || got != "forty-two" {
				t.Errorf("got %q, %v", got, err)
			}
			if got, err := jsonrpc.Call[[]int](t.Context(), c, "echo", []int{i}); err != nil || len(got) != 1 || got[0] != i {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	callers.Wait()
}

func TestDialRefuses(t *testing.T) {
	say := func(kind, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, body)
		})
	}
	endpoint := func(at string) http.Handler { return say(ContentType, "event: endpoint\ndata: "+at+"\n\n") }
	bad := func(err error) bool { return errors.Is(err, jsonrpc.ErrBadResponse) }
	tests := []struct {
		name string
		h    http.Handler
		want func(error) bool
	}{
		{"another host", endpoint("http://evil.example/"), bad},
		{"another host by two slashes", endpoint("//evil.example/"), bad},
		{"another port", endpoint("http://127.0.0.1:1/"), bad},
		{"another scheme", endpoint("file:///etc/passwd"), bad},
		{"no address", endpoint("http://[::1"), bad},
		{"a page", say("text/html", "<p>"), bad},
		{"an end", say(ContentType, ": hello\n\n"), bad},
		{"a message first", say(ContentType, "data: {}\n\n"), bad},
		{"unauthorized", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", http.StatusUnauthorized) }),
			func(err error) bool { return errors.Is(err, ErrUnauthorized) }},
		{"a redirect elsewhere", http.RedirectHandler("http://127.0.0.1:1/", http.StatusTemporaryRedirect),
			func(err error) bool { s, ok := errors.AsType[*StatusError](err); return ok && s.Status == 307 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr, err := Dial(t.Context(), start(t, tt.h).URL, nil)
			if !tt.want(err) || tr != nil {
				t.Errorf("got %v, %v", tr, err)
			}
		})
	}
	if _, err := Dial(t.Context(), "ftp://x/", nil); err == nil {
		t.Error("ftp was dialled")
	}
}

// TestDialWaitsNoLonger checks that Dial waits for the endpoint event at most for its timeout, or
// until its context ends.
func TestDialWaitsNoLonger(t *testing.T) {
	asked := make(chan struct{}, 2)
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ContentType)
		_ = http.NewResponseController(w).Flush() // an error shows at the client
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	if _, err := Dial(t.Context(), web.URL, &Options{DialTimeout: 20 * time.Millisecond}); !errors.Is(err, jsonrpc.ErrTimeout) {
		t.Errorf("got %v, want ErrTimeout", err)
	}
	<-asked
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	go func() { <-asked; cancel(why) }()
	if _, err := Dial(ctx, web.URL, nil); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
}

// TestTheStreamOutlivesTheDialling checks that ctx bounds only Dial.
func TestTheStreamOutlivesTheDialling(t *testing.T) {
	web := start(t, &Pair{Serve: conversing(methods())})
	ctx, cancel := context.WithCancel(t.Context())
	tr, err := Dial(ctx, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	cancel()
	var b jsonrpc.Burst
	b.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}`))
	if err := tr.Write(b); err != nil {
		t.Fatal(err)
	}
	if got, _, err := tr.Read(); err != nil || string(got) != `{"jsonrpc":"2.0","result":[1],"id":1}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestMoreIsAPromise checks that more is true only if a message follows.
func TestMoreIsAPromise(t *testing.T) {
	const message, ping = "data: 1\n\n", "event: ping\ndata: x\n\n"
	for stream, want := range map[string][]bool{
		message + message:                {true, false},
		message + ping:                   {false},
		message + ping + message + ping:  {true, false},
		ping + message + ": comment\n\n": {false},
		message + "data: 1":              {false},
	} {
		c := &clientSide{over: make(chan struct{}), ctx: t.Context(), events: NewReader(strings.NewReader(stream), 0)}
		for i, more := range want {
			if _, got, err := c.Read(); err != nil || got != more {
				t.Errorf("%q: message %d: more is %t, %v; want %t", stream, i, got, err, more)
			}
		}
		if _, _, err := c.Read(); err != io.EOF {
			t.Errorf("%q: the end is %v", stream, err)
		}
	}
}

// TestAMessageOverTheLimit checks that the client skips a message over the limit.
func TestAMessageOverTheLimit(t *testing.T) {
	web := start(t, &Pair{Serve: conversing(methods())})
	tr, err := Dial(t.Context(), web.URL, &Options{MaxMessage: 1000})
	if err != nil {
		t.Fatal(err)
	}
	c := jsonrpc.NewConn(tr)
	c.Start(t.Context())
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "echo", []string{strings.Repeat("x", 2000)}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the long one: %v", err)
	}
	if err := c.Call(t.Context(), "echo", []int{1}, nil); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestPostedMessagesCount checks that a posted message counts against the memory of the process
// until the next one is read, or the conversation ends.
func TestPostedMessagesCount(t *testing.T) {
	before := budget.Messages.Used()
	read, done := make(chan int), make(chan int)
	pair := &Pair{Serve: func(_ context.Context, t jsonrpc.Transport, _ *http.Request) {
		for n := range read {
			for range n {
				_, _, _ = t.Read() // the messages do not matter
			}
			done <- n
		}
	}}
	web := start(t, pair)
	stream, err := web.Client().Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	var address string
	for !strings.HasPrefix(address, "data: ") {
		if address, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	const size = 100 << 10
	for range 4 {
		r, err := web.Client().Post(web.URL+strings.TrimSpace(address[len("data: "):]), "application/json", strings.NewReader(strings.Repeat(" ", size)))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	held := func() int64 { return (budget.Messages.Used() - before) / (2 * size) }
	if held() != 4 {
		t.Errorf("%d messages are held, want 4", held())
	}
	read <- 2
	if <-done; held() != 3 {
		t.Errorf("%d messages are held after two were read, want 3", held())
	}
	close(read)
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Fatal(err)
	}
	if held() != 0 {
		t.Errorf("%d messages are held after the end", held())
	}
}
