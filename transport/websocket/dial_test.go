package websocket

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering starts a server that reads one request and sends the result of answer.
func answering(t *testing.T, answer func(r *http.Request) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, answer(r))
		io.Copy(io.Discard, conn)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "ws://" + l.Addr().String() + "/rpc?x=1"
}

// agreed returns a valid response, with header lines replaced, removed ("-Name") or added ("+Name:
// value").
func agreed(r *http.Request, changes ...string) string {
	lines := []string{"HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Accept: " + acceptKey(r.Header.Get("Sec-WebSocket-Key"))}
	for _, change := range changes {
		if added, ok := strings.CutPrefix(change, "+"); ok {
			lines = append(lines, added)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(change, "-"), ":")
		for i := range lines {
			if strings.HasPrefix(lines[i], name) {
				lines[i] = strings.TrimPrefix(change, "-"+name)
			}
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

func TestDialJudgesTheAnswer(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []string
		offer   []string
		reason  string // if "", the response is accepted
	}{
		{"as it should be", nil, nil, ""},
		{"other case", []string{"Upgrade: WebSocket", "Connection: keep-alive, upgrade"}, nil, ""},
		{"no Upgrade", []string{"-Upgrade"}, nil, "Upgrade header"},
		{"another Upgrade", []string{"Upgrade: h2c"}, nil, "Upgrade header"},
		{"two Upgrades", []string{"Upgrade: websocket, h2c"}, nil, "Upgrade header"},
		{"no Connection", []string{"-Connection"}, nil, "Connection header"},
		{"no accept", []string{"-Sec-WebSocket-Accept"}, nil, "Sec-WebSocket-Accept"},
		{"another accept", []string{"Sec-WebSocket-Accept: " + sampleAccept}, nil, "Sec-WebSocket-Accept"},
		{"two accepts", []string{"+Sec-WebSocket-Accept: x"}, nil, "Sec-WebSocket-Accept"},
		{"an extension", []string{"+Sec-WebSocket-Extensions: permessage-deflate"}, nil, "extension"},
		{"an empty extension", []string{"+Sec-WebSocket-Extensions: "}, nil, ""},
		{"a subprotocol nobody offered", []string{"+Sec-WebSocket-Protocol: mcp"}, nil, "subprotocol"},
		{"another subprotocol", []string{"+Sec-WebSocket-Protocol: mcp"}, []string{"acp"}, "subprotocol"},
		{"two subprotocols", []string{"+Sec-WebSocket-Protocol: mcp, acp"}, []string{"mcp", "acp"}, "subprotocol"},
		{"a subprotocol twice", []string{"+Sec-WebSocket-Protocol: mcp", "+Sec-WebSocket-Protocol: mcp"}, []string{"mcp"}, "subprotocol"},
		{"a subprotocol", []string{"+Sec-WebSocket-Protocol: mcp"}, []string{"acp", "mcp"}, ""},
		{"no subprotocol", nil, []string{"mcp"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := answering(t, func(r *http.Request) string { return agreed(r, c.changes...) })
			tr, err := Dial(t.Context(), address, &Options{Subprotocols: c.offer, CloseTimeout: time.Millisecond})
			if c.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				tr.Close()
				return
			}
			no, ok := errors.AsType[*HandshakeError](err)
			if !ok || no.Status != 101 || !strings.Contains(no.Reason, c.reason) {
				t.Errorf("Dial = %v, want a HandshakeError about %q", err, c.reason)
			}
		})
	}
}

func TestDialRefused(t *testing.T) {
	long := strings.Repeat("no ", 1000)
	for _, c := range []struct {
		name, answer string
		status       int // 0 if the response is not HTTP
		body         string
	}{
		{"unauthorized", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 5\r\n\r\nnever", 401, "never"},
		{"a redirect", "HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 302, ""},
		{"a long body", "HTTP/1.1 500 Oh\r\nContent-Length: 3000\r\n\r\n" + long, 500, long[:1024]},
		{"200", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
		{"hints first", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", 403, ""},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", 0, ""},
		{"a header without end", "HTTP/1.1 101 Switching Protocols\r\nX: " + strings.Repeat("x", 70<<10), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := answering(t, func(*http.Request) string { return c.answer })
			_, err := Dial(t.Context(), address, nil)
			no, ok := errors.AsType[*HandshakeError](err)
			if ok != (c.status != 0) || err == nil {
				t.Fatalf("Dial = %v", err)
			}
			if ok && (no.Status != c.status || no.Body != c.body) {
				t.Errorf("Dial = %v, want status %d and body %q", err, c.status, c.body)
			}
			if c.status == 401 && no.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("header: %v", no.Header)
			}
		})
	}
}

func TestDialRequest(t *testing.T) {
	got := make(chan *http.Request, 1)
	address := answering(t, func(r *http.Request) string {
		got <- r
		return agreed(r, "+Sec-WebSocket-Protocol: mcp")
	})
	header := http.Header{
		"Authorization": {"Bearer s3cret"}, "Host": {"other.test"}, "Sec-Websocket-Extensions": {"x"},
		"Sec-Websocket-Key": {"mine"}, "Upgrade": {"h2c"},
	}
	tr, err := Dial(t.Context(), address, &Options{Header: header, Subprotocols: []string{"mcp", "acp"}, CloseTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	r := <-got
	if r.Method != "GET" || r.RequestURI != "/rpc?x=1" || r.Host != "other.test" || r.ProtoMinor != 1 {
		t.Errorf("%s %s, host %s", r.Method, r.RequestURI, r.Host)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer s3cret", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Protocol": "mcp, acp",
	} {
		if got := r.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if key := r.Header.Get("Sec-WebSocket-Key"); !isKey(key) {
		t.Errorf("key %q", key)
	}
	if r.Header.Get("Sec-WebSocket-Extensions") != "" || tr.Subprotocol() != "mcp" {
		t.Errorf("extensions %q, subprotocol %q", r.Header.Get("Sec-WebSocket-Extensions"), tr.Subprotocol())
	}
	if header.Get("Upgrade") != "h2c" {
		t.Error("Dial changed the caller's header")
	}
}

func TestDialAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1/":              "scheme",
		"127.0.0.1:80":                   "address",
		"ws:///rpc":                      "missing host",
		"ws://127.0.0.1/#part":           "fragment",
		"ws://127.0.0.1/#":               "fragment",
		"ws://user:s3cret@127.0.0.1:x/":  "port",
		"ws://user:s3cret@127.0.0.1:1/?": "dial 127.0.0.1:1",
	} {
		_, err := Dial(t.Context(), address, &Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("nobody is here")
		}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Dial(%q) = %v, want an error about %q, and no password", address, err, want)
		}
	}
	if _, err := Dial(t.Context(), "ws://127.0.0.1/", &Options{Subprotocols: []string{"a b"}}); err == nil {
		t.Error("a subprotocol with a blank was taken")
	}
}

func TestDialBasicAuth(t *testing.T) {
	got := make(chan string, 1)
	address := answering(t, func(r *http.Request) string {
		got <- r.Header.Get("Authorization")
		return agreed(r)
	})
	tr, err := Dial(t.Context(), strings.Replace(address, "ws://", "ws://Aladdin:open%20sesame@", 1), &Options{CloseTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	tr.Close()
	if a := <-got; a != "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" { // RFC 7617, section 2
		t.Errorf("Authorization: %q", a)
	}
}

// TestDialTimeout checks that Dial fails after 5 s if the server accepts the connection and sends
// nothing, or earlier if ctx ends.
func TestDialTimeout(t *testing.T) {
	for _, c := range []struct {
		name     string
		ctx      time.Duration // 0 means no timeout
		took     time.Duration
		consumes bool
	}{{"nobody reads", 0, 5 * time.Second, false}, {"nobody answers", 0, 5 * time.Second, true}, {"ctx ends", time.Second, time.Second, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				if c.consumes {
					go io.Copy(io.Discard, far)
				}
				ctx := t.Context()
				if c.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ctx)
					defer cancel()
				}
				start := time.Now()
				_, err := Dial(ctx, "ws://example.test/", &Options{DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }})
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != c.took {
					t.Errorf("Dial = %v after %v, want %v after %v", err, time.Since(start), context.DeadlineExceeded, c.took)
				}
				if _, err := far.Write([]byte{0}); err == nil {
					t.Error("the connection is still open")
				}
			})
		})
	}
}

// TestDialKeepsEarlyBytes checks that a frame right after the server's response is not lost.
func TestDialKeepsEarlyBytes(t *testing.T) {
	r := roles[1]
	address := answering(t, func(req *http.Request) string {
		return agreed(req) + string(r.raw(fin|text, "[1]")) + string(r.raw(close8, closing(1001, "")))
	})
	tr, err := Dial(t.Context(), address, &Options{CloseTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if p, _, err := tr.Read(); err != nil || string(p) != "[1]" {
		t.Errorf("Read = %q, %v", p, err)
	}
	if _, _, err := tr.Read(); err != io.EOF {
		t.Errorf("Read = %v, want %v", err, io.EOF)
	}
}

// echoing returns an HTTP handler that echoes messages until the peer closes.
func echoing(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr, err := Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			p, _, err := tr.Read()
			if err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				break
			}
			if err := tr.Write(burst(string(p))); err != nil {
				t.Error(err)
			}
		}
		tr.Close()
	})
}

// roundTrips sends messages of all sizes and closes.
func roundTrips(t *testing.T, tr *Transport) {
	t.Helper()
	for _, n := range []int{2, 100, 5000, 20_000, 300_000, 1_500_000} {
		sent := strings.Repeat("é", n/2)
		wrote := make(chan error, 1)
		go func() { wrote <- tr.Write(burst(sent)) }()
		p, _, err := tr.Read()
		if err != nil || string(p) != sent {
			t.Fatalf("%d bytes came back as %d, %v", n, len(p), err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(echoing(t))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails below
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	address := "wss" + strings.TrimPrefix(s.URL, "https")
	tr, err := Dial(t.Context(), address, &Options{TLS: &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}, CloseTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	roundTrips(t, tr)
	if _, err := Dial(t.Context(), address, nil); err == nil {
		t.Error("Dial took a certificate that nobody vouches for")
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(echoing(t))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	tr, err := Dial(t.Context(), "ws://localhost/rpc", &Options{CloseTimeout: time.Hour, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}})
	if err != nil {
		t.Fatal(err)
	}
	roundTrips(t, tr)
}

func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		client, server []string
		want           string
	}{
		{nil, nil, ""},
		{[]string{"mcp"}, nil, ""},
		{nil, []string{"mcp"}, ""},
		{[]string{"mcp", "acp"}, []string{"acp", "mcp"}, "mcp"}, // the client's order
		{[]string{"other", "acp"}, []string{"acp", "mcp"}, "acp"},
		{[]string{"MCP"}, []string{"mcp"}, ""},
	} {
		got := make(chan string, 1)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tr, err := Upgrade(w, r, &Options{Subprotocols: c.server})
			if err != nil {
				t.Error(err)
				return
			}
			got <- tr.Subprotocol()
			_, _, _ = tr.Read() // until the client closes
			tr.Close()
		}))
		tr, err := Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), &Options{Subprotocols: c.client})
		if err != nil {
			t.Fatal(err)
		}
		if server := <-got; server != c.want || tr.Subprotocol() != c.want {
			t.Errorf("%q with %q: %q and %q, want %q", c.client, c.server, server, tr.Subprotocol(), c.want)
		}
		tr.Close()
		s.Close()
	}
}
