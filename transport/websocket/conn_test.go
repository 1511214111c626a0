package websocket

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// conversing returns two Conns over a WebSocket that both serve methods.
func conversing(t testing.TB, methods *jsonrpc.Mux) (client, server *jsonrpc.Conn) {
	t.Helper()
	c, s := dialled(t, nil)
	client, server = jsonrpc.NewConn(c), jsonrpc.NewConn(s)
	for _, conn := range []*jsonrpc.Conn{client, server} {
		conn.Handler, conn.Mode = methods, methods.Mode
		conn.Start(t.Context())
		t.Cleanup(func() { conn.Close() })
	}
	return client, server
}

// TestConversation makes 1,000 calls each way at once, of all sizes, with nested calls back: each
// gets its own response.
func TestConversation(t *testing.T) {
	var methods jsonrpc.Mux
	methods.Add("echo", jsonrpc.Func(func(_ context.Context, in []string) (string, error) { return in[0], nil }))
	methods.Add("quick", jsonrpc.Func(func(_ context.Context, in []string) (string, error) { return in[0], nil }), jsonrpc.Quick)
	methods.Add("nest", jsonrpc.PeerFunc(func(ctx context.Context, back jsonrpc.Peer, in struct {
		Text  string `json:"text"`
		Depth int    `json:"depth"`
	}) (string, error) {
		if in.Depth == 0 {
			return in.Text, nil
		}
		return jsonrpc.Call[string](ctx, back, "nest", map[string]any{"text": in.Text, "depth": in.Depth - 1})
	}))
	client, server := conversing(t, &methods)

	var calls sync.WaitGroup
	for i := range 1000 {
		for name, peer := range map[string]jsonrpc.Peer{"client": client, "server": server} {
			calls.Go(func() {
				text := fmt.Sprintf("%s %d %s", name, i, strings.Repeat("é", i*i%500))
				var params any = []string{text}
				method := []string{"echo", "quick", "nest"}[i%3]
				if method == "nest" {
					params = map[string]any{"text": text, "depth": 3}
				}
				if got, err := jsonrpc.Call[string](t.Context(), peer, method, params); err != nil || got != text {
					t.Errorf("%s of %.20q = %.20q, %v", method, text, got, err)
				}
			})
		}
	}
	calls.Wait()
}

// TestRequestThenClose checks that a request right before the peer's close frame, or before a frame
// that ends the connection, gets its response, and that the close frame is the right one.
func TestRequestThenClose(t *testing.T) {
	var methods jsonrpc.Mux
	methods.Add("ping", jsonrpc.Func(func(context.Context, []string) (string, error) { return "pong", nil }), jsonrpc.Quick)
	const request = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, r := range roles {
		for _, c := range []struct {
			end  []byte
			code int
		}{
			{r.raw(close8, closing(1000, "")), 1000},
			{r.raw(fin|binary2, "[1]"), 1003},
			{r.raw(fin|text, "\xff"), 1007},
			{r.raw(0xC1, ""), 1002},
			{r.raw(fin|text, strings.Repeat(" ", 4<<20+1))[:20], 1009},
		} {
			tr, raw := r.start(t, &Options{MaxMessage: 4 << 20})
			conn := jsonrpc.NewConn(tr)
			conn.Handler, conn.Mode = &methods, methods.Mode
			conn.Start(t.Context())
			write(t, raw, r.raw(fin|text, " "), r.raw(fin|text, request), c.end)
			raw.SetReadDeadline(time.Now().Add(soon))
			f, err := r.readFrame(raw)
			if err != nil || f.bits != fin|text || !strings.Contains(f.payload, `"pong"`) {
				t.Errorf("%s, %d: %s, %v, want the answer", r.name, c.code, f, err)
			}
			if f, err := r.readFrame(raw); err != nil || f.bits != close8 || f.payload[:2] != closing(c.code, "") {
				t.Errorf("%s: %s, %v, want %d", r.name, f, err, c.code)
			}
			raw.Close()
			conn.Close()
		}
	}
}
