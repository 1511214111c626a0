package httprpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestPipelining sends requests without waiting for responses, which arrive in order (RFC 9112,
// section 9.3.2).
func TestPipelining(t *testing.T) {
	web := serve(t, Handler(methods()))
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var all strings.Builder
	for i := range 20 {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"subtract","params":[%d,1],"id":%d}`, i, i)
		all.WriteString(strings.Replace(post(body), "Connection: close\r\n", "", 1))
	}
	if _, err := io.WriteString(conn, all.String()); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	for i := range 20 {
		got, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","result":%d,"id":%d}`, i-1, i); string(body) != want || err != nil {
			t.Errorf("answer %d: got %s, %v; want %s", i, body, err, want)
		}
	}
}

// overHTTP2 returns a server with the limits of a listener, and one connection to it that uses
// HTTP/2 in cleartext.
func overHTTP2(t *testing.T, h http.Handler) (*httptest.Server, *http.ClientConn) {
	web := httptest.NewUnstartedServer(nil)
	web.Config = guard.NewServer(h, nil)
	web.Start()
	t.Cleanup(web.Close)
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: only}
	conn, err := transport.NewClientConn(t.Context(), "http", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return web, conn
}

// TestRefusalsOverHTTP2 checks that a refused request costs the other streams of its connection
// nothing: one that was open before all refusals gets its response after them.
func TestRefusalsOverHTTP2(t *testing.T) {
	m := methods()
	release := make(chan struct{})
	m.Add("hold", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, _ struct{}) (string, error) {
		if err := p.Notify(ctx, "tick", nil); err != nil {
			return "", err
		}
		select {
		case <-release:
			return "released", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}))
	s := Handler(m)
	s.MaxMessage = 1000
	web, conn := overHTTP2(t, s)
	send := func(method, kind, accept, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, web.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		req.Header.Set("Accept", accept)
		got, err := conn.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s with %d bytes of %s: %v", method, len(body), kind, err)
		}
		return got
	}
	held := send("POST", "application/json", "application/json, text/event-stream", `{"jsonrpc":"2.0","method":"hold","id":1}`)
	defer held.Body.Close()
	for name, tt := range map[string]struct {
		method, kind, body string
		want               int
	}{
		"method":   {"PUT", "application/json", callText, 405},
		"type":     {"POST", "text/plain", callText, 415},
		"too long": {"POST", "application/json", strings.Repeat(" ", 200_000), 413},
		"fine":     {"POST", "application/json", callText, 200},
		"nothing":  {"POST", "application/json", noteText, 204},
	} {
		for range 3 {
			got := send(tt.method, tt.kind, "application/json", tt.body)
			_, _ = io.Copy(io.Discard, got.Body) // the status is checked
			got.Body.Close()
			if got.StatusCode != tt.want || got.ProtoMajor != 2 {
				t.Errorf("%s: got %s over %s, want %d", name, got.Status, got.Proto, tt.want)
			}
		}
	}
	close(release)
	body, err := io.ReadAll(held.Body)
	if err != nil || !strings.Contains(string(body), `"released"`) {
		t.Errorf("the stream that was open before: got %q, %v", body, err)
	}
}

// TestClientOverTLS checks that the client trusts the authorities of its TLS configuration, uses
// HTTP/2 and multiplexes.
func TestClientOverTLS(t *testing.T) {
	var protos sync.Map
	h := Handler(methods())
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos.Store(r.Proto, true)
		h.ServeHTTP(w, r)
	}))
	web.EnableHTTP2 = true
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // the stranger's handshake
	web.StartTLS()
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	c := client(t, web, &Options{TLS: &tls.Config{RootCAs: roots}})
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			var ticks atomic.Int64
			var last string
			err := c.Stream(t.Context(), "count", []int{i % 5}, &last, func(*jsonrpc.Request) error { ticks.Add(1); return nil })
			if err != nil || last != "lift-off" || ticks.Load() != int64(i%5) {
				t.Errorf("got %d ticks, %q, %v", ticks.Load(), last, err)
			}
		})
	}
	callers.Wait()
	if _, ok := protos.Load("HTTP/2.0"); !ok {
		t.Error("HTTP/2 was not spoken")
	}
	stranger := client(t, web, nil)
	if err := stranger.Call(t.Context(), "update", nil, nil); err == nil {
		t.Error("a certificate of nobody was taken")
	}
}

// TestAnEmptyAnswerThatIsLost simulates a rare race of net/http: it reuses a connection before it
// returns the response that was read from it, and the call that reuses the connection is cancelled.
func TestAnEmptyAnswerThatIsLost(t *testing.T) {
	for _, others := range []error{context.Canceled, context.DeadlineExceeded, jsonrpc.ErrTimeout, jsonrpc.ErrClosed} {
		c := NewClient("http://server.example/", &Options{HTTP: &http.Client{
			Transport: tripper(func(*http.Request) (*http.Response, error) { return nil, others })}})
		if err := c.Notify(t.Context(), "update", nil); err != nil {
			t.Errorf("%v: a notification fails with %v, though it was answered", others, err)
		}
		if err := c.Call(t.Context(), "update", nil, nil); !errors.Is(err, jsonrpc.ErrBadResponse) || errors.Is(err, others) {
			t.Errorf("%v: a call fails with %v, want ErrBadResponse: nobody gave it up", others, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(others)
		if err := c.Notify(ctx, "update", nil); !errors.Is(err, others) {
			t.Errorf("%v: a notification that is given up fails with %v", others, err)
		}
	}
	c := NewClient("http://server.example/", &Options{HTTP: &http.Client{
		Transport: tripper(func(*http.Request) (*http.Response, error) { return nil, os.ErrDeadlineExceeded })}})
	if err := c.Notify(t.Context(), "update", nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a timeout of the network: %v", err)
	}
}

// TestEverythingAtOnce mixes calls, streams, batches, notifications and callers that leave, on one
// client. Each gets its own response or its own error.
func TestEverythingAtOnce(t *testing.T) {
	m := methods()
	m.Add("slow", jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	web := serve(t, Handler(m))
	c := client(t, web, nil)
	var callers sync.WaitGroup
	for i := range 40 {
		callers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1)) // fixed, so that a failure is reproducible
			for range 15 {
				switch n := rng.IntN(1000); n % 5 {
				case 0:
					if got, err := jsonrpc.Call[int](t.Context(), c, "subtract", operands{n, 1}); err != nil || got != n-1 {
						t.Errorf("call: got %d, %v, want %d", got, err, n-1)
					}
				case 1:
					var ticks []string
					if err := c.Stream(t.Context(), "count", []int{3}, nil, func(r *jsonrpc.Request) error {
						ticks = append(ticks, string(r.Params))
						return nil
					}); err != nil || !slices.Equal(ticks, []string{"[3]", "[2]", "[1]"}) {
						t.Errorf("stream: got %v, %v", ticks, err)
					}
				case 2:
					a, b := 0, 0
					items := []jsonrpc.Item{{Method: "subtract", Params: []int{n, 0}, Result: &a}, {Method: "subtract", Params: []int{0, n}, Result: &b}}
					if err := c.Batch(t.Context(), items); err != nil || a != n || b != -n {
						t.Errorf("batch: got %d, %d, %v", a, b, err)
					}
				case 3:
					if err := c.Notify(t.Context(), "update", []int{n}); err != nil {
						t.Errorf("notify: %v", err)
					}
				case 4:
					ctx, cancel := context.WithCancel(t.Context())
					go cancel()
					if err := c.Call(ctx, "slow", nil, nil); !errors.Is(err, context.Canceled) {
						t.Errorf("cancelled: %v", err)
					}
				}
			}
		})
	}
	callers.Wait()
}
