//go:build unix

package bridge_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestParamsInHeaders checks that params that MCP 2026-07-28 repeats in headers are sent there to a
// server over HTTP, for a client that knows of no headers: after it has listed the tools, and also
// if it has not. The tool runs once for each call.
func TestParamsInHeaders(t *testing.T) {
	var runs atomic.Int64
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, &mcp.ServerOptions{PageSize: 100})
	for i := range 150 { // several pages
		mcp.AddTool(s, mcp.Tool{Name: fmt.Sprintf("other-%d", i)}, func(context.Context, *mcp.Request, struct{}) (string, error) { return "", nil })
	}
	mcp.AddTool(s, mcp.Tool{Name: "region"}, func(_ context.Context, _ *mcp.Request, in struct {
		Region string `json:"region" mcp:"header=Region"`
	}) (string, error) {
		runs.Add(1)
		return in.Region, nil
	})
	h := mcphttp.NewHandler(s, nil)
	var mu sync.Mutex
	var sent []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent = append(sent, strings.TrimSpace(r.Header.Get(mcp.HeaderMethod)+" "+r.Header.Get("Mcp-Param-Region")))
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		_ = h.Close() // the test has its results
		web.Close()
	})
	const meta = `"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	const region = `{"name":"region","arguments":{"region":"Süd"},` + meta + `}`
	for _, share := range []bool{false, true} {
		for _, list := range []bool{true, false} {
			b := bridgeTo(t, bridge.Options{Share: share, To: targetsOf(t, []string{web.URL})[0]}, "tcp://127.0.0.1:0")
			c := dial(t, nil, b)
			cursor := ""
			for list {
				page := call[jsonrpc.Raw](t, c, mcp.MethodToolsList, jsonrpc.Raw(`{`+meta+cursor+`}`))
				next := ""
				for key, value := range page.Members() {
					if string(key) == "nextCursor" {
						next = string(value)
					}
				}
				if cursor = `,"cursor":` + next; next == "" {
					break
				}
			}
			mu.Lock()
			sent = nil
			mu.Unlock()
			before := runs.Load()
			for range 2 {
				if got := call[jsonrpc.Raw](t, c, mcp.MethodToolsCall, jsonrpc.Raw(region)); !strings.Contains(string(got), `"Süd"`) {
					t.Errorf("share %t, list %t: %s", share, list, got)
				}
			}
			mu.Lock()
			all := strings.Join(sent, ", ")
			mu.Unlock()
			once := "tools/call =?base64?U8O8ZA==?="
			want := once + ", " + once
			if !list {
				want = "tools/call, " + strings.Repeat("tools/list, ", strings.Count(all, "tools/list")) + want
			}
			if all != want || !list && strings.Count(all, "tools/list") < 2 {
				t.Errorf("share %t, list %t: sent %s", share, list, all)
			}
			if n := runs.Load() - before; n != 2 {
				t.Errorf("share %t, list %t: the tool ran %d times", share, list, n)
			}
		}
	}
	// An argument that has no form in a header is left to the server, which does not run the tool.
	b := bridgeTo(t, bridge.Options{To: targetsOf(t, []string{web.URL})[0]}, "tcp://127.0.0.1:0")
	bad := strings.Replace(region, `"Süd"`, `["Süd"]`, 1)
	got, err := jsonrpc.Call[jsonrpc.Raw](t.Context(), dial(t, nil, b), mcp.MethodToolsCall, jsonrpc.Raw(bad))
	if n := runs.Load(); n != 8 || err != nil || !strings.Contains(string(got), `"isError":true`) {
		t.Errorf("a wrong argument: %s, %v; the tool ran %d times in all, want 8", got, err, n)
	}
}

// TestSubscriptions checks that the notifications and the result of a subscription have the ID of
// their client and reach no other, if clients share a server, and over HTTP.
func TestSubscriptions(t *testing.T) {
	const request = `{"jsonrpc":"2.0","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}},"id":%s}`
	const about = `{"_meta":{"a":1,"io.modelcontextprotocol/subscriptionId":%s}}`
	for _, share := range []bool{false, true} {
		b := bridgeTo(t, bridge.Options{Share: share}, "tcp://127.0.0.1:0", "http://127.0.0.1:0")
		conns := make(map[string]net.Conn)
		for _, id := range []string{`7`, `"a"`, `7.0`} {
			conn, err := net.Dial("tcp", b.at[0].Address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns[id] = conn
			fmt.Fprintf(conn, request+"\n", id)
		}
		for id, conn := range conns {
			if got, want := readLine(t, conn), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":`+about+`}`+"\n", id); got != want {
				t.Errorf("share %t: got %s, want %s", share, got, want)
			}
			if got, want := readLine(t, conn), fmt.Sprintf(`{"jsonrpc":"2.0","result":`+about+`,"id":%s}`+"\n", id, id); got != want {
				t.Errorf("share %t: got %s, want %s", share, got, want)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.at[1].URL(), strings.NewReader(fmt.Sprintf(request, `"web"`)))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", mcp.HeaderProtocolVersion: "2026-07-28"} {
			r.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // it is read
		mine := fmt.Sprintf(about, `"web"`)
		if err != nil || strings.Count(string(text), mine) != 2 || strings.Count(string(text), "data: {") != 2 {
			t.Errorf("share %t, over HTTP: %q, %v", share, text, err)
		}
	}
}

// TestInputEnds checks that a client that has closed its sending side gets the responses to its
// calls, and that its subscription ends at once.
func TestInputEnds(t *testing.T) {
	b := bridgeTo(t, bridge.Options{}, "tcp://127.0.0.1:0")
	conn, err := net.Dial("tcp", b.at[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"subscriptions/listen","params":["wait"],"id":1}`)
	if got := readLine(t, conn); !strings.Contains(got, "acknowledged") {
		t.Fatal(got)
	}
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"echo","params":[2],"id":2}`)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 2 ||
		!strings.Contains(string(text), `"result":[2],"id":2}`) || !strings.Contains(string(text), `"code":-32800`) {
		t.Errorf("%q, %v", text, err)
	}
}
