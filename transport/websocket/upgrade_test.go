package websocket

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// The key and its accept value are from RFC 6455, section 1.3.
const (
	sampleKey    = "dGhlIHNhbXBsZSBub25jZQ=="
	sampleAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// request returns a valid handshake, with lines replaced ("Name: value"), removed ("-Name") or
// added ("+Name: value").
func request(changes ...string) string {
	lines := []string{"GET /rpc HTTP/1.1", "Host: example.test:80", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Key: " + sampleKey, "Sec-WebSocket-Version: 13"}
	for _, change := range changes {
		if added, ok := strings.CutPrefix(change, "+"); ok {
			lines = append(lines, added)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(change, "-"), ":")
		if strings.HasSuffix(change, "/1.1") || strings.HasSuffix(change, "/1.0") {
			name = "GET /rpc HTTP/1.1"
		}
		for i := range lines {
			if strings.HasPrefix(lines[i], name) {
				lines[i] = strings.TrimPrefix(change, "-"+name)
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// upgrades serves Upgrade with o and returns its address and its results.
func upgrades(t *testing.T, o *Options) (addr string, results <-chan error) {
	t.Helper()
	var own Options
	if o != nil {
		own = *o
	}
	own.CloseTimeout = time.Millisecond // the other side does not reply to a close frame
	errs := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr, err := Upgrade(w, r, &own)
		if err == nil {
			t.Cleanup(func() { tr.Close() })
		}
		errs <- err
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), errs
}

// ask sends a raw request and returns the head of the response.
func ask(t *testing.T, addr, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(soon))
	write(t, conn, []byte(request))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestUpgrade(t *testing.T) {
	for _, c := range []struct {
		name    string
		request string
		status  int
	}{
		{"as it should be", request(), 101},
		{"other case and lists", request("Upgrade: foo, WebSocket", "Connection: keep-alive, UPGRADE"), 101},
		{"lists over lines", request("Connection: keep-alive", "+Connection: , upgrade"), 101},
		{"extensions are ignored", request("+Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"), 101},
		{"POST", request("POST /rpc HTTP/1.1"), 405},
		{"PUT", request("PUT /rpc HTTP/1.1"), 405},
		{"HTTP/1.0", request("GET /rpc HTTP/1.0"), 400},
		{"no Upgrade", request("-Upgrade"), 426},
		{"another Upgrade", request("Upgrade: h2c"), 426},
		{"no Connection", request("-Connection"), 400},
		{"another Connection", request("Connection: keep-alive"), 400},
		{"no version", request("-Sec-WebSocket-Version"), 426},
		{"version 8", request("Sec-WebSocket-Version: 8"), 426},
		{"version 013", request("Sec-WebSocket-Version: 013"), 426},
		{"two versions", request("+Sec-WebSocket-Version: 13"), 400},
		{"no key", request("-Sec-WebSocket-Key"), 400},
		{"an empty key", request("Sec-WebSocket-Key: "), 400},
		{"a short key", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j"), 400},
		{"a key of 17 bytes", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWU="), 400},
		{"no base64", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ!=="), 400},
		{"bits that are too many", request("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR=="), 400},
		{"two keys", request("+Sec-WebSocket-Key: " + sampleKey), 400},
		{"a body", request("+Content-Length: 2") + "{}", 400},
		{"a chunked body", request("+Transfer-Encoding: chunked") + "0\r\n\r\n", 400},
		{"no Host", request("-Host"), 400},
		{"two Hosts", request("+Host: other.test"), 400},
		{"own origin", request("+Origin: http://example.test"), 101},
		{"own origin with its port", request("+Origin: http://EXAMPLE.test:80"), 101},
		{"another port", request("+Origin: http://example.test:81"), 403},
		{"the port of TLS", request("+Origin: https://example.test"), 403},
		{"own origin under TLS", request("Host: example.test", "+Origin: https://example.test"), 101},
		{"another host", request("+Origin: http://evil.test"), 403},
		{"a longer host", request("+Origin: http://example.test.evil.test"), 403},
		{"a user before the host", request("+Origin: http://example.test@evil.test"), 403},
		{"own host as a user", request("+Origin: http://evil.test:80@example.test"), 403},
		{"null", request("+Origin: null"), 403},
		{"an empty origin", request("+Origin: "), 403},
		{"two origins", request("+Origin: http://example.test", "+Origin: http://evil.test"), 403},
		{"another scheme", request("+Origin: file://example.test"), 403},
		{"IPv6", request("Host: [::1]:80", "+Origin: http://[::1]"), 101},
		{"a subprotocol", request("+Sec-WebSocket-Protocol: mcp"), 101},
		{"a doubled subprotocol", request("+Sec-WebSocket-Protocol: mcp, mcp"), 400},
		{"a bad subprotocol", request("+Sec-WebSocket-Protocol: m c p"), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, results := upgrades(t, nil)
			res := ask(t, addr, c.request)
			res.Body.Close()
			if res.StatusCode != c.status {
				t.Fatalf("%q\nanswered %s, want %d", c.request, res.Status, c.status)
			}
			h := res.Header
			switch c.status {
			case 101:
				if h.Get("Sec-WebSocket-Accept") != sampleAccept || h.Get("Upgrade") != "websocket" || h.Get("Connection") != "Upgrade" ||
					h.Get("Sec-WebSocket-Extensions") != "" || h.Get("Sec-WebSocket-Protocol") != "" {
					t.Errorf("header: %v", h)
				}
			case 405:
				if h.Get("Allow") != "GET" {
					t.Errorf("Allow: %q", h.Get("Allow"))
				}
			case 426:
				if h.Get("Upgrade") != "websocket" || strings.Contains(c.name, "version") && h.Get("Sec-WebSocket-Version") != "13" {
					t.Errorf("header: %v", h)
				}
			}
			if strings.HasSuffix(c.name, "Host") || strings.HasSuffix(c.name, "Hosts") {
				return // net/http itself responds
			}
			err := <-results
			if no, ok := errors.AsType[*HandshakeError](err); (c.status == 101) != (err == nil) || err != nil && (!ok || no.Status != c.status) {
				t.Errorf("Upgrade = %v, want status %d", err, c.status)
			}
		})
	}
}

func TestUpgradeAsksForTheOrigin(t *testing.T) {
	asked := make(chan string, 1)
	addr, results := upgrades(t, &Options{CheckOrigin: func(r *http.Request) bool {
		asked <- r.Header.Get("Origin")
		return r.Header.Get("Origin") == "https://friend.test"
	}})
	for origin, want := range map[string]int{"https://friend.test": 101, "http://example.test": 403} {
		res := ask(t, addr, request("+Origin: "+origin))
		res.Body.Close()
		if got := <-asked; got != origin || res.StatusCode != want {
			t.Errorf("asked about %q and answered %d, want %q and %d", got, res.StatusCode, origin, want)
		}
		<-results
	}
}

// TestUpgradeKeepsEarlyBytes checks that a frame right after the handshake, which is in the buffer
// of net/http, is not lost.
func TestUpgradeKeepsEarlyBytes(t *testing.T) {
	got := make(chan string, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr, err := Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for range 2 {
			p, more, err := tr.Read()
			got <- fmt.Sprintf("%s %v %v", p, more, err)
		}
		tr.Close()
	}))
	t.Cleanup(s.Close)
	r := roles[0]
	res := ask(t, s.Listener.Addr().String(), request()+string(r.raw(fin|text, "[1]"))+string(r.raw(fin|text, "[2]")))
	res.Body.Close()
	for _, want := range []string{"[1] true <nil>", "[2] false <nil>"} {
		if p := <-got; p != want {
			t.Errorf("Read = %s, want %s", p, want)
		}
	}
}

// TestUpgradeWithoutHijack checks that HTTP/2 and wrapped writers, which cannot be taken over, get
// an error response.
func TestUpgradeWithoutHijack(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, value := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": sampleKey} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if _, err := Upgrade(w, r, nil); !errors.Is(err, http.ErrNotSupported) || w.Code != 500 {
		t.Errorf("Upgrade = %v, status %d, want %v and 500", err, w.Code, http.ErrNotSupported)
	}
	r.ProtoMajor, r.ProtoMinor = 2, 0
	w = httptest.NewRecorder()
	if _, err := Upgrade(w, r, nil); err == nil || w.Code != 400 {
		t.Errorf("Upgrade over HTTP/2 = %v, status %d, want 400", err, w.Code)
	}
}

func TestIsUpgrade(t *testing.T) {
	for value, want := range map[string]bool{"": false, "websocket": true, "WebSocket": true, "h2c, websocket": true, "websockets": false, "h2c": false} {
		if got := IsUpgrade(&http.Request{Header: http.Header{"Upgrade": {value}}}); got != want {
			t.Errorf("IsUpgrade of %q = %v, want %v", value, got, want)
		}
	}
}
