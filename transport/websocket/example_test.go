package websocket_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// Both ends of a conversation: the server responds, and calls its caller back.
func Example() {
	var methods jsonrpc.Mux
	methods.Add("greet", jsonrpc.PeerFunc(func(ctx context.Context, caller jsonrpc.Peer, _ []string) (string, error) {
		name, err := jsonrpc.Call[string](ctx, caller, "name", nil)
		return "Hello, " + name, err
	}))

	var open sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := websocket.Upgrade(w, r, nil)
		if err != nil {
			return // the client has received the reason
		}
		conn := jsonrpc.NewConn(t)
		conn.Handler = &methods
		// so that net/http can release the request
		open.Go(func() { _ = conn.Serve(context.Background()) })
	}))
	defer server.Close()

	ctx := context.Background()
	t, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var own jsonrpc.Mux
	own.Add("name", jsonrpc.Func(func(context.Context, []string) (string, error) { return "Ada", nil }))
	client := jsonrpc.NewConn(t)
	client.Handler = &own
	client.Start(ctx)

	fmt.Println(jsonrpc.Call[string](ctx, client, "greet", nil))
	_ = client.Close()
	open.Wait()
	// Output:
	// Hello, Ada <nil>
}

func ExampleDial() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := websocket.Upgrade(w, r, &websocket.Options{Subprotocols: []string{"mcp"}})
		if err != nil {
			return // the client has received the reason
		}
		_ = t.CloseWith(websocket.CloseTryLater, "come back in a minute")
	}))
	defer server.Close()

	t, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(server.URL, "http"), &websocket.Options{
		Header:       http.Header{"Authorization": {"Bearer of good news"}},
		Subprotocols: []string{"mcp", "acp"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(t.Subprotocol())
	_, _, err = t.Read()
	fmt.Println(err)
	_ = t.Close()

	_, err = websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(server.URL, "http"), &websocket.Options{
		Header: http.Header{"Origin": {"https://evil.test"}},
	})
	fmt.Println(err)
	// Output:
	// mcp
	// websocket: closed by the peer with 1013: "come back in a minute"
	// websocket: handshake: status 403: "this origin is not allowed"
}
