package tap_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
)

// TestTargetIsDown responds with 502 and the reason, records it, and forwards again when the server
// is back.
func TestTargetIsDown(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(t)
	failed := make(chan error, 10)
	r := &tap.Relay{
		Carrier: tap.HTTP, Record: rec, Info: capture.WireInfo{Target: "http://server.example/mcp"}, Host: "server.example", Names: []string{l.Addr().String()},
		Dial: func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		},
		Failed: func(err error) { failed <- err },
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	const call = `{"jsonrpc":"2.0","id":1,"method":"sum","params":[1]}`
	for _, c := range []struct {
		name, method, host, body, want string
		expect                         bool
	}{
		{"a call", "POST", "", call, "parley tap cannot reach http://server.example/mcp: connection refused\n", false},
		{"a long call", "POST", "", `{"jsonrpc":"2.0","id":2,"method":"sum","params":["` + strings.Repeat("x", 3<<20) + `"]}`, "parley tap cannot reach http://server.example/mcp: connection refused\n", false},
		{"a client that waits", "POST", "", call, "parley tap cannot reach http://server.example/mcp: connection refused\n", true},
		{"a stream", "GET", "", "", "parley tap cannot reach http://server.example/mcp: connection refused\n", false},
		{"a head", "HEAD", "", "", "", false},
		{"a page under another name", "POST", "evil.example", call, "parley tap cannot reach the server\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+l.Addr().String()+"/mcp", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			req.Header.Set("Content-Type", "application/json")
			if c.expect {
				req.Header.Set("Expect", "100-continue")
			}
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusBadGateway || string(body) != c.want {
				t.Errorf("%v, %d %q", err, resp.StatusCode, body)
			}
			<-failed
		})
	}
	if got := seen(rec); !slices.Contains(got, "request out "+call) || !slices.Contains(got, "http POST /mcp 502 error") {
		t.Errorf("recorded: %q", got)
	}
	// A client of HTTP/2, or of something else, is disconnected.
	for _, first := range []string{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "hello\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); len(got) != 0 {
			t.Errorf("%q got %q, %v", first, got, err)
		}
		_ = c.Close()
		<-failed
	}
}
