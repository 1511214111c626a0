package jsonrpc_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lineTransport is a minimal Transport: lines on a net.Conn.
type lineTransport struct {
	c net.Conn
	r *bufio.Reader
}

func (l *lineTransport) Read() ([]byte, bool, error) {
	line, err := l.r.ReadBytes('\n')
	if err != nil {
		return nil, false, err
	}
	rest, _ := l.r.Peek(l.r.Buffered())
	return bytes.TrimRight(line, "\r\n"), bytes.IndexByte(rest, '\n') >= 0, nil
}

func (l *lineTransport) Write(b Burst) error {
	_, err := l.c.Write(b.Bytes)
	return err
}

// TryWrite is Write if that does not wait.
func (l *lineTransport) TryWrite(b Burst) bool {
	_, never := l.c.(*memoryConn)
	return never && l.Write(b) == nil
}

func (l *lineTransport) Close() error { return l.c.Close() }

func newLine(c net.Conn) *lineTransport { return &lineTransport{c, bufio.NewReader(c)} }

// memoryPipe returns a pair of net.Conns whose writes do not wait for reads, so that they block
// durably under synctest.
func memoryPipe() (net.Conn, net.Conn) {
	a, b := newHalf(), newHalf()
	return &memoryConn{in: a, out: b}, &memoryConn{in: b, out: a}
}

type half struct {
	mu     sync.Mutex
	more   *sync.Cond
	buf    []byte
	closed bool
}

func newHalf() *half {
	h := &half{}
	h.more = sync.NewCond(&h.mu)
	return h
}

type memoryConn struct {
	net.Conn
	in, out *half
}

func (m *memoryConn) Read(p []byte) (int, error) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	for len(m.in.buf) == 0 && !m.in.closed {
		m.in.more.Wait()
	}
	if len(m.in.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.in.buf)
	m.in.buf = m.in.buf[n:]
	return n, nil
}

func (m *memoryConn) Write(p []byte) (int, error) {
	m.out.mu.Lock()
	defer m.out.mu.Unlock()
	if m.out.closed {
		return 0, io.ErrClosedPipe
	}
	m.out.buf = append(m.out.buf, p...)
	m.out.more.Broadcast()
	return len(p), nil
}

func (m *memoryConn) Close() error {
	for _, h := range []*half{m.in, m.out} {
		h.mu.Lock()
		h.closed = true
		h.more.Broadcast()
		h.mu.Unlock()
	}
	return nil
}

// pair connects two Conns. Both are closed at the end of the test.
func pair(t testing.TB, client, server func(*Conn)) (*Conn, *Conn) {
	t.Helper()
	a, b := memoryPipe()
	c, s := NewConn(newLine(a)), NewConn(newLine(b))
	if client != nil {
		client(c)
	}
	if server != nil {
		server(s)
	}
	c.Start(context.Background())
	s.Start(context.Background())
	t.Cleanup(func() {
		_ = c.Close()
		_ = s.Close()
	})
	return c, s
}

// A wire is the other side of a Conn, as bytes: a test sends and reads messages on it.
type wire struct {
	t testing.TB
	c net.Conn
	r *bufio.Reader
}

// serveWire starts a Conn and returns its other side.
func serveWire(t testing.TB, set func(*Conn)) (*wire, *Conn) {
	t.Helper()
	a, b := memoryPipe()
	s := NewConn(newLine(b))
	set(s)
	s.Start(context.Background())
	t.Cleanup(func() {
		_ = a.Close()
		_ = s.Close()
	})
	return &wire{t, a, bufio.NewReader(a)}, s
}

func (w *wire) send(lines ...string) {
	w.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(w.c, l+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// wantInAnyOrder is want for lines whose order is not determined.
func (w *wire) wantInAnyOrder(lines ...string) {
	w.t.Helper()
	for range lines {
		got, err := w.r.ReadString('\n')
		i := slices.Index(lines, strings.TrimSuffix(got, "\n"))
		if err != nil || i < 0 {
			w.t.Fatalf("got %s %v, want one of %q", got, err, lines)
		}
		lines = slices.Delete(slices.Clone(lines), i, i+1)
	}
}

func (w *wire) want(lines ...string) {
	w.t.Helper()
	for _, want := range lines {
		got, err := w.r.ReadString('\n')
		if err != nil {
			w.t.Fatalf("read: %v, want %s", err, want)
		}
		if got != want+"\n" {
			w.t.Fatalf("got  %swant %s", got, want)
		}
	}
}
