package parley

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestEveryScheme tests one client with one server on each transport: a call, a batch, a stream, a
// call from the server, a cancel.
func TestEveryScheme(t *testing.T) {
	files := newCertFiles(t)
	waiting := make(chan struct{}, 1)
	mux := testMux(waiting)
	var seen sync.Map // the payloads of the server's tap
	l := &Listener{Handler: mux, Mode: mux.Mode, TLS: files.server(t), Tap: func(f Frame) { seen.Store(fmt.Sprint(f.Out, string(f.Payload)), f.Time) }}
	s := serve(t, l,
		"http://127.0.0.1:0", "https://127.0.0.1:0/deep/path", "ws://127.0.0.1:0", "wss://127.0.0.1:0",
		"tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header", "tls://127.0.0.1:0", "unix:"+filepath.Join(t.TempDir(), "s"),
		"sse+http://127.0.0.1:0", "sse+https://127.0.0.1:0/x", "http://127.0.0.1:0?jsonrpc=1.0", "tcp://127.0.0.1:0?jsonrpc=1.0",
	)
	targets := s.Targets()
	for _, scheme := range []string{"ws", "wss"} { // an HTTP address accepts WebSocket too
		t := targets[slices.IndexFunc(targets, func(t Target) bool { return t.Scheme == "http"+strings.TrimPrefix(scheme, "ws") })]
		t.Scheme = scheme
		targets = append(targets, t)
	}
	bare := targets[0]
	bare.Path = "" // many programs are configured with an address without a path
	targets = append(targets, bare)

	for _, target := range targets {
		t.Run(target.String(), func(t *testing.T) {
			back := new(jsonrpc.Mux)
			back.Add("answer", jsonrpc.Func(func(_ context.Context, in question) (string, error) {
				return in.Question + "!", nil
			}))
			var frames sync.Map
			seen.Clear()
			answered := false
			c := dial(t, &Dialer{TLS: files.client(), Back: back, Tap: func(f Frame) { frames.Store(f.Out, string(f.Payload)) }}, target)
			if got, err := jsonrpc.Call[int](t.Context(), c, "add", []int{1, 2, 39}); got != 42 || err != nil {
				t.Errorf("add = %d, %v", got, err)
			}
			if in, _ := frames.Load(false); in == nil || !strings.Contains(in.(string), "42") {
				t.Errorf("the tap saw %v coming", in)
			}
			if out, _ := frames.Load(true); out == nil || !strings.Contains(out.(string), `"add"`) {
				t.Errorf("the tap saw %v going", out)
			}
			if _, err := jsonrpc.Call[int](t.Context(), c, "nope", nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
				t.Errorf("nope = %v", err)
			}
			seen.Range(func(key, _ any) bool {
				if strings.HasPrefix(key.(string), "true") && strings.Contains(key.(string), "42") {
					answered = true
				}
				return true
			})
			if !answered {
				t.Error("the server's tap saw no answer")
			}
			if err := c.Notify(t.Context(), "nope", nil); err != nil {
				t.Errorf("Notify = %v", err)
			}
			// JSON-RPC 1.0 has no batches and no named params
			if target.Version != jsonrpc.Version1 {
				testStream(t, c)
				testBatch(t, c)
				testAsk(t, c)
			}
			testCancel(t, c, waiting)
		})
	}
}

func testStream(t *testing.T, c *Client) {
	var ticks []string
	var end string
	err := c.Stream(t.Context(), "count", nil, &end, func(req *jsonrpc.Request) error {
		ticks = append(ticks, req.Method)
		return nil
	})
	if end != "done" || err != nil || len(ticks) != 3 {
		t.Errorf("count = %q, %v after %q", end, err, ticks)
	}
}

func testBatch(t *testing.T, c *Client) {
	var sum int
	items := []jsonrpc.Item{
		{Method: "add", Params: []int{1, 1}, Result: &sum},
		{Method: "nope"},
		{Method: "nope", Notify: true},
	}
	if err := c.Batch(t.Context(), items); err != nil || sum != 2 || items[0].Err != nil || !errors.Is(items[1].Err, jsonrpc.ErrMethodNotFound) || items[2].Err != nil {
		t.Errorf("Batch = %v, sum %d, %v", err, sum, items)
	}
}

func testAsk(t *testing.T, c *Client) {
	got, err := jsonrpc.Call[string](t.Context(), c, "ask", map[string]string{"question": "tea"})
	if strings.HasPrefix(c.Target.Scheme, "http") {
		if !errors.Is(err, jsonrpc.ErrInternal) {
			t.Errorf("ask over POST = %q, %v, want an internal error", got, err)
		}
		return
	}
	if got != "tea!" || err != nil {
		t.Errorf("ask = %q, %v", got, err)
	}
}

func testCancel(t *testing.T, c *Client, waiting <-chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-waiting
		cancel()
	}()
	if err := c.Call(ctx, "wait", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call = %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	taken := serve(t, &Listener{}, "tcp://127.0.0.1:0", "unix:"+filepath.Join(t.TempDir(), "s")).Targets()
	refused := func(err error) bool { _, ok := errors.AsType[*RefusedError](err); return ok }
	unknown := func(err error) bool { _, ok := errors.AsType[*TargetError](err); return ok }
	inUse := func(err error) bool { return errors.Is(err, ErrAddressInUse) }
	for _, c := range []struct {
		target string
		is     func(error) bool
		l      Listener
	}{
		{"tcp://0.0.0.0:0", refused, Listener{}},
		{"http://0.0.0.0:0", refused, Listener{}},
		{"http://[::]:0", refused, Listener{}},
		{"ws://192.0.2.1:0", refused, Listener{}},
		{"https://127.0.0.1:0", refused, Listener{}},
		{"tls://127.0.0.1:0", refused, Listener{}},
		{"http://127.0.0.1:0/rpc?x=1", refused, Listener{}},
		{"nats://127.0.0.1:0", unknown, Listener{}},
		{"gopher://127.0.0.1:0", unknown, Listener{}},
		{taken[0].String(), inUse, Listener{}},
		{"http://" + taken[0].Address, inUse, Listener{}},
		{taken[1].String(), inUse, Listener{}},
	} {
		s, err := listen(t, &c.l, "tcp://127.0.0.1:0", c.target)
		if err == nil {
			_ = s.Close()
		}
		if !c.is(err) {
			t.Errorf("Listen(%s) = %v", c.target, err)
		}
	}
}

func TestListenWithATokenLetsOthersIn(t *testing.T) {
	for _, l := range []*Listener{{Tokens: []string{"secret"}}, {InsecureNoAuth: true}} {
		s, err := listen(t, l, "tcp://0.0.0.0:0", "http://0.0.0.0:0")
		if err != nil {
			t.Errorf("Listen = %v", err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
}

func TestTokens(t *testing.T) {
	files := newCertFiles(t)
	mux := testMux(nil)
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, TLS: files.server(t), Tokens: []string{"right", "also right"}},
		"http://127.0.0.1:0", "ws://127.0.0.1:0", "tcp://127.0.0.1:0", "tls://127.0.0.1:0", "unix:"+filepath.Join(t.TempDir(), "s"))
	for _, target := range s.Targets() {
		for _, token := range []string{"right", "also right", "wrong", ""} {
			t.Run(target.Scheme+" "+token, func(t *testing.T) {
				got, err := callOnce(t, &Dialer{Token: token, TLS: files.client()}, target)
				if strings.HasSuffix(token, "right") || target.Scheme == "unix" {
					if got != 42 || err != nil {
						t.Errorf("add = %d, %v", got, err)
					}
				} else if err == nil || got != 0 {
					t.Errorf("add with the token %q = %d, want an error", token, got)
				}
			})
		}
	}
}

func callOnce(t *testing.T, d *Dialer, target Target) (int, error) {
	c, err := d.Dial(t.Context(), target)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return jsonrpc.Call[int](t.Context(), c, "add", []int{40, 2})
}

// TestTokenOnAStream checks the bytes on the wire: the responses before a token is sent, and that
// the third attempt is the last.
func TestTokenOnAStream(t *testing.T) {
	mux := testMux(nil)
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, Tokens: []string{"right"}}, "tcp://127.0.0.1:0")
	transport, err := new(Dialer).Open(t.Context(), s.Targets()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	for i, call := range []string{`"add","params":[1]`, `"rpc.authenticate","params":{"token":"wrong"}`, `"rpc.discover"`} {
		var b jsonrpc.Burst
		b.Add(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%s}`, i, call))
		if err := transport.Write(b); err != nil {
			t.Fatal(err)
		}
		payload, _, err := transport.Read()
		if err != nil || !strings.Contains(string(payload), `"code":-31005`) {
			t.Errorf("before a token was shown: %s, %v", payload, err)
		}
	}
	start := time.Now()
	if payload, _, err := transport.Read(); err == nil || time.Since(start) > authTime/2 {
		t.Errorf("after three trials comes %s, %v after %v, want the end at once", payload, err, time.Since(start))
	}
}

func TestShutdownLetsCallsFinish(t *testing.T) {
	for _, target := range []string{"http://127.0.0.1:0", "ws://127.0.0.1:0", "tcp://127.0.0.1:0", "sse+http://127.0.0.1:0"} {
		t.Run(target, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			mux := new(jsonrpc.Mux)
			mux.Add("slow", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
				close(entered)
				<-leave
				return "done", nil
			}))
			s := serve(t, &Listener{Handler: mux}, target)
			c := dial(t, &Dialer{}, s.Targets()[0])
			answers := make(chan error, 1)
			go func() {
				got, err := jsonrpc.Call[string](context.Background(), c, "slow", nil)
				if got != "done" && err == nil {
					err = fmt.Errorf("slow = %q", got)
				}
				answers <- err
			}()
			<-entered
			stopped := make(chan error, 1)
			go func() { stopped <- s.Shutdown(context.Background()) }()
			waitRefused(t, s.Targets()[0])
			// A later call is rejected, or cannot even be sent, as over the pair of HTTP+SSE, where
			// it needs its own connection. It does not affect the running call.
			late := make(chan error, 1)
			go func() { late <- c.Call(context.Background(), "late", nil, nil) }()
			select {
			case err := <-late:
				if err == nil {
					t.Error("a call after Shutdown has begun is answered")
				}
				late <- err
			case <-time.After(50 * time.Millisecond): // it waits for the end of the stream
			}
			close(leave)
			if err := <-answers; err != nil {
				t.Errorf("a call that was running at Shutdown: %v", err)
			}
			<-late
			if err := <-stopped; err != nil {
				t.Errorf("Shutdown = %v", err)
			}
		})
	}
}

// waitRefused waits until connections to target are rejected.
func waitRefused(t *testing.T, target Target) {
	t.Helper()
	for deadline := time.Now().Add(testTime); time.Now().Before(deadline); {
		if _, err := callOnce(t, &Dialer{}, target); err != nil && !isAnswer(err) {
			return
		}
	}
	t.Fatal("the server still takes connections")
}

func isAnswer(err error) bool { _, ok := errors.AsType[*jsonrpc.Error](err); return ok }

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	for _, target := range []string{"http://127.0.0.1:0", "ws://127.0.0.1:0", "tcp://127.0.0.1:0"} {
		t.Run(target, func(t *testing.T) {
			waiting := make(chan struct{}, 1)
			s := serve(t, &Listener{Handler: testMux(waiting)}, target)
			c := dial(t, &Dialer{}, s.Targets()[0])
			answers := make(chan error, 1)
			go func() { answers <- c.Call(context.Background(), "wait", nil, nil) }()
			<-waiting
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Shutdown = %v, want context.Canceled", err)
			}
			if err := <-answers; !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeShuttingDown}) {
				t.Errorf("a call that was cut off = %v, want -31004", err)
			}
		})
	}
}

// TestConnectionsAreBounded checks that a connection above the limit is rejected with a reason, and
// that a released place can be taken.
func TestConnectionsAreBounded(t *testing.T) {
	s := serve(t, &Listener{Handler: testMux(nil), MaxConns: 1}, "tcp://127.0.0.1:0", "http://127.0.0.1:0")
	for _, target := range s.Targets() {
		t.Run(target.Scheme, func(t *testing.T) {
			if target.Scheme == "http" {
				target.Scheme = "ws" // a WebSocket holds its connection
			}
			first := dial(t, &Dialer{}, target)
			if _, err := jsonrpc.Call[int](t.Context(), first, "add", []int{1}); err != nil {
				t.Fatal(err)
			}
			if got, err := callOnce(t, &Dialer{}, target); err == nil {
				t.Errorf("the second connection = %d, want an error", got)
			}
			if target.Scheme == "ws" {
				target.Scheme = "http"
				if got, err := callOnce(t, &Dialer{}, target); err == nil || !strings.Contains(err.Error(), "503") {
					t.Errorf("a POST beside the only connection = %d, %v, want 503", got, err)
				}
				target.Scheme = "ws"
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(testTime); ; {
				if _, err := callOnce(t, &Dialer{}, target); err == nil {
					break
				} else if time.Now().After(deadline) {
					t.Fatalf("the place is not given back: %v", err)
				}
			}
		})
	}
}

// TestGateIsShared checks that requests that run over one transport count on the others.
func TestGateIsShared(t *testing.T) {
	waiting := make(chan struct{}, 1)
	mux := testMux(waiting)
	s := serve(t, &Listener{Handler: mux, Mode: mux.Mode, Gate: &jsonrpc.Gate{Max: 1}}, "tcp://127.0.0.1:0", "http://127.0.0.1:0", "ws://127.0.0.1:0")
	first := dial(t, &Dialer{}, s.Targets()[0])
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Call(ctx, "wait", nil, nil) }()
	<-waiting
	busy := &jsonrpc.Error{Code: jsonrpc.CodeBusy}
	for _, target := range s.Targets()[1:] {
		if got, err := callOnce(t, &Dialer{}, target); !errors.Is(err, busy) {
			t.Errorf("a call over %s = %d, %v, want busy", target.Scheme, got, err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call = %v", err)
	}
	for deadline := time.Now().Add(testTime); ; { // the handler ends shortly after its caller
		if _, err := callOnce(t, &Dialer{}, s.Targets()[1]); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the gate stays shut: %v", err)
		}
	}
}

func TestAllowLists(t *testing.T) {
	s := serve(t, &Listener{Handler: testMux(nil), AllowHost: []string{"rpc.example"}, AllowOrigin: []string{"https://app.example"}}, "http://127.0.0.1:0")
	port := s.Targets()[0].Address[strings.LastIndexByte(s.Targets()[0].Address, ':'):]
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"rpc.example" + port, "", 200},
		{"rpc.example:1", "", 403},
		{"localhost" + port, "", 200},
		{"other.example" + port, "", 403},
		{"localhost" + port, "https://app.example", 200},
		{"localhost" + port, "https://app.example.evil", 403},
		{"localhost" + port, "http://app.example", 403},
		{"localhost" + port, "http://localhost" + port, 200},
		{"localhost" + port, "null", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.Targets()[0].Address+"/rpc", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		req.Header.Set("Content-Type", "application/json")
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		if status, body := roundTrip(t, req); status != c.status {
			t.Errorf("Host %s, Origin %s: %d %q, want %d", c.host, c.origin, status, body, c.status)
		}
	}
}

func TestWebRoutes(t *testing.T) {
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })
	s := serve(t, &Listener{Handler: testMux(nil), Pages: pages, Tokens: []string{"right"}}, "http://127.0.0.1:0")
	root := "http://" + s.Targets()[0].Address
	for _, c := range []struct {
		method, path, header, value string
		status                      int
		body                        string
	}{
		{"GET", "/healthz", "", "", 200, "ok"},
		{"POST", "/healthz", "", "", 401, ""},
		{"GET", "/", "", "", 200, "page /"},
		{"GET", "/style.css", "", "", 200, "page /style.css"},
		{"GET", "/rpc", "", "", 401, ""},
		{"GET", "/rpc", "Authorization", "Bearer right", 405, ""},
		{"POST", "/", "", "", 401, ""},
		{"POST", "/rpc", "", "", 401, ""},
		{"POST", "/rpc", "Authorization", "Bearer wrong", 401, ""},
		{"POST", "/rpc", "Authorization", "Bearer right", 200, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}`},
		{"GET", "/", "Host", "evil.example", 403, ""},
		{"GET", "/healthz", "Host", "evil.example", 403, ""},
		{"GET", "/", "Origin", "http://evil.example", 403, ""},
		{"POST", "/rpc", "Origin", "null", 403, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, root+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header == "Host" {
			req.Host = c.value
		} else if c.header != "" {
			req.Header.Set(c.header, c.value)
		}
		status, body := roundTrip(t, req)
		if status != c.status || c.body != "" && body != c.body && !sameMembers(body, c.body) {
			t.Errorf("%s %s with %s: %s = %d %q, want %d %q", c.method, c.path, c.header, c.value, status, body, c.status, c.body)
		}
	}
}
