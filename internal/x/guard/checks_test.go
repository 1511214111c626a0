package guard

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http sleeps half a second before it closes a connection whose body was not read.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var ok200 = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") })

// came returns a request that arrives on port 3000, with headers in the form "Name: value".
func came(method, host string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "/rpc", nil)
	r.Host = host
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3000}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
}

func mustDoor(t *testing.T, o *Options) *Door {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func status(f *Refusal) int {
	if f == nil {
		return http.StatusOK
	}
	return f.Status
}

func TestHost(t *testing.T) {
	d := mustDoor(t, &Options{Hosts: []string{"Box.example", "other.example:8443", "any.example:*", "fd00::7", "10.0.0.7", "localhost", "::1"}})
	tests := []struct {
		host string
		want int
	}{
		{"localhost:3000", 200},
		{"LocalHost:3000", 200},
		{"127.0.0.1:3000", 200},
		{"[::1]:3000", 200},
		{"box.example:3000", 200},
		{"BOX.example", 200}, // behind a proxy on port 80
		{"other.example:8443", 200},
		{"any.example", 200},
		{"any.example:1", 200},
		{"[fd00::7]:3000", 200},
		{"10.0.0.7:3000", 200},
		{"", 400},
		{"localhost", 403}, // this means port 80, even if the name is configured
		{"[::1]", 403},
		{"localhost:3001", 403},
		{"localhost:03000", 403},
		{"localhost:+3000", 403},
		{"localhost:", 403},
		{"localhost:3000:3000", 403},
		{"localhost.:3000", 403},
		{"localhost.evil.example:3000", 403},
		{"evil.example:3000", 403},
		{"evil.example", 403},
		{"xlocalhost:3000", 403},
		{"127.0.0.2:3000", 403},
		{"127.1:3000", 403},
		{"2130706433:3000", 403},
		{"0x7f.0.0.1:3000", 403},
		{"::1:3000", 403},
		{"[::ffff:127.0.0.1]:3000", 403},
		{"[::1%25lo]:3000", 403},
		{"[::1:3000", 403},
		{"localhost:3000@evil.example", 403},
		{"box.example:3001", 403},
		{"other.example", 403},
		{"other.example:3000", 403},
		{"other.example:443", 403},
		{"sub.box.example:3000", 403},
	}
	for _, tt := range tests {
		if got := status(d.Check(came("POST", tt.host))); got != tt.want {
			t.Errorf("Host %q: got %d, want %d", tt.host, got, tt.want)
		}
	}
	second := came("POST", "localhost:3000")
	second.Header["Host"] = []string{"evil.example"}
	if got := status(d.Check(second)); got != 400 {
		t.Errorf("a second Host: got %d, want 400", got)
	}
	second.Header["Host"] = []string{"localhost:3000"}
	if got := status(d.Check(second)); got != 200 {
		t.Errorf("the same Host beside :authority: got %d, want 200", got)
	}
	nowhere := httptest.NewRequest("POST", "/", nil)
	nowhere.Host = "localhost:3000"
	if got := status(d.Check(nowhere)); got != 403 {
		t.Errorf("unknown listening port: got %d, want 403", got)
	}
	if got := status(mustDoor(t, &Options{Port: 3000}).Check(nowhere)); got != 200 {
		t.Errorf("Options.Port: got %d, want 200", got)
	}
}

func TestOrigin(t *testing.T) {
	d := mustDoor(t, &Options{
		Hosts:   []string{"box.example"},
		Origins: []string{"https://app.example", "http://dev.example:5173", "vscode-webview://abc"},
	})
	tests := []struct {
		origin string
		want   int
	}{
		{"http://localhost:3000", 200},
		{"https://localhost:3000", 200},
		{"http://127.0.0.1:3000", 200},
		{"http://[::1]:3000", 200},
		{"HTTP://LOCALHOST:3000", 200},
		{"https://box.example", 200},
		{"https://box.example:3000", 200},
		{"https://app.example", 200},
		{"https://app.example:443", 200},
		{"http://dev.example:5173", 200},
		{"vscode-webview://abc", 200},
		{"", 403},
		{"null", 403},
		{"http://localhost", 403},
		{"http://localhost:3001", 403},
		{"http://localhost:3000/", 403},
		{"http://localhost:3000.evil.example", 403},
		{"http://evil.example#http://localhost:3000", 403},
		{"http://user@localhost:3000", 403},
		{"http://localhost:3000 http://evil.example", 403},
		{"ftp://localhost:3000", 403},
		{"//localhost:3000", 403},
		{"localhost:3000", 403},
		{"http://app.example", 403},
		{"https://app.example:8443", 403},
		{"https://app.example.evil.example", 403},
		{"https://evilapp.example", 403},
		{"https://sub.app.example", 403},
		{"http://dev.example", 403},
		{"vscode-webview://abcd", 403},
		{"https://box.example:444", 403},
	}
	for _, tt := range tests {
		if got := status(d.Check(came("POST", "localhost:3000", "Origin: "+tt.origin))); got != tt.want {
			t.Errorf("Origin %q: got %d, want %d", tt.origin, got, tt.want)
		}
	}
	two := came("POST", "localhost:3000", "Origin: http://localhost:3000", "Origin: http://localhost:3000")
	if got := status(d.Check(two)); got != 403 {
		t.Errorf("two Origin headers: got %d, want 403", got)
	}
	// With DNS rebinding, both headers name the attacker and agree.
	if got := status(d.Check(came("POST", "evil.example:3000", "Origin: http://evil.example:3000"))); got != 403 {
		t.Errorf("rebinding: got %d, want 403", got)
	}
}

func TestFetchMetadata(t *testing.T) {
	d := mustDoor(t, &Options{
		Origins: []string{"https://app.example"},
		Pages:   func(r *http.Request) bool { return r.URL.Path == "/" },
	})
	tests := []struct {
		name    string
		method  string
		path    string
		headers string
		want    int
	}{
		{"own page", "POST", "/rpc", "Sec-Fetch-Site: same-origin", 200},
		{"typed by hand", "GET", "/rpc", "Sec-Fetch-Site: none", 200},
		{"another site", "POST", "/rpc", "Sec-Fetch-Site: cross-site", 403},
		{"another port", "POST", "/rpc", "Sec-Fetch-Site: same-site", 403},
		{"a word of the future", "POST", "/rpc", "Sec-Fetch-Site: neighbour", 403},
		{"twice", "POST", "/rpc", "Sec-Fetch-Site: same-origin|Sec-Fetch-Site: cross-site", 403},
		{"a link to a page", "GET", "/", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", 200},
		{"a link to a route", "GET", "/rpc", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", 403},
		{"a form to a page", "POST", "/", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document", 403},
		{"a frame", "GET", "/", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: iframe", 403},
		{"a script of a page", "GET", "/", "Sec-Fetch-Site: cross-site|Sec-Fetch-Mode: no-cors|Sec-Fetch-Dest: script", 403},
		{"a configured site", "POST", "/rpc", "Sec-Fetch-Site: cross-site|Origin: https://app.example", 200},
		{"own page under its other name", "POST", "/rpc", "Sec-Fetch-Site: cross-site|Origin: http://127.0.0.1:3000", 403},
		{"preflight", "OPTIONS", "/rpc", "Origin: https://app.example|Access-Control-Request-Method: POST", 403},
		{"preflight without Origin", "OPTIONS", "/rpc", "Access-Control-Request-Method: POST", 403},
		{"plain OPTIONS", "OPTIONS", "/rpc", "X: y", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := came(tt.method, "localhost:3000", strings.Split(tt.headers, "|")...)
			r.URL.Path = tt.path
			if got := status(d.Check(r)); got != tt.want {
				t.Errorf("%s %s %s: got %d, want %d", tt.method, tt.path, tt.headers, got, tt.want)
			}
		})
	}
}

func TestNewRefusesWhatNeverMatches(t *testing.T) {
	for _, o := range []*Options{
		{Hosts: []string{""}},
		{Hosts: []string{"http://box.example"}},
		{Hosts: []string{"box.example:0"}},
		{Hosts: []string{"box.example:70000"}},
		{Hosts: []string{"box.example:80:*"}},
		{Hosts: []string{"[::1"}},
		{Origins: []string{"app.example"}},
		{Origins: []string{"null"}},
		{Origins: []string{"*"}},
		{Origins: []string{"https://app.example/path"}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("New(%+v) took it", *o)
		}
	}
}

func TestHeaderBound(t *testing.T) {
	d := mustDoor(t, nil)
	long := came("POST", "localhost:3000", "X: "+strings.Repeat("x", 32<<10-5))
	if got := status(d.Check(long)); got != 200 {
		t.Errorf("32 KiB: got %d, want 200", got)
	}
	long.Header.Add("Y", "")
	if got := status(d.Check(long)); got != 431 {
		t.Errorf("more than 32 KiB: got %d, want 431", got)
	}
}

func TestUnixSocketHasNoPort(t *testing.T) {
	d := mustDoor(t, nil)
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, d.Wrap(ok200))
	for host, want := range map[string]string{"localhost": "200", "localhost:80": "200", "evil.example": "403"} {
		if got := raw(t, listener.Addr(), "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 "+want) {
			t.Errorf("Host %s: got %q, want %s", host, got, want)
		}
	}
}

// TestHostOnTheWire checks the combined behaviour of net/http and the access checks.
func TestHostOnTheWire(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, mustDoor(t, nil).Wrap(ok200))
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	tests := []struct {
		name, request, want string
	}{
		{"good", "GET / HTTP/1.1\r\nHost: localhost:PORT\r\n", "200"},
		{"missing", "GET / HTTP/1.1\r\n", "400"},
		{"missing in 1.0", "GET / HTTP/1.0\r\n", "400"},
		{"empty", "GET / HTTP/1.1\r\nHost:\r\n", "400"},
		{"two", "GET / HTTP/1.1\r\nHost: localhost:PORT\r\nHost: evil.example\r\n", "400"},
		{"two alike", "GET / HTTP/1.1\r\nHost: localhost:PORT\r\nHost: localhost:PORT\r\n", "400"},
		{"an absolute target wins", "GET http://evil.example/ HTTP/1.1\r\nHost: localhost:PORT\r\n", "403"},
		{"rebound", "GET / HTTP/1.1\r\nHost: evil.example:PORT\r\n", "403"},
		{"a header line of 40 KiB", "GET / HTTP/1.1\r\nHost: localhost:PORT\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n", "431"},
		{"two lengths", "POST / HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "400"},
		{"a negative length", "POST / HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: -1\r\n", "400"},
		{"a signed length", "POST / HTTP/1.1\r\nHost: localhost:PORT\r\nContent-Length: +1\r\n", "400"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request := strings.ReplaceAll(tt.request, "PORT", port) + "Connection: close\r\n\r\n"
			if got := raw(t, listener.Addr(), request); !strings.Contains(strings.SplitN(got, "\r\n", 2)[0], " "+tt.want) {
				t.Errorf("got %q, want %s", got, tt.want)
			}
		})
	}
}

// serve runs a server until the test ends.
func serve(t *testing.T, listener net.Listener, h http.Handler) {
	t.Helper()
	server := NewServer(h, nil)
	done := make(chan struct{})
	// Ends with the error of Close.
	go func() { defer close(done); _ = server.Serve(Linger(listener)) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

// raw sends bytes and returns all received bytes.
func raw(t *testing.T, addr net.Addr, request string) string {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The server may respond before it has read everything.
	go func() { _, _ = io.WriteString(conn, request) }()
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil && len(answer) == 0 {
		t.Fatal(err)
	}
	return string(answer)
}
