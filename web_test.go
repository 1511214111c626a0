package parley

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// roundTrip makes one request on its own connection.
func roundTrip(t *testing.T, req *http.Request) (status int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	return answer.StatusCode, string(text)
}

// TestAddressWithoutAPath checks the requests that proxies and curl --request-target send.
func TestAddressWithoutAPath(t *testing.T) {
	s := serve(t, &Listener{Handler: testMux(nil)}, "http://127.0.0.1:0")
	address := s.Targets()[0].Address
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const body = `{"jsonrpc":"2.0","id":1,"method":"add","params":[40,2]}`
	fmt.Fprintf(conn, "POST http://%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, address, len(body), body)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if want := `{"jsonrpc":"2.0","result":42,"id":1}`; answer.StatusCode != http.StatusOK || string(text) != want || err != nil {
		t.Errorf("%s %q, %v, want 200 %s", answer.Status, text, err, want)
	}
}

// sameMembers reports whether two JSON objects are equal, ignoring the order of members.
func sameMembers(a, b string) bool {
	var x, y map[string]any
	return jsonrpc.Raw(a).Decode(&x) == nil && jsonrpc.Raw(b).Decode(&y) == nil && cmp.Equal(x, y)
}

// TestWebSocketSaysThatThePeerIsTooFast checks that a connection that is closed because of the
// peer's pace has the reason in its close frame.
func TestWebSocketSaysThatThePeerIsTooFast(t *testing.T) {
	m := new(jsonrpc.Mux)
	release := make(chan struct{})
	defer close(release)
	m.Add("log", jsonrpc.Func(func(context.Context, jsonrpc.Raw) (any, error) { <-release; return nil, nil }))
	s := serve(t, &Listener{Handler: m, Mode: m.Mode, Limits: jsonrpc.Limits{NotifyBytes: 1000}}, "ws://127.0.0.1:0/rpc")
	ws, err := websocket.Dial(t.Context(), s.Targets()[0].URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	var b jsonrpc.Burst
	for range 10 {
		b.Add([]byte(`{"jsonrpc":"2.0","method":"log","params":["` + strings.Repeat("x", 500) + `"]}`))
	}
	if err := ws.Write(b); err != nil {
		t.Fatal(err)
	}
	_, _, err = ws.Read()
	if e, ok := errors.AsType[*websocket.CloseError](err); !ok || e.Code != websocket.CloseTryLater {
		t.Errorf("Read = %v, want close code 1013", err)
	}
}
