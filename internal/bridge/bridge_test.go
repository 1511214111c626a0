//go:build unix

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// every has each kind of address that clients can use in a test.
func every(t *testing.T, f func(t *testing.T, from string)) {
	for _, from := range []string{"tcp://127.0.0.1:0", "ws://127.0.0.1:0", "http://127.0.0.1:0"} {
		t.Run(from[:strings.Index(from, ":")], func(t *testing.T) { f(t, from) })
	}
}

// TestValues checks that params, results, errors and IDs pass unchanged.
func TestValues(t *testing.T) {
	every(t, func(t *testing.T, from string) {
		c := dial(t, nil, bridgeTo(t, bridge.Options{}, from))
		for _, text := range []string{`[]`, `{"a":1.0,"b":9007199254740993,"c":"\u00e4\ud83d\ude00","a ":null}`, `[[],{}, 1e400]`} {
			var got jsonrpc.Raw
			if err := c.Call(t.Context(), "echo", jsonrpc.Raw(text), &got); err != nil || string(got) != text {
				t.Errorf("echo of %s = %s, %v", text, got, err)
			}
		}
		if got := call[jsonrpc.Raw](t, c, "echo", nil); string(got) != "null" {
			t.Errorf("echo of nothing = %s", got)
		}
		err := c.Call(t.Context(), "fail", nil, nil)
		e, _ := errors.AsType[*jsonrpc.Error](err)
		if e == nil || e.Code != 7 || e.Message != "It failed" || string(e.Data) != `{"a": [1.0]}` {
			t.Errorf("fail: %v", err)
		}
		if err := c.Call(t.Context(), "nothing", nil, nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
			t.Errorf("nothing: %v", err)
		}
		items := []jsonrpc.Item{{Method: "echo", Params: []int{1}, Result: new(jsonrpc.Raw)}, {Method: "note", Notify: true}, {Method: "fail"}}
		if err := c.Batch(t.Context(), items); err != nil || items[0].Err != nil || items[2].Err == nil {
			t.Errorf("batch: %v, %v", err, items)
		}
	})
}

// TestIDs checks that the server gets the IDs of the client, and that two calls with one ID both
// get a response.
func TestIDs(t *testing.T) {
	b := bridgeTo(t, bridge.Options{}, "tcp://127.0.0.1:0")
	conn, err := net.Dial("tcp", b.at[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, id := range []string{`1`, `"1"`, `9007199254740993`, `1.0`, `"\u00e4"`} {
		fmt.Fprintf(conn, `{"jsonrpc":"2.0","method":"id","id":%s}`+"\n", id)
		want := fmt.Sprintf(`{"jsonrpc":"2.0","result":%s,"id":%s}`+"\n", string(jsonrpc.AppendString(nil, id)), id)
		if got := readLine(t, conn); got != want {
			t.Errorf("id %s: %s, want %s", id, got, want)
		}
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"hang","id":5}`)
	if got := readLine(t, conn); !strings.Contains(got, `"hanging"`) {
		t.Errorf("got %s", got)
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"echo","params":["second"],"id":5}`)
	if got, want := readLine(t, conn), `{"jsonrpc":"2.0","result":["second"],"id":5}`+"\n"; got != want {
		t.Errorf("the second call with the same ID: %s", got)
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":5}}`)
	if got := readLine(t, conn); !strings.Contains(got, `-32800`) || !strings.HasSuffix(got, `"id":5}`+"\n") {
		t.Errorf("the cancelled call: %s", got)
	}
}

func readLine(t *testing.T, conn net.Conn) string {
	t.Helper()
	var line []byte
	var p [1]byte
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // a TCP connection has deadlines
	for {
		if _, err := conn.Read(p[:]); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if line = append(line, p[0]); p[0] == '\n' {
			return string(line)
		}
	}
}

// TestOrder checks that requests and notifications reach the server, and notifications the client,
// in the order in which they were sent, and before the response that follows them.
func TestOrder(t *testing.T) {
	b := bridgeTo(t, bridge.Options{}, "tcp://127.0.0.1:0")
	conn, err := net.Dial("tcp", b.at[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, `{"jsonrpc":"2.0","method":"count","id":%d}`+"\n"+`{"jsonrpc":"2.0","method":"note"}`+"\n", i)
	}
	if _, err := conn.Write([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	got := make(map[int]int)
	for range 100 {
		var id, n int
		line := readLine(t, conn)
		if _, err := fmt.Sscanf(line, `{"jsonrpc":"2.0","result":%d,"id":%d}`, &n, &id); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got[id] = n
	}
	for id, n := range got {
		// the notifications before it have run; the requests before it may run at the same time
		if n < id+1 || n > 2*id+100 {
			t.Errorf("request %d was number %d", id, n)
		}
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"tick","id":"t"}`)
	for i := range 20 {
		if got, want := readLine(t, conn), fmt.Sprintf(`{"jsonrpc":"2.0","method":"tock","params":[%d]}`+"\n", i); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if got := readLine(t, conn); !strings.Contains(got, `"ticked"`) {
		t.Errorf("got %s", got)
	}
}

// TestOneServerPerClient checks who shares a server.
func TestOneServerPerClient(t *testing.T) {
	for _, share := range []bool{false, true} {
		b := bridgeTo(t, bridge.Options{Share: share}, "tcp://127.0.0.1:0")
		one, two := dial(t, nil, b), dial(t, nil, b)
		first, second := call[int](t, one, "pid", nil), call[int](t, two, "pid", nil)
		if (first == second) != share || call[int](t, one, "pid", nil) != first {
			t.Errorf("share %v: the servers are %d and %d", share, first, second)
		}
		want := 2
		if share {
			want = 1
		}
		if n := b.Servers(); n != want {
			t.Errorf("share %v: %d servers, want %d", share, n, want)
		}
		b.end()
		for _, pid := range []int{first, second} {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("share %v: process %d is left: %v", share, pid, err)
			}
		}
	}
}

// TestClientLeaves checks that the server of a client ends when the client leaves.
func TestClientLeaves(t *testing.T) {
	b := bridgeTo(t, bridge.Options{}, "tcp://127.0.0.1:0")
	c := dial(t, nil, b)
	pid := call[int](t, c, "pid", nil)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, pid)
	await(t, func() bool { return b.Servers() == 0 })
}

func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	await(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// await waits until f returns true.
func await(t *testing.T, f func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for !f() {
		if time.Now().After(end) {
			t.Fatal("it did not happen within a minute")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestKilledServer checks that the calls of a server that is killed end with -31006 within a
// second, that none of them is sent again, and that the next call has a new server.
func TestKilledServer(t *testing.T) {
	every(t, func(t *testing.T, from string) {
		c := dial(t, nil, bridgeTo(t, bridge.Options{}, from))
		pid := call[int](t, c, "pid", nil)
		failed := make(chan error, 3)
		for range cap(failed) {
			hanging := make(chan struct{}, 8) // a notification without a request in it is for all
			go func() {
				failed <- c.Stream(t.Context(), "hang", nil, nil, func(*jsonrpc.Request) error { hanging <- struct{}{}; return nil })
			}()
		}
		await(t, func() bool { return call[int](t, c, "count", nil) > 1 })
		killed := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for range cap(failed) {
			err := <-failed
			e, _ := errors.AsType[*jsonrpc.Error](err)
			if e == nil || e.Code != jsonrpc.CodeUnavailable || !strings.Contains(string(e.Data), `"retryable":false`) {
				t.Errorf("hang: %v %s", err, e.Data)
			}
		}
		if took := time.Since(killed); took > 30*time.Second { // without the notice it would be the deadline of a minute
			t.Errorf("the calls ended after %v", took)
		}
		if now := call[int](t, c, "pid", nil); now == pid {
			t.Error("it is the same server")
		}
		if n := call[int](t, c, "count", nil); n != 1 {
			t.Errorf("count = %d, want 1: something was sent again", n)
		}
	})
}

// TestAskTheClient checks that requests of the server reach the client and are answered.
func TestAskTheClient(t *testing.T) {
	b := bridgeTo(t, bridge.Options{}, "tcp://127.0.0.1:0")
	back := new(jsonrpc.Mux)
	back.Add("question", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		return jsonrpc.Raw(`{"answer":` + string(req.Params) + `}`), nil
	}))
	c := dial(t, &parley.Dialer{Back: back}, b)
	if got := call[jsonrpc.Raw](t, c, "ask", []int{42}); string(got) != `{"answer":[42]}` {
		t.Errorf("ask = %s", got)
	}
	other := dial(t, nil, b)
	if err := other.Call(t.Context(), "ask", []int{1}, nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
		t.Errorf("ask of a client without methods: %v", err)
	}
}

// TestSharedProgress checks that progress in a shared server reaches its own caller only, with the
// caller's token, although the tokens of two clients are equal.
func TestSharedProgress(t *testing.T) {
	b := bridgeTo(t, bridge.Options{Share: true}, "tcp://127.0.0.1:0")
	var all sync.WaitGroup
	for i := range 8 {
		got := make(chan string, 100)
		back := new(jsonrpc.Mux)
		back.Add(mcp.NotifyProgress, jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			got <- string(req.Params)
			return nil, nil
		}))
		c := dial(t, &parley.Dialer{Back: back}, b)
		all.Go(func() {
			token := []string{`1`, `"a"`}[i%2]
			for range 10 {
				var seen jsonrpc.Raw
				if err := c.Call(t.Context(), "progress", jsonrpc.Raw(`{"_meta":{"x":[1],"progressToken":`+token+`}}`), &seen); err != nil {
					t.Error(err)
				}
				if string(seen) == token {
					t.Errorf("the server got the token %s of a client that shares it", token)
				}
			}
			for range 10 {
				if p := <-got; !strings.Contains(p, `"progressToken":`+token) {
					t.Errorf("progress %s, want the token %s", p, token)
				}
			}
		})
	}
	all.Wait()
}

var greeting = jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)

// greet does the handshake of MCP.
func greet(t *testing.T, c jsonrpc.Peer) {
	t.Helper()
	if got := call[jsonrpc.Raw](t, c, mcp.MethodInitialize, greeting); !strings.Contains(string(got), `"2025-11-25"`) {
		t.Errorf("initialize = %s", got)
	}
	if err := c.Notify(t.Context(), mcp.NotifyInitialized, nil); err != nil {
		t.Fatal(err)
	}
}

// isReady checks that the server was greeted once.
func isReady(t *testing.T, c jsonrpc.Peer) {
	t.Helper()
	if got := call[jsonrpc.Raw](t, c, "ready", nil); string(got) != `[true,1]` {
		t.Errorf("ready = %s, want one handshake", got)
	}
}

// TestHandshake checks that the handshake of MCP is repeated for a server that replaces another,
// and that clients that share a server greet it once.
func TestHandshake(t *testing.T) {
	for _, share := range []bool{false, true} {
		b := bridgeTo(t, bridge.Options{Share: share}, "tcp://127.0.0.1:0")
		var clients []*parley.Client
		for range 3 {
			c := dial(t, nil, b)
			greet(t, c)
			isReady(t, c)
			clients = append(clients, c)
		}
		if err := clients[0].Call(t.Context(), "die", nil, nil); !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeUnavailable}) {
			t.Errorf("die: %v", err)
		}
		for _, c := range clients {
			isReady(t, c)
		}
	}
}

// TestSessions checks that each MCP session over HTTP is a client, whose server ends with it, and
// that a lost session is not found, so that its client begins another.
func TestSessions(t *testing.T) {
	b := bridgeTo(t, bridge.Options{}, "http://127.0.0.1:0/mcp")
	session := func() *streamable.Client {
		c := streamable.NewClient(b.at[0].URL(), &streamable.ClientOptions{
			SessionHeader: mcp.HeaderSession,
			Manner: func(req *jsonrpc.Request) streamable.Manner {
				if req.Method == mcp.MethodInitialize {
					return streamable.Manner{Bond: streamable.Opening}
				}
				return streamable.Manner{Bond: streamable.Within}
			},
		})
		greet(t, c)
		return c
	}
	one, two := session(), session()
	first, second := call[int](t, one, "pid", nil), call[int](t, two, "pid", nil)
	if first == second || b.Servers() != 2 {
		t.Errorf("the servers are %d and %d, %d in all", first, second, b.Servers())
	}
	isReady(t, one)
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, first)
	isReady(t, two)
	if call[int](t, two, "pid", nil) != second {
		t.Error("the other session has lost its server")
	}
	plain := dial(t, nil, b)
	if pid := call[int](t, plain, "pid", nil); pid == second {
		t.Error("a request without a session uses the server of one")
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCancel checks that a client that gives a call up cancels it at the server, by the message of
// MCP and by that of the Language Server Protocol.
func TestCancel(t *testing.T) {
	for _, how := range []jsonrpc.Cancellation{mcp.Cancellation, jsonrpc.CancelRequest} {
		for _, share := range []bool{false, true} {
			b := bridgeTo(t, bridge.Options{Share: share, To: inside(t, how)}, "tcp://127.0.0.1:0")
			c := dial(t, &parley.Dialer{Cancellation: &how}, b)
			if how.Method == mcp.NotifyCancelled {
				greet(t, c)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Call(ctx, "hang", nil, nil) }()
			await(t, func() bool { return call[int](t, c, "running", nil) == 1 })
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", how.Method, err)
			}
			await(t, func() bool { return call[int](t, c, "running", nil) == 0 })
		}
	}
}

// inside serves the methods of the server in this process.
func inside(t *testing.T, how jsonrpc.Cancellation) parley.Target {
	t.Helper()
	mux := serverMux()
	running := make(chan struct{}, 10)
	hang := jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		running <- struct{}{}
		defer func() { <-running }()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	mux.Add("running", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return len(running), nil }))
	l := &parley.Listener{Cancellation: &how, Mode: mux.Mode, Handler: jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if req.Method == "hang" {
			return hang.Handle(ctx, req)
		}
		return mux.Handle(ctx, req)
	})}
	s, err := l.Listen(t.Context(), targetsOf(t, []string{"tcp://127.0.0.1:0"})...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()) }()
	t.Cleanup(func() { _ = errors.Join(s.Close(), <-done) })
	return s.Targets()[0]
}

// TestNoServer checks the error of a call if the server cannot be started, and that starts are not
// repeated without a pause.
func TestNoServer(t *testing.T) {
	var mu sync.Mutex
	reports := 0
	b := bridgeTo(t, bridge.Options{To: parley.Command("parley-no-such-command"), Report: func(what string, _ error) {
		mu.Lock()
		defer mu.Unlock()
		if what == bridge.ReportServer {
			reports++
		}
	}}, "tcp://127.0.0.1:0")
	c := dial(t, nil, b)
	for i := range 6 {
		err := c.Call(t.Context(), "x", nil, nil)
		e, _ := errors.AsType[*jsonrpc.Error](err)
		if e == nil || e.Code != jsonrpc.CodeUnavailable || !strings.Contains(string(e.Data), `"retryable":true`) {
			t.Fatalf("call %d: %v", i, err)
		}
		if strings.Contains(string(e.Data), "retryAfterMs") {
			if i == 0 {
				t.Error("the first call was not tried")
			}
			return
		}
	}
	t.Error("six starts without a pause")
}

// TestTooManyServers checks the error of a client above the bound.
func TestTooManyServers(t *testing.T) {
	b := bridgeTo(t, bridge.Options{MaxServers: 1}, "tcp://127.0.0.1:0")
	one, two := dial(t, nil, b), dial(t, nil, b)
	call[int](t, one, "pid", nil)
	if err := two.Call(t.Context(), "pid", nil, nil); !errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeBusy}) {
		t.Errorf("the second client: %v", err)
	}
	_ = one.Close() // its place is free soon
	await(t, func() bool { return two.Call(t.Context(), "pid", nil, nil) == nil })
}
