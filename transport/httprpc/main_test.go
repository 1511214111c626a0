package httprpc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestMain(m *testing.M) {
	// net/http sleeps half a second before it closes a connection whose body it did not read.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

type operands struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

// methods returns the methods of the servers in these tests.
func methods() *jsonrpc.Mux {
	m := new(jsonrpc.Mux)
	m.Add("subtract", jsonrpc.Func(func(_ context.Context, in operands) (int, error) { return in.Minuend - in.Subtrahend, nil }))
	m.Add("echo", jsonrpc.Func(func(_ context.Context, in jsonrpc.Raw) (jsonrpc.Raw, error) { return in, nil }))
	m.Add("update", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return nil, nil }))
	m.Add("count", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in struct {
		From int `json:"from"`
	}) (string, error) {
		for n := in.From; n > 0; n-- {
			if err := p.Notify(ctx, "tick", []int{n}); err != nil {
				return "", err
			}
		}
		return "lift-off", nil
	}))
	m.Add("fail", jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		var e []jsonrpc.Error
		if err := req.Params.Decode(&e); err != nil || len(e) != 1 {
			return nil, jsonrpc.ErrInvalidParams
		}
		return nil, &e[0]
	}))
	m.Add("try", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, _ struct{}) (string, error) {
		switch err := p.Notify(ctx, "tick", nil); {
		case err == nil:
			return "notified", nil
		case errors.Is(err, jsonrpc.ErrOneWay):
			return "one way", nil
		default:
			return "", err
		}
	}))
	m.Add("panic", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { panic("secret") }))
	return m
}

// serve runs a server until the test ends.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web
}

// raw sends bytes on a new connection and returns the raw response, without its Date.
func raw(t *testing.T, web *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may refuse it before the end
	var all strings.Builder
	reader := bufio.NewReader(conn)
	for {
		line, err := reader.ReadString('\n')
		if !strings.HasPrefix(line, "Date: ") {
			all.WriteString(line)
		}
		if err != nil {
			return all.String()
		}
	}
}

// post returns a whole POST of a body, after which the connection closes.
func post(body string, headers ...string) string {
	h := strings.Join(headers, "\r\n")
	if h != "" {
		h += "\r\n"
	}
	if !strings.Contains(h, "Content-Type") {
		h += "Content-Type: application/json\r\n"
	}
	if !strings.Contains(h, "Content-Length") && !strings.Contains(h, "Transfer-Encoding") {
		h += "Content-Length: " + itoa(len(body)) + "\r\n"
	}
	return "POST /rpc HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + h + "\r\n" + body
}

func itoa(n int) string { return jsonrpc.IntID(int64(n)).String() }
