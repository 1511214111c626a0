package tap_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
)

// serveHTTP2 serves h with HTTP/2 without TLS only.
func serveHTTP2(t *testing.T, h http.Handler) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: &only}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until Close
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l.Addr().String()
}

// http2Conn returns a connection that uses HTTP/2 in cleartext. A client of net/http may open
// another one before its first one is in its pool.
func http2Conn(t *testing.T, address string) *http.ClientConn {
	t.Helper()
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	conn, err := (&http.Transport{Protocols: &only}).NewClientConn(t.Context(), "http", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return conn
}

// A copied stores what is transmitted on its connection.
type copied struct {
	net.Conn
	mu         sync.Mutex
	read, sent bytes.Buffer
}

func (c *copied) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read.Write(p[:n])
	return n, err
}

func (c *copied) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent.Write(p)
	c.mu.Unlock()
	return c.Conn.Write(p)
}

type copying struct {
	net.Listener
	conns chan *copied
}

func (l *copying) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	out := &copied{Conn: c}
	l.conns <- out
	return out, nil
}

// TestRelayOfHTTP2 checks that HTTP/2 is forwarded byte for byte and parsed: concurrent requests on
// one connection, an event stream, a large body, and a request that its client cancels.
func TestRelayOfHTTP2(t *testing.T) {
	waiting, gone := make(chan struct{}), make(chan struct{})
	address := serveHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n\n")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":2}\n\n")
		case "/wait":
			close(waiting)
			<-r.Context().Done()
			close(gone)
		case "/no":
			http.Error(w, "go away", http.StatusForbidden)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}
	}))
	rec := newRecorder(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &copying{l, make(chan *copied, 1)}
	back := make(chan *copied, 1)
	r := &tap.Relay{Carrier: tap.HTTP, Record: rec, Host: "another.example", Names: []string{l.Addr().String()}, Failed: func(err error) { t.Error(err) }}
	r.Dial = func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		out := &copied{Conn: c}
		back <- out
		return out, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx, front) }()

	client := http2Conn(t, l.Addr().String())
	post := func(ctx context.Context, path, body string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+l.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		if res.ProtoMajor != 2 {
			t.Errorf("%s was answered in %s", path, res.Proto)
		}
		got, err := io.ReadAll(res.Body)
		return string(got), err
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"a"}`
	for _, path := range []string{"/events", "/no", "/"} {
		if _, err := post(t.Context(), path, call); err != nil {
			t.Fatal(err)
		}
	}
	large := `{"jsonrpc":"2.0","method":"large","params":["` + strings.Repeat("x", 300_000) + `"]}`
	if got, err := post(t.Context(), "/", large); err != nil || got != large {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"many"}`, i)
			if got, err := post(t.Context(), "/many", body); err != nil || got != body {
				t.Errorf("%s came back as %s, %v", body, got, err)
			}
		})
	}
	all.Wait()
	giveUp, stop := context.WithCancel(t.Context())
	go func() {
		<-waiting
		stop()
	}()
	if _, err := post(giveUp, "/wait", call); err == nil {
		t.Error("there is an answer to what was given up")
	}
	<-gone
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}

	near, far := <-front.conns, <-back
	if !bytes.HasPrefix(near.read.Bytes(), far.sent.Bytes()) || !bytes.HasPrefix(far.read.Bytes(), near.sent.Bytes()) || far.sent.Len() < 300_000 || near.sent.Len() < 300_000 {
		t.Errorf("%d bytes from the client, %d to the server; %d from the server, %d to the client; want the same ones", near.read.Len(), far.sent.Len(), far.read.Len(), near.sent.Len())
	}
	got := seen(rec)
	want := []string{
		"open", "http POST /events 200 done", "request out " + call, `notification in {"jsonrpc":"2.0","method":"tick"}`, `result in {"jsonrpc":"2.0","id":1,"result":2}`,
		"http POST /no 403 error", "request out " + call, "junk in go away",
		"http POST / 200 done", "request out " + call, "request in " + call,
		"http POST / 200 done", "notification out " + large[:80], "notification in " + large[:80],
	}
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	count := 0
	for _, line := range got {
		if strings.Contains(line, `"method":"many"`) {
			count++
		}
		if strings.Contains(line, "no HTTP") {
			t.Error(line)
		}
	}
	if count != 40 {
		t.Errorf("%d of 20 requests and 20 responses were recorded", count)
	}
	for _, row := range rec.Rows(capture.Ref{}, 0) {
		switch {
		case row.Kind == capture.RowHTTP && row.Name == "/wait" && row.State != capture.StateCancelled:
			t.Errorf("what was given up is %q", row.State)
		case row.Kind == capture.RowHTTP && row.Name == "/":
			if e, err := rec.Event(row.Ref.Seq); err != nil || e.Header.Get("Host") != l.Addr().String() || e.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the headers are %v, %v", e.Header, err)
			}
		}
	}
}

// TestHTTP2InPieces checks that frames give the same result for any division into pieces. Broken
// ones are reported and forwarded.
func TestHTTP2InPieces(t *testing.T) {
	frame := func(kind, flags byte, id uint32, payload string) string {
		return string([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}) + payload
	}
	// Literal fields without a table (RFC 7541, section 6.2.2).
	field := func(name, value string) string {
		return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
	}
	head := field(":method", "POST") + field(":path", "/x") + field("content-type", "application/json")
	out := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "\x00\x01\x00\x00\x10\x00") + frame(1, 0, 1, head[:7]) + frame(9, 4, 1, head[7:]) +
		frame(0, 8, 1, "\x03"+`{"jsonrpc":"2.0",`+"\x00\x00\x00") + frame(0, 1, 1, `"id":1,"method":"a"}`)
	in := frame(4, 0, 0, "") + frame(1, 4, 1, field(":status", "103")) + frame(1, 4|0x20, 1, "\x00\x00\x00\x00\x10"+field(":status", "200")+field("content-type", "application/json")) +
		frame(0, 0, 1, `{"jsonrpc":"2.0",`) + frame(0, 0, 1, `"id":1,"result":2}`) + frame(1, 5, 1, field("grpc-status", "0"))
	for _, c := range []struct{ name, out, in, want string }{
		{"whole", out, in, "http POST /x 200 done|request out {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}|result in {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":2}"},
		{"another preface", "PRI * HTTP/2.0\r\n\r\nXX", "", "junk out"},
		{"reset by the server", out, frame(3, 0, 1, "\x00\x00\x00\x02"), "http POST /x 0 unanswered|request out {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}"},
		{"no table like that", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(1, 4, 1, "\xff\xff\xff\xff\xff\xff\xff"), "", "junk out"},
	} {
		for _, n := range []int{1, 2, 3, 7, 1000} {
			rec := newRecorder(t)
			near, client := net.Pipe()
			server, far := net.Pipe()
			r := &tap.Relay{Carrier: tap.HTTP, Record: rec, Dial: func(context.Context) (net.Conn, error) { return server, nil }}
			l := &once{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
			l.conns <- near
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Serve(ctx, l) }()
			for _, way := range []struct {
				from, to net.Conn
				data     string
			}{{client, far, c.out}, {far, client, c.in}} {
				go func() {
					for rest := way.data; rest != ""; {
						k := min(n, len(rest))
						if _, err := io.WriteString(way.from, rest[:k]); err != nil {
							t.Error(err)
							return
						}
						rest = rest[k:]
					}
				}()
				got := make([]byte, len(way.data))
				if _, err := io.ReadFull(way.to, got); err != nil || string(got) != way.data {
					t.Errorf("%s in pieces of %d: %q passed as %q, %v", c.name, n, way.data, got, err)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := strings.Join(seen(rec)[1:], "|"); got != c.want+"|close" {
				t.Errorf("%s in pieces of %d is read as\n%s\nwant\n%s", c.name, n, got, c.want)
			}
		}
	}
}
