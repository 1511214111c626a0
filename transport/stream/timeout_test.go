package stream_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// plain hides the deadlines of a connection.
type plain struct{ io.ReadWriteCloser }

// streams are created inside a synctest bubble: with deadlines and without.
var streams = map[string]func(net.Conn) io.ReadWriteCloser{
	"deadlines":    func(c net.Conn) io.ReadWriteCloser { return c },
	"no deadlines": func(c net.Conn) io.ReadWriteCloser { return plain{c} },
}

func burst(payloads ...string) jsonrpc.Burst {
	var b jsonrpc.Burst
	for _, p := range payloads {
		b.Add([]byte(p))
	}
	return b
}

// TestFrameTimeout checks that a message has 30 s from its first byte to its last, and that the
// silence between two is unlimited.
func TestFrameTimeout(t *testing.T) {
	wires := map[string]struct {
		framer     stream.Framer
		begin, end string
	}{
		"line":             {stream.Line, `{"a":`, "1}\n"},
		"header":           {stream.Header, "Content-Length: 7\r\n\r\n{\"a\"", ":1}"},
		"header, in block": {stream.Header, "Content-Length: 7\r\n", "\r\n{\"a\":1}"},
	}
	for name, w := range wires {
		for kind, of := range streams {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					peer, conn := net.Pipe()
					r := stream.New(of(conn), w.framer, nil)
					defer r.Close()
					go func() {
						for range 3 {
							time.Sleep(time.Hour)
							_, _ = io.WriteString(peer, w.begin)
							time.Sleep(29 * time.Second)
							_, _ = io.WriteString(peer, w.end)
						}
						time.Sleep(time.Hour)
						_, _ = io.WriteString(peer, w.begin)
						time.Sleep(29 * time.Second)
						_, _ = io.WriteString(peer, w.end[:1])
					}()
					for n := range 3 {
						if p, _, err := r.Read(); err != nil || string(p) != `{"a":1}` {
							t.Fatalf("Read %d = %s, %v", n, p, err)
						}
					}
					start := time.Now()
					_, _, err := r.Read()
					f, ok := errors.AsType[*jsonrpc.FrameError](err)
					if !ok || !f.Final || f.Answer != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("Read = %v, want a final FrameError by its deadline", err)
					}
					if waited := time.Since(start); waited != time.Hour+30*time.Second {
						t.Errorf("Read waited %v, want 1h0m30s", waited)
					}
					_ = peer.Close()
				})
			})
		}
	}
}

// TestSkipTimeout checks that a line over the limit has the same timeout as others, however much of
// it arrives.
func TestSkipTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, conn := net.Pipe()
		r := stream.New(conn, stream.Line, &stream.Options{MaxMessage: 10})
		defer r.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := io.WriteString(peer, "a little more"); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		start := time.Now()
		if _, _, err := r.Read(); !errors.Is(err, jsonrpc.ErrTooLarge) {
			t.Errorf("Read = %v, want %v", err, jsonrpc.ErrTooLarge)
		}
		if _, _, err := r.Read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %v, want %v", err, os.ErrDeadlineExceeded)
		}
		if waited := time.Since(start); waited != 30*time.Second {
			t.Errorf("skipped for %v, want 30s", waited)
		}
		_ = peer.Close()
		<-done
	})
}

// TestNoFrameTimeout checks that stdin waits for a person who types.
func TestNoFrameTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, conn := net.Pipe()
		r := stream.New(conn, stream.Line, &stream.Options{FrameTimeout: -1})
		defer r.Close()
		go func() {
			_, _ = io.WriteString(peer, "{")
			time.Sleep(24 * time.Hour)
			_, _ = io.WriteString(peer, "}\n")
		}()
		if p, _, err := r.Read(); err != nil || string(p) != "{}" {
			t.Errorf("Read = %s, %v", p, err)
		}
	})
}

func TestWriteTimeout(t *testing.T) {
	for kind, of := range streams {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer, conn := net.Pipe()
				defer peer.Close()
				w := stream.New(of(conn), stream.Line, nil)
				// A peer that reads in time does not affect later writes.
				go func() {
					time.Sleep(9 * time.Second)
					_, _ = peer.Read(make([]byte, 100))
				}()
				if err := w.Write(burst("1")); err != nil {
					t.Fatalf("Write = %v, to a peer that reads after 9 s", err)
				}
				time.Sleep(time.Hour)
				start := time.Now()
				if err := w.Write(burst("2")); !errors.Is(err, jsonrpc.ErrSlowPeer) {
					t.Errorf("Write = %v, want %v", err, jsonrpc.ErrSlowPeer)
				}
				if waited := time.Since(start); waited != 10*time.Second {
					t.Errorf("Write waited %v, want 10s", waited)
				}
				if err := w.Write(burst("3")); err == nil {
					t.Error("Write after the timeout = nil: it may follow half a message")
				}
				if _, _, err := w.Read(); err == nil {
					t.Error("Read after the timeout = nil error")
				}
			})
		})
	}
}

// TestWriteTimeoutSocket is the same where most writes need no deadline, after what the kernel
// buffers.
func TestWriteTimeoutSocket(t *testing.T) {
	c, _ := connect(t, "tcp", "127.0.0.1:0")
	w := stream.New(c, stream.Line, &stream.Options{WriteTimeout: 50 * time.Millisecond})
	large := burst(`"` + string(make([]byte, 1<<20)) + `"`)
	for range 64 {
		err := w.Write(large)
		if err == nil {
			continue
		}
		if !errors.Is(err, jsonrpc.ErrSlowPeer) {
			t.Errorf("Write = %v, want %v", err, jsonrpc.ErrSlowPeer)
		}
		return
	}
	t.Error("64 MiB were written to a peer that does not read")
}

// TestClosed checks that the errors distinguish a Close of this side from an end by the peer.
func TestClosed(t *testing.T) {
	c, _ := connect(t, "tcp", "127.0.0.1:0")
	r := stream.New(c, stream.Line, nil)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Read(); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("Read = %v, want %v", err, jsonrpc.ErrClosed)
	}
	if err := r.Write(burst("1")); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("Write = %v, want %v", err, jsonrpc.ErrClosed)
	}
}

// TestFarewell checks that the response to a final fault is not lost if the peer is still sending.
func TestFarewell(t *testing.T) {
	client, server := connect(t, "tcp", "127.0.0.1:0")
	r := stream.New(server, stream.Header, nil)
	if _, err := io.WriteString(client, "Content-Length: -1\r\n\r\n"+string(make([]byte, 100_000))); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.Read()
	f, ok := errors.AsType[*jsonrpc.FrameError](err)
	if !ok || !f.Final {
		t.Fatalf("Read = %v, want a final FrameError", err)
	}
	if err := r.Write(burst(`"farewell"`)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }()
	got, err := io.ReadAll(client)
	if want := "Content-Length: 10\r\n\r\n\"farewell\""; err != nil || string(got) != want {
		t.Errorf("client read %q, %v, want %q", got, err, want)
	}
	_ = client.Close()
	if err := <-closed; err != nil {
		t.Errorf("Close = %v", err)
	}
}
