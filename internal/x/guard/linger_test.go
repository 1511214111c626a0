package guard

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestLinger sends malformed requests followed by more bytes, and requires a response each time
// instead of a reset.
func TestLinger(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, ok200)
	rest := strings.Repeat("x", 100<<10)
	for name, request := range map[string]string{
		"a short first line":   "hello\r\nHost: x\r\n\r\n" + rest,
		"no version":           "POST /rpc\r\nHost: x\r\n\r\n" + rest,
		"a bad header":         "POST /rpc HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n" + rest,
		"a bad length":         "POST /rpc HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + rest,
		"a transfer not known": "POST /rpc HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: foo\r\n\r\n" + rest,
	} {
		for range 20 {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, request); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") && !strings.HasPrefix(string(answer), "HTTP/1.1 501 ") {
				t.Errorf("%s: got %q, %v", name, answer, err)
			}
			conn.Close()
		}
	}
}

// TestLingerEnds uses a client that sends without end.
func TestLingerEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := Linger(listener).Accept()
	if err != nil {
		t.Fatal(err)
	}
	for said, most := range map[string]time.Duration{
		// 300 ms on an idle machine.
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n": time.Minute,
	} {
		if _, err := io.WriteString(server, said); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < parting || took > most {
			t.Errorf("Close took %v, want %v", took, parting)
		}
	}
	if err := server.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestIsFarewell(t *testing.T) {
	for text, want := range map[string]bool{
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400":  true,
		"HTTP/1.0 501 Not Implemented\r\nConnection: close\r\n\r\n": true,
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n":              false,
		"HTTP/1.1 404 Not Found\r\n\r\n":                            false,
		"HTTP/1.1 404 Not Found\r\n\r\n\r\nConnection: close\r\n":   false,
		"\x00\x00\x12\x04\x00\x00\x00\x00\x00":                      false,
		"HTTP/1.1 4":                                                false,
		"":                                                          false,
	} {
		if got := isFarewell([]byte(text)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

// TestATakenConnectionIsPlain checks that a WebSocket can read its socket by system calls.
func TestATakenConnectionIsPlain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if _, ok := c.(*net.TCPConn); !ok {
			t.Errorf("it is a %T", c)
		}
		_, _ = io.WriteString(c, "taken") // the test checks it
	}))
	if got := raw(t, listener.Addr(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); got != "taken" {
		t.Errorf("got %q", got)
	}
}
