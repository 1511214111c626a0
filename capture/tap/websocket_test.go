package tap_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/websocket"
)

func TestRelayOfWebSocket(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		c, err := websocket.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for {
			payload, _, err := c.Read()
			if err != nil {
				return
			}
			var b jsonrpc.Burst
			b.Add(payload)
			if err := c.Write(b); err != nil {
				t.Error(err)
			}
		}
	}))
	defer server.Close()
	rec := newRecorder(t)
	address := strings.TrimPrefix(server.URL, "http://")
	r := &tap.Relay{Carrier: tap.HTTP, Record: rec, Host: address}
	at := serve(t, r, address)
	r.Names = []string{at}
	c, err := websocket.Dial(t.Context(), "ws://"+at+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	long := `{"jsonrpc":"2.0","method":"long","params":["` + strings.Repeat("x", 70_000) + `"]}`
	for _, text := range []string{`{"jsonrpc":"2.0","id":1,"method":"a"}`, long} {
		var b jsonrpc.Burst
		b.Add([]byte(text))
		if err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.Read(); err != nil || string(got) != text {
			t.Fatalf("%d bytes came back, %v", len(got), err)
		}
	}
	if err := c.Close(); err != nil && err != io.EOF {
		t.Error(err)
	}
	<-done
	want := []string{
		"open", "http GET /ws 101 done", `request out {"jsonrpc":"2.0","id":1,"method":"a"}`, `request in {"jsonrpc":"2.0","id":1,"method":"a"}`,
		"notification out " + long[:80], "notification in " + long[:80],
	}
	got := seen(rec)
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
