package httprpc

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// client returns a Client of a server, which is closed before the server.
func client(t *testing.T, web *httptest.Server, o *Options) *Client {
	t.Helper()
	c := NewClient(web.URL, o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// replying returns a server that sends the same response to everybody, with the ID of the call in
// place of ID.
func replying(status int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		id := "none"
		_ = jsonrpc.ScanVersion(jsonrpc.Version1, text, func(m *jsonrpc.Message) { id = m.ID.String() })
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", id))
	})
}

func TestCall(t *testing.T) {
	web := serve(t, Handler(methods()))
	c := client(t, web, nil)
	got, err := jsonrpc.Call[int](t.Context(), c, "subtract", operands{42, 23})
	if err != nil || got != 19 {
		t.Errorf("got %d, %v", got, err)
	}
	if err := c.Call(t.Context(), "subtract", []int{1, 2}, nil); err != nil {
		t.Errorf("a result that nobody wants: %v", err)
	}
	var raw jsonrpc.Raw
	if err := c.Call(t.Context(), "echo", jsonrpc.Raw(`[9007199254740993, "\u0000"]`), &raw); err != nil || string(raw) != `[9007199254740993, "\u0000"]` {
		t.Errorf("got %s, %v", raw, err)
	}
	if err := c.Notify(t.Context(), "update", []int{1}); err != nil {
		t.Error(err)
	}
	err = c.Call(t.Context(), "nobody", nil, nil)
	// not errors.As: a gateway passes it on unchanged
	if e, ok := err.(*jsonrpc.Error); !ok || e.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("got %v, want the peer's error itself", err)
	}
	item := jsonrpc.Item{Method: "subtract", Params: []int{5, 3}, Result: new(int), ID: jsonrpc.StringID("mine")}
	if err := c.Do(t.Context(), &item); err != nil || *item.Result.(*int) != 2 || item.Err != nil {
		t.Errorf("got %v, %v", item, err)
	}
	if err := c.Call(t.Context(), "x", make(chan int), nil); err == nil || strings.Contains(err.Error(), "HTTP") {
		t.Errorf("params that cannot be encoded: %v", err)
	}
}

func TestManyCallers(t *testing.T) {
	web := serve(t, Handler(methods()))
	c := client(t, web, nil)
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			if got, err := jsonrpc.Call[int](t.Context(), c, "subtract", operands{i, 1}); err != nil || got != i-1 {
				t.Errorf("%d: got %d, %v", i, got, err)
			}
		})
	}
	callers.Wait()
}

func TestStream(t *testing.T) {
	web := serve(t, Handler(methods()))
	c := client(t, web, nil)
	for range 3 { // the connection is used again
		var ticks []string
		var result string
		err := c.Stream(t.Context(), "count", []int{3}, &result, func(req *jsonrpc.Request) error {
			if !req.IsNotification() {
				t.Error("it has an id")
			}
			ticks = append(ticks, req.Method+string(req.Params))
			return nil
		})
		if err != nil || result != "lift-off" || !slices.Equal(ticks, []string{"tick[3]", "tick[2]", "tick[1]"}) {
			t.Errorf("got %v, %q, %v", ticks, result, err)
		}
	}
	enough := errors.New("enough")
	err := c.Stream(t.Context(), "count", []int{1000}, nil, func(*jsonrpc.Request) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v, want the error of on", err)
	}
	if err := c.Stream(t.Context(), "fail", []jsonrpc.Error{{Code: 7, Message: "no"}}, nil, nil); !errors.Is(err, jsonrpc.NewError(7, "")) {
		t.Errorf("got %v, want the peer's error", err)
	}
}

// TestStrangeAnswers checks what other programs send in place of a response.
func TestStrangeAnswers(t *testing.T) {
	const json, events = "application/json", "text/event-stream"
	peers := func(code int64) func(error) bool {
		return func(err error) bool { return isPeers(err) && errors.Is(err, jsonrpc.NewError(code, "")) }
	}
	bad := func(err error) bool { return errors.Is(err, jsonrpc.ErrBadResponse) && !isPeers(err) }
	status := func(code int) func(error) bool {
		return func(err error) bool {
			s, ok := errors.AsType[*StatusError](err)
			return ok && s.Status == code
		}
	}
	fine := func(err error) bool { return err == nil }
	const result = `{"jsonrpc":"2.0","id":ID,"result":1}`
	const failure = `{"jsonrpc":"2.0","id":ID,"error":{"code":7,"message":"no"}}`
	const nameless = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`
	tests := []struct {
		name   string
		status int
		kind   string
		body   string
		want   func(error) bool
	}{
		{"plain", 200, json, result, fine},
		{"charset", 200, "application/json; charset=utf-8", result, fine},
		{"its own type", 200, "application/a2a+json", result, fine},
		{"an old type", 200, "application/json-rpc", result, fine},
		{"created", 201, json, result, fine},
		{"white space", 200, json, "\n" + result + "\n", fine},
		{"a batch of one", 200, json, "[" + result + "]", fine},
		{"events", 200, events, "data: " + result + "\n\n", fine},
		{"events of other types", 200, events, ": hi\n\nevent: ping\ndata: {}\n\ndata:\n\nevent: message\nid: 7\ndata: " + result + "\n\n", fine},
		{"events, and no end", 200, events, "data: " + result + "\n\ndata: {\"jsonrpc\"", fine},
		{"an error", 200, json, failure, peers(7)},
		{"an error with a status", 404, json, failure, peers(7)},
		{"an error with another status", 500, json, failure, peers(7)},
		{"an error without an id", 400, json, nameless, peers(-32700)},
		{"an error as event", 200, events, "data: " + failure + "\n\n", peers(7)},
		{"another id", 200, json, `{"jsonrpc":"2.0","id":"ID","result":1}`, bad},
		{"the id as a fraction", 200, json, `{"jsonrpc":"2.0","id":ID.0,"result":1}`, bad},
		{"no id", 200, json, `{"jsonrpc":"2.0","result":1}`, bad},
		{"null id", 200, json, `{"jsonrpc":"2.0","id":null,"result":1}`, bad},
		{"no version", 200, json, `{"id":ID,"result":1}`, bad},
		{"both", 200, json, `{"jsonrpc":"2.0","id":ID,"result":1,"error":null}`, bad},
		{"neither", 200, json, `{"jsonrpc":"2.0","id":ID}`, bad},
		{"an error that is none", 200, json, `{"jsonrpc":"2.0","id":ID,"error":"no"}`, bad},
		{"a request", 200, json, `{"jsonrpc":"2.0","id":ID,"method":"x"}`, bad},
		{"cut JSON", 200, json, `{"jsonrpc":"2.0","id":ID`, bad},
		{"an empty object", 200, json, `{}`, bad},
		{"an empty batch", 200, json, `[]`, bad},
		{"nothing", 200, json, ``, bad},
		{"nothing at all", 204, "", ``, bad},
		{"accepted", 202, "", ``, bad},
		{"a page", 200, "text/html; charset=utf-8", "<h1>Welcome</h1>", bad},
		{"JSON said to be text", 200, "text/plain", result, bad},
		{"a type that is none", 200, "json", result, bad},
		{"a stream without an answer", 200, events, ": bye\n\n", bad},
		{"a stream of something else", 200, events, "data: hello\n\n", bad},
		{"unauthorized", 401, "text/plain", "who are you?", status(401)},
		{"unauthorized in JSON", 401, json, `{"error":"who are you?"}`, status(401)},
		{"unauthorized in JSON-RPC", 401, json, failure, status(401)},
		{"forbidden", 403, "text/plain", "no", status(403)},
		{"not found", 404, "text/html", "<h1>404</h1>", status(404)},
		{"an error in other JSON", 500, json, `{"detail":"oops"}`, status(500)},
		{"events with a status", 503, events, "data: " + failure + "\n\n", status(503)},
		{"a redirect to nowhere", 304, "", "", status(304)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, serve(t, replying(tt.status, tt.kind, tt.body)), nil)
			var got int
			err := c.Call(t.Context(), "x", nil, &got)
			if !tt.want(err) || err == nil && got != 1 {
				t.Errorf("got %d, %v (%T)", got, err, err)
			}
		})
	}
}

// TestIDsInOtherLetters checks that the same string in a different JSON spelling is the same ID for
// a caller.
func TestIDsInOtherLetters(t *testing.T) {
	for _, tt := range []struct{ sent, came string }{
		{`"ä🌍"`, `"\u00e4\ud83c\udf0d"`},
		{`"\u0031"`, `"1"`},
		{`"a/b"`, `"a\/b"`},
	} {
		id, err := jsonrpc.ParseID([]byte(tt.sent))
		if err != nil {
			t.Fatal(err)
		}
		body := `{"jsonrpc":"2.0","id":` + tt.came + `,"result":1}`
		c := client(t, serve(t, replying(200, "application/json", body)), nil)
		if err := c.Do(t.Context(), &jsonrpc.Item{Method: "x", ID: id}); err != nil {
			t.Errorf("%s: %v", tt.sent, err)
		}
		items := []jsonrpc.Item{{Method: "x", ID: id}}
		if err := c.Batch(t.Context(), items); err != nil || items[0].Err != nil {
			t.Errorf("%s in a batch: %v, %v", tt.sent, err, items[0].Err)
		}
	}
}

func TestStatusError(t *testing.T) {
	c := client(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, strings.Repeat("x", 5000), http.StatusUnauthorized)
	})), nil)
	err := c.Call(t.Context(), "x", nil, nil)
	s, ok := errors.AsType[*StatusError](err)
	if !ok || !errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrForbidden) || len(s.Body) != 1024 || s.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("got %#v", err)
	}
	if text := err.Error(); len(text) > 120 || !strings.HasPrefix(text, "HTTP 401 Unauthorized: ") {
		t.Errorf("got %q", text)
	}
	inside := client(t, serve(t, replying(403, "application/json", `{"jsonrpc":"2.0","id":ID,"error":{"code":7,"message":"no"}}`)), nil)
	err = inside.Call(t.Context(), "x", nil, nil)
	if !errors.Is(err, ErrForbidden) || !errors.Is(err, jsonrpc.NewError(7, "")) {
		t.Errorf("got %v, want both", err)
	}
	if _, ok := err.(*jsonrpc.Error); ok { // it is about the client's credentials, not the caller's
		t.Error("the error of our credentials would be passed on")
	}
}

func TestNotifyAnswers(t *testing.T) {
	tests := []struct {
		name   string
		status int
		kind   string
		body   string
		fine   bool
	}{
		{"no content", 204, "", "", true},
		{"accepted", 202, "", "", true},
		{"an empty body", 200, "application/json", "", true},
		{"a page", 200, "text/html", "<p>", true},
		{"a result", 200, "application/json", `{"jsonrpc":"2.0","id":null,"result":1}`, true},
		{"a stream", 200, "text/event-stream", "data: x\n\n", true},
		{"an error", 200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, false},
		{"a status", 500, "text/plain", "oops", false},
		{"a status and JSON", 500, "application/json", `{"detail":"oops"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := client(t, serve(t, replying(tt.status, tt.kind, tt.body)), nil)
			if err := c.Notify(t.Context(), "x", nil); (err == nil) != tt.fine {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRequestsOnTheWire(t *testing.T) {
	var heads []string
	var bodies []string
	web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		for _, name := range []string{"Content-Type", "Accept", "Accept-Encoding", "Authorization", "X-Mine", "Mcp-Method"} {
			if value := r.Header.Get(name); value != "" {
				heads = append(heads, name+": "+value)
			}
		}
		w.WriteHeader(204)
	}))
	c := client(t, web, &Options{
		Token:  "secret",
		Header: http.Header{"X-Mine": {"1"}},
		Headers: func(req *jsonrpc.Request) http.Header {
			return http.Header{"Mcp-Method": {req.Method + string(req.Params)}}
		},
	})
	if err := c.Notify(t.Context(), "update", operands{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), []byte("{nonsense"), nil); err != nil {
		t.Fatal(err)
	}
	wantHeads := []string{
		"Content-Type: application/json", "Accept: application/json, text/event-stream", "Accept-Encoding: identity", "Authorization: Bearer secret", "X-Mine: 1",
		`Mcp-Method: update{"minuend":1,"subtrahend":2}`,
		"Content-Type: application/json", "Accept: application/json, text/event-stream", "Accept-Encoding: identity", "Authorization: Bearer secret", "X-Mine: 1",
	}
	if !slices.Equal(heads, wantHeads) {
		t.Errorf("headers:\ngot  %q\nwant %q", heads, wantHeads)
	}
	if want := []string{`{"jsonrpc":"2.0","method":"update","params":{"minuend":1,"subtrahend":2}}`, "{nonsense"}; !slices.Equal(bodies, want) {
		t.Errorf("bodies:\ngot  %q\nwant %q", bodies, want)
	}
}

func TestSend(t *testing.T) {
	web := serve(t, Handler(methods()))
	c := client(t, web, nil)
	send := func(payload string) (all []string) {
		if err := c.Send(t.Context(), []byte(payload), func(p []byte) error { all = append(all, string(p)); return nil }); err != nil {
			t.Error(err)
		}
		return all
	}
	for payload, want := range map[string][]string{
		callText: {answerText},
		"nope":   {`{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`},
		noteText: nil,
		`{"jsonrpc":"2.0","method":"count","params":[1],"id":1}`: {
			`{"jsonrpc":"2.0","method":"tick","params":[1]}`, `{"jsonrpc":"2.0","result":"lift-off","id":1}`},
	} {
		if got := send(payload); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", payload, got, want)
		}
	}
	broken := client(t, serve(t, replying(500, "application/json", `{"detail":"oops"}`)), nil)
	var got string
	err := broken.Send(t.Context(), []byte("{}"), func(p []byte) error { got = string(p); return nil })
	if s, ok := errors.AsType[*StatusError](err); !ok || s.Status != 500 || got != `{"detail":"oops"}` {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestVersion1(t *testing.T) {
	web := serve(t, &Server{Answerer: &jsonrpc.Answerer{Handler: methods(), Version: jsonrpc.Version1}})
	var bodies []string
	c := client(t, web, &Options{Version: jsonrpc.Version1, Tap: func(out bool, payload []byte) { bodies = append(bodies, string(payload)) }})
	if got, err := jsonrpc.Call[int](t.Context(), c, "subtract", []int{42, 23}); err != nil || got != 19 {
		t.Errorf("got %d, %v", got, err)
	}
	if err := c.Notify(t.Context(), "update", []int{1}); err != nil {
		t.Error(err)
	}
	items := []jsonrpc.Item{{Method: "subtract", Params: []int{2, 1}, Result: new(int)}}
	if err := c.Batch(t.Context(), items); err != nil || items[0].Err != nil || *items[0].Result.(*int) != 1 {
		t.Errorf("got %v, %v", items, err)
	}
	for _, body := range bodies {
		if strings.Contains(body, "jsonrpc") || strings.HasPrefix(body, "[") {
			t.Errorf("this is not 1.0: %s", body)
		}
	}
	if len(bodies) != 5 {
		t.Errorf("got %q, want 5 payloads", bodies)
	}
}

func TestAnswerOverTheLimit(t *testing.T) {
	long := `{"jsonrpc":"2.0","id":ID,"result":"` + strings.Repeat("x", 2000) + `"}`
	for _, kind := range []string{"application/json", "text/event-stream"} {
		body := long
		if kind == "text/event-stream" {
			body = "data: " + long + "\n\n"
		}
		web := serve(t, replying(200, kind, body))
		if err := client(t, web, &Options{MaxMessage: 1000}).Call(t.Context(), "x", nil, nil); !errors.Is(err, jsonrpc.ErrTooLarge) {
			t.Errorf("%s: got %v, want ErrTooLarge", kind, err)
		}
		if err := client(t, web, nil).Call(t.Context(), "x", nil, nil); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestInflatedAnswers checks that bytes are counted after decompression, and that compression is
// not requested by default.
func TestInflatedAnswers(t *testing.T) {
	var asked atomic.Value
	web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Accept-Encoding"))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		for range 4 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	}))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	bomb := client(t, web, &Options{HTTP: &http.Client{Transport: transport}, Compress: true, MaxMessage: 1 << 20})
	if err := bomb.Call(t.Context(), "x", nil, nil); !errors.Is(err, jsonrpc.ErrTooLarge) || asked.Load() != "gzip" {
		t.Errorf("got %v, asked for %v", err, asked.Load())
	}
	if err := client(t, web, nil).Call(t.Context(), "x", nil, nil); !errors.Is(err, jsonrpc.ErrBadResponse) || asked.Load() != "identity" {
		t.Errorf("got %v, asked for %v; want a bad answer, since it is coded although nobody asked", err, asked.Load())
	}
}

func TestRedirects(t *testing.T) {
	target := Handler(methods())
	elsewhere := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the call went to another origin") }))
	for _, tt := range []struct {
		status int
		to     string
		fine   bool
	}{
		{307, "/rpc", true},
		{308, "/rpc", true},
		{301, "/rpc", false},
		{302, "/rpc", false},
		{303, "/rpc", false},
		{307, elsewhere.URL, false},
		{307, "/loop", false},
	} {
		mux := http.NewServeMux()
		mux.Handle("POST /rpc", target)
		mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, tt.to, tt.status) })
		mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", tt.status) })
		c := client(t, serve(t, mux), &Options{Token: "secret"})
		got, err := jsonrpc.Call[int](t.Context(), c, "subtract", []int{42, 23})
		s, refused := errors.AsType[*StatusError](err)
		if tt.fine && (err != nil || got != 19) || !tt.fine && (!refused || s.Status != tt.status) {
			t.Errorf("%d to %s: got %d, %v", tt.status, tt.to, got, err)
		}
	}
}

func TestBadAddress(t *testing.T) {
	for _, address := range []string{"", "localhost:3000", "ftp://localhost/", "http://", "http://user:pass word@[::1", "http://host:port/"} {
		c := NewClient(address, nil)
		for _, err := range []error{
			c.Call(t.Context(), "x", nil, nil),
			c.Notify(t.Context(), "x", nil),
			c.Batch(t.Context(), []jsonrpc.Item{{Method: "x"}}),
			c.Send(t.Context(), nil, nil),
		} {
			if err == nil || strings.Contains(err.Error(), "pass word") {
				t.Errorf("%q: got %v", address, err)
			}
		}
	}
	if err := NewClient("http://127.0.0.1:1/", nil).Call(t.Context(), "x", nil, nil); err == nil || isPeers(err) {
		t.Errorf("nobody listens: got %v", err)
	}
}

// TestTapSeesEverything compares both directions with each other.
func TestTapSeesEverything(t *testing.T) {
	web := serve(t, Handler(methods()))
	var got []string
	c := client(t, web, &Options{Tap: func(out bool, payload []byte) { got = append(got, fmt.Sprint(out, " ", string(payload))) }})
	if err := c.Call(t.Context(), "count", []int{1}, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`true {"jsonrpc":"2.0","method":"count","params":[1],"id":1}`,
		`false {"jsonrpc":"2.0","method":"tick","params":[1]}`,
		`false {"jsonrpc":"2.0","result":"lift-off","id":1}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
