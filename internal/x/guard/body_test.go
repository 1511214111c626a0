package guard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener is an in-memory listener, for tests with fake time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3000} }

func (l *pipeListener) dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- far
	return near
}

// echo responds with the body's length.
func echo(b *Body) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, f := b.Read(w, r, nil)
		if f != nil {
			f.Write(w, r)
			return
		}
		fmt.Fprintf(w, "%d", len(body))
	})
}

const postHead = "POST / HTTP/1.1\r\nHost: localhost:3000\r\nContent-Type: application/json\r\n"

func TestBodyOnTheWire(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, echo(&Body{Max: 10, Types: []string{"application/a2a+json"}}))

	post := func(headers string) string { return "POST / HTTP/1.1\r\nHost: x\r\n" + headers }
	typed := func(kind string) string { return post("Content-Type: " + kind + "\r\nContent-Length: 2\r\n\r\n{}") }
	tests := []struct {
		name, request, want string
	}{
		{"json", typed("application/json"), "200"},
		{"in capitals", typed("Application/JSON"), "200"},
		{"utf-8", typed("application/json; charset=utf-8"), "200"},
		{"quoted charset", typed(`application/json;charset="UTF-8"`), "200"},
		{"another parameter", typed("application/json; profile=x"), "200"},
		{"configured", typed("application/a2a+json"), "200"},
		{"latin-1", typed("application/json; charset=iso-8859-1"), "415"},
		{"utf-16", typed("application/json; charset=utf-16"), "415"},
		{"text", typed("text/plain"), "415"},
		{"a form", typed("application/x-www-form-urlencoded"), "415"},
		{"not configured", typed("application/cloudevents+json"), "415"},
		{"json in text", typed("text/plain; x=application/json"), "415"},
		{"prefix", typed("application/jsonx"), "415"},
		{"list", typed("application/json, text/plain"), "415"},
		{"garbage", typed("application/json; ="), "415"},
		{"two", post("Content-Type: application/json\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"), "415"},
		{"none", post("Content-Length: 2\r\n\r\n{}"), "415"},
		{"none, chunked", post("Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), "415"},
		{"none and no body", post("Content-Length: 0\r\n\r\n"), "200"},
		{"wrong and no body", post("Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n"), "415"},
		{"identity", postHead + "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", "200"},
		{"gzip", postHead + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", "415"},
		{"exactly the limit", postHead + "Content-Length: 10\r\n\r\n1234567890", "200"},
		{"over the limit", postHead + "Content-Length: 11\r\n\r\n12345678901", "413"},
		{"far over, no body sent", postHead + "Content-Length: 9999999999\r\n\r\n", "413"},
		{"chunked to the limit", postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5\r\n12345\r\n0\r\n\r\n", "200"},
		{"chunked over the limit", postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n6\r\n123456\r\n0\r\n\r\n", "413"},
		{"bad chunk", postHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", "400"},
		{"negative chunk", postHead + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n", "400"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// The request may be rejected while it is sent.
			go func() { _, _ = io.WriteString(conn, tt.request) }()
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			if !strings.HasPrefix(answer.Status, tt.want) {
				t.Errorf("got %s %q, want %s", answer.Status, text, tt.want)
			}
			if tt.want != "200" && answer.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type %q", answer.Header.Get("Content-Type"))
			}
			if tt.name == "gzip" && answer.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("Accept-Encoding %q, want identity", answer.Header.Get("Accept-Encoding"))
			}
		})
	}
}

// TestCutOffBody half-closes the connection in the middle of a body.
func TestCutOffBody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, echo(&Body{}))
	for _, request := range []string{
		postHead + "Content-Length: 100\r\n\r\n{",
		postHead + "Transfer-Encoding: chunked\r\n\r\n64\r\n{",
	} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) || !bytes.Contains(answer, []byte("Connection: close")) {
			t.Errorf("%q: got %q, %v; want 400 and close", request, answer, err)
		}
		conn.Close()
	}
}

func TestExpectTooMuchIsRefusedBeforeTheBody(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, echo(&Body{}))
	for length, want := range map[string]string{"4194305": "HTTP/1.1 413 ", "2": "HTTP/1.1 100 "} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, postHead+"Expect: 100-continue\r\nContent-Length: "+length+"\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("%s bytes: got %q, %v; want %q", length, line, err, want)
		}
		conn.Close()
	}
}

func TestSlowBody(t *testing.T) {
	tests := []struct {
		name  string
		chunk int           // bytes per write
		every time.Duration // interval of writes
		size  int           // total size
		want  string
		after time.Duration // when the response arrives
	}{
		{"nothing comes", 0, 0, 10, "408", 5 * time.Second},
		// The sixth byte arrives just in time.
		{"one byte a second", 1, time.Second, 100, "408", 5*time.Second + 6*time.Second/1024},
		{"just under 1 KiB a second", 1000, time.Second, 1 << 20, "408", 30 * time.Second},
		{"half of it", 512, time.Second, 1 << 20, "408", 0},
		{"1 KiB a second for 20 s", 1024, time.Second, 20 << 10, "200", 19 * time.Second},
		{"fast, but over 30 s", 1 << 14, time.Second, 1 << 20, "408", 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipeListener()
				server := &http.Server{Handler: echo(&Body{})}
				go func() { _ = server.Serve(listener) }() // ends with Close
				defer server.Close()
				conn := listener.dial()
				var sender sync.WaitGroup
				// The server waits half of it before it closes the connection of a rejected body.
				defer time.Sleep(time.Second)
				defer sender.Wait()
				defer conn.Close()

				start := time.Now()
				sender.Go(func() {
					fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n", postHead, tt.size)
					for sent := 0; sent < tt.size && tt.chunk > 0; sent += tt.chunk {
						if _, err := conn.Write(make([]byte, tt.chunk)); err != nil {
							return
						}
						time.Sleep(tt.every)
					}
				})
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				took := time.Since(start)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				if !strings.HasPrefix(answer.Status, tt.want) {
					t.Errorf("got %s after %s, want %s", answer.Status, took, tt.want)
				}
				if tt.after != 0 && took != tt.after {
					t.Errorf("%s after %s, want %s", answer.Status, took, tt.after)
				}
				if tt.want == "408" && !answer.Close {
					t.Error("the connection stays open")
				}
			})
		})
	}
}

// TestAHandlerMayTakeLongerThanTheBody checks that the deadline of the body is cleared after it;
// otherwise the server would treat the timeout as a client that disconnected.
func TestAHandlerMayTakeLongerThanTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		var cause error
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, f := new(Body).Read(w, r, nil); f != nil {
				t.Error(f)
			}
			select {
			case <-time.After(10 * time.Minute):
			case <-r.Context().Done():
			}
			cause = context.Cause(r.Context())
		})}
		go func() { _ = server.Serve(listener) }() // ends with Close
		defer server.Close()
		conn := listener.dial()
		defer conn.Close()
		go func() { _, _ = io.WriteString(conn, postHead+"Content-Length: 2\r\n\r\n{}") }()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if cause != nil {
			t.Errorf("the request ended early: %v", cause)
		}
	})
}

// TestRefusalDoesNotWaitForTheBody uses a client that announces a body and sends none of it.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		server := &http.Server{Handler: echo(&Body{})}
		go func() { _ = server.Serve(listener) }() // ends with Close
		defer server.Close()
		conn := listener.dial()
		defer conn.Close()
		start := time.Now()
		go func() {
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n")
		}()
		reader := bufio.NewReader(conn)
		answer, err := http.ReadResponse(reader, nil)
		if err != nil || answer.StatusCode != 415 || time.Since(start) != 0 {
			t.Fatalf("got %v, %v after %s; want 415 at once", answer, err, time.Since(start))
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, reader); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the connection was closed after %s", took)
		}
	})
}

func TestReadKeepsWhatIsThere(t *testing.T) {
	r, _ := http.NewRequest("POST", "http://x/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	got, f := new(Body).Read(plainWriter{t}, r, []byte("before"))
	if f != nil || string(got) != "before{}" {
		t.Errorf("got %q, %v", got, f)
	}
}

// A plainWriter is a ResponseWriter without deadlines, as other servers may have it.
type plainWriter struct{ t *testing.T }

func (plainWriter) Header() http.Header         { return http.Header{} }
func (plainWriter) Write(b []byte) (int, error) { return len(b), nil }
func (p plainWriter) WriteHeader(int)           { p.t.Error("WriteHeader was called") }
