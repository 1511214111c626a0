package parley

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestConnectionsOfTheProcess checks that the bound by open files counts the connections of all
// addresses, and that a connection above it gets a response.
func TestConnectionsOfTheProcess(t *testing.T) {
	s := serve(t, &Listener{Handler: new(jsonrpc.Mux)}, "tcp://127.0.0.1:0", "http://127.0.0.1:0")
	taken := 0
	for budget.Connections.Enter(processConns()) { // as if they were on other addresses
		taken++
	}
	left := func() {
		for range taken {
			budget.Connections.Leave()
		}
		taken = 0
	}
	defer left()
	ask := func(target Target, request string) string {
		t.Helper()
		c, err := net.Dial("tcp", target.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testTime)) // it is a TCP connection, which has deadlines
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(c) // got has what arrived before the error
		return string(got)
	}
	const post = "POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	if got := ask(s.Targets()[0], ""); !strings.Contains(got, "-31001") {
		t.Errorf("tcp: %q", got)
	}
	if got := ask(s.Targets()[1], post); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("http: %q", got)
	}
	left()
	if got := ask(s.Targets()[1], post); strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("http, with room: %q", got)
	}
}
