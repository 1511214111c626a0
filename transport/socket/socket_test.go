package socket_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/socket"
	"github.com/da1ed7bb/parley/transport/stream"
)

func one(text string) jsonrpc.Burst {
	var b jsonrpc.Burst
	b.Add([]byte(text))
	return b
}

// TestFull checks that a connection above the limit gets an error and is closed, and that a
// released place can be used again.
func TestFull(t *testing.T) {
	server, client := certificate(t)
	for name, o := range map[string]struct{ listen, dial socket.Options }{
		"line":   {},
		"header": {socket.Options{Framing: stream.Header}, socket.Options{Framing: stream.Header}},
		"tls":    {socket.Options{TLS: server}, socket.Options{TLS: client}},
	} {
		t.Run(name, func(t *testing.T) {
			var refused atomic.Int32
			o.listen.MaxConns = 2
			o.listen.Report = func(string, error) { refused.Add(1) }
			network := "tcp"
			if o.listen.TLS != nil {
				network = "tls"
			}
			l := listen(t, network, &o.listen)
			if l.Limit() != 2 {
				t.Errorf("Limit = %d, want 2", l.Limit())
			}
			_, server1 := pair(t, l, &o.dial)
			client2, _ := pair(t, l, &o.dial)

			accepted := make(chan *socket.Transport)
			go func() {
				s, err := l.Accept()
				if err != nil {
					t.Error(err)
				}
				accepted <- s
			}()
			for range 3 {
				c, err := socket.Dial(t.Context(), networkOf(l, &o.dial), l.Addr().String(), &o.dial)
				if err != nil {
					t.Fatal(err)
				}
				// What the peer has already sent must not prevent it from receiving the response.
				_ = c.Write(one(strings.Repeat(`[1,2,3]`, 1000)))
				p, _, err := c.Read()
				if err != nil {
					t.Fatalf("Read = %v, want the answer -31001", err)
				}
				var answer struct {
					ID    *int
					Error struct {
						Code int
						Data jsonrpc.FaultData
					}
				}
				if err := json.Unmarshal(p, &answer); err != nil || answer.Error.Code != jsonrpc.CodeBusy || !answer.Error.Data.Retryable || !strings.Contains(string(p), `"id":null`) {
					t.Errorf("the answer is %s, want -31001 with id null", p)
				}
				if _, _, err := c.Read(); err != io.EOF {
					t.Errorf("Read = %v, want io.EOF", err)
				}
				_ = c.Close()
			}
			if n := refused.Load(); n != 3 {
				t.Errorf("%d refusals were reported, want 3", n)
			}

			_, _ = server1.Close(), server1.Close() // twice, which releases only one place
			client4, err := socket.Dial(t.Context(), "tcp", l.Addr().String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			server4 := <-accepted
			for _, c := range []io.Closer{client2, client4, server4} {
				_ = c.Close()
			}
		})
	}
}

// TestLoopbackIsExempt checks that the bound for each address does not apply to loopback.
func TestLoopbackIsExempt(t *testing.T) {
	l := listen(t, "tcp", &socket.Options{MaxPerIP: 1})
	for range 3 {
		c, s := pair(t, l, nil)
		defer c.Close()
		defer s.Close()
	}
}

func TestUnixFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	path := filepath.Join(dir, "s")
	listen := func() (*socket.Listener, error) { return socket.Listen(t.Context(), "unix", path, nil) }

	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600 | os.ModeSocket, dir: 0o700 | os.ModeDir} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}

	if _, err := listen(); !errors.Is(err, socket.ErrInUse) {
		t.Errorf("a second listener = %v, want %v", err, socket.ErrInUse)
	}
	c, s := pair(t, l, nil) // the first one is not affected
	_, _ = c.Close(), s.Close()

	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after Close the file is still there: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(); !errors.Is(err, os.ErrExist) {
		t.Errorf("a listener in place of a file = %v, want %v", err, os.ErrExist)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file in the way is now %q", text)
	}
}

// leaveStale creates a socket that has no listener.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	leaveStale(t, path)
	l, err := socket.Listen(t.Context(), "unix", path, nil)
	if err != nil {
		t.Fatalf("Listen in place of a stale socket = %v", err)
	}
	defer l.Close()
	c, s := pair(t, l, nil)
	_, _ = c.Close(), s.Close()
}

// TestStartsAtOnce checks that of many processes that find a stale socket at the same time one gets
// it, and stays reachable.
func TestStartsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	leaveStale(t, path)
	var mu sync.Mutex
	var won []*socket.Listener
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			l, err := socket.Listen(t.Context(), "unix", path, nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, l)
			case !errors.Is(err, socket.ErrInUse):
				t.Errorf("Listen = %v, want %v", err, socket.ErrInUse)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d listeners have the same socket", len(won))
	}
	c, s := pair(t, won[0], nil)
	_, _, _ = c.Close(), s.Close(), won[0].Close()
}

// TestCloseRemovesItsOwn checks that a socket that has replaced the listener's own meanwhile is not
// removed.
func TestCloseRemovesItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := socket.Listen(t.Context(), "unix", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	second, err := socket.Listen(t.Context(), "unix", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	c, s := pair(t, second, nil)
	_, _ = c.Close(), s.Close()
}

// TestWebPage checks that what a browser can send to a local port runs nothing and gets no
// response.
func TestWebPage(t *testing.T) {
	for _, f := range []stream.Framer{stream.Line, stream.Header} {
		l := listen(t, "tcp", &socket.Options{Framing: f})
		read := make(chan error, 1)
		go func() {
			s, err := l.Accept()
			if err != nil {
				read <- err
				return
			}
			defer s.Close()
			_, _, err = s.Read()
			read <- err
		}()
		body := "\r\n{\"jsonrpc\":\"2.0\",\"method\":\"harm\"}\r\nContent-Length: 2\r\n\r\n{}"
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+l.Addr().String()+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("framing %d: a page got the answer %s", f, resp.Status)
		}
		if err := <-read; !errors.Is(err, stream.ErrHTTP) {
			t.Errorf("framing %d: Read = %v, want %v", f, err, stream.ErrHTTP)
		}
	}
}

func TestTLS(t *testing.T) {
	server, client := certificate(t)
	server.MinVersion = tls.VersionTLS10 // is raised
	l := listen(t, "tls", &socket.Options{TLS: server})

	t.Run("state", func(t *testing.T) {
		c, s := pair(t, l, &socket.Options{TLS: client})
		defer c.Close()
		defer s.Close()
		if state, ok := s.TLS(); !ok || state.Version != tls.VersionTLS13 {
			t.Errorf("TLS = %x, %v, want TLS 1.3", state.Version, ok)
		}
	})
	t.Run("old version", func(t *testing.T) {
		old := client.Clone()
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		failed := make(chan error, 1)
		go func() {
			s, err := l.Accept()
			if err == nil {
				_, _, err = s.Read()
				_ = s.Close()
			}
			failed <- err
		}()
		conn, err := tls.Dial("tcp", l.Addr().String(), old)
		if err == nil {
			_ = conn.Close()
			t.Error("TLS 1.1 was accepted")
		}
		if err := <-failed; err == nil {
			t.Error("Read over TLS 1.1 = nil error")
		}
	})
	t.Run("silent client", func(t *testing.T) {
		silent, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		first, err := l.Accept() // does not wait for a handshake
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		// the next connection is not delayed either
		c, s := pair(t, l, &socket.Options{TLS: client})
		_, _ = c.Close(), s.Close()
	})
	t.Run("unknown authority", func(t *testing.T) {
		failed := make(chan error, 1)
		go func() {
			s, err := l.Accept()
			if err == nil {
				_, _, err = s.Read()
				_ = s.Close()
			}
			failed <- err
		}()
		if _, err := socket.Dial(t.Context(), "tls", l.Addr().String(), nil); err == nil {
			t.Error("Dial trusts a certificate that nobody signed")
		}
		if err := <-failed; err == nil {
			t.Error("Read = nil error")
		}
	})
	t.Run("no certificate", func(t *testing.T) {
		if _, err := socket.Listen(t.Context(), "tls", "127.0.0.1:0", nil); err == nil {
			t.Error("Listen without a certificate = nil error")
		}
	})
}

func TestDialErrors(t *testing.T) {
	l := listen(t, "tcp", nil)
	addr := l.Addr().String()
	_ = l.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx           context.Context
		network, addr string
	}{
		"nobody there":    {t.Context(), "tcp", addr},
		"no such file":    {t.Context(), "unix", filepath.Join(t.TempDir(), "s")},
		"unknown network": {t.Context(), "udp", addr},
		"ctx has ended":   {cancelled, "tcp", addr},
	} {
		if c, err := socket.Dial(c.ctx, c.network, c.addr, nil); err == nil {
			_ = c.Close()
			t.Errorf("%s: Dial = nil error", name)
		}
	}
	if _, err := socket.Listen(t.Context(), "udp", addr, nil); err == nil {
		t.Error("Listen on udp = nil error")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want %v", err, net.ErrClosed)
	}
}

func Example() {
	ctx := context.Background()
	l, err := socket.Listen(ctx, "tcp", "127.0.0.1:0", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go func() {
		t, err := l.Accept()
		if err != nil {
			return
		}
		defer t.Close()
		_ = t.Write(one(`{"jsonrpc":"2.0","method":"welcome"}`))
	}()

	t, err := socket.Dial(ctx, "tcp", l.Addr().String(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	payload, _, err := t.Read()
	fmt.Printf("%s %v\n", payload, err)
	_, _, err = t.Read()
	fmt.Println(err)
	// Output:
	// {"jsonrpc":"2.0","method":"welcome"} <nil>
	// EOF
}
