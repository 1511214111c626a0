package websocket

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/transporttest"
)

// TestCloseHandshake checks that both ends close in order, without waiting for a timeout, and that
// both get the right error.
func TestCloseHandshake(t *testing.T) {
	for _, c := range []struct {
		name string
		code Code
		want error
	}{
		{"normal", CloseNormal, io.EOF},
		{"going away", CloseGoingAway, io.EOF},
		{"try later", CloseTryLater, &CloseError{CloseTryLater, "too slow"}},
		{"policy", ClosePolicy, &CloseError{ClosePolicy, "too slow"}},
		{"an application's", 4000, &CloseError{4000, "too slow"}},
	} {
		for _, first := range []string{"client", "server"} {
			t.Run(c.name+" by the "+first, func(t *testing.T) {
				a, b := dialled(t, &Options{CloseTimeout: time.Hour})
				if first == "server" {
					a, b = b, a
				}
				ours, theirs := reading(a), readingThenClosing(b)
				if err := a.CloseWith(c.code, "too slow"); err != nil {
					t.Errorf("CloseWith = %v", err)
				}
				if err := <-ours; !errors.Is(err, jsonrpc.ErrClosed) {
					t.Errorf("our Read = %v, want %v", err, jsonrpc.ErrClosed)
				}
				err := <-theirs
				said, ok := errors.AsType[*CloseError](err)
				if want, isCode := errors.AsType[*CloseError](c.want); isCode && (!ok || *said != *want) || !isCode && err != c.want {
					t.Errorf("the peer's Read = %v, want %v", err, c.want)
				}
			})
		}
	}
}

// readingThenClosing does what a Conn does: it reads to the end and closes.
func readingThenClosing(tr *Transport) <-chan error {
	failed := make(chan error, 1)
	go func() {
		err := <-reading(tr)
		tr.Close()
		failed <- err
	}()
	return failed
}

// TestLastWords checks that requests read before the end may still be answered; the close frame
// follows the responses.
func TestLastWords(t *testing.T) {
	for _, r := range roles {
		for name, c := range map[string]struct {
			end  []byte
			code int
		}{
			"closed by the peer": {r.raw(close8, closing(1001, "")), 1001},
			"broken by the peer": {r.raw(0xFF, ""), 1002},
		} {
			tr, conn := r.start(t, &Options{CloseTimeout: time.Hour})
			write(t, conn, r.raw(fin|text, "[1]"), c.end)
			if _, more, err := tr.Read(); more || err != nil {
				t.Fatal(more, err)
			}
			if _, _, err := tr.Read(); err == nil {
				t.Fatalf("%s: Read = nil", name)
			}
			if err := tr.Write(burst("[2]")); err != nil {
				t.Errorf("%s, %s: Write = %v", r.name, name, err)
			}
			done := make(chan struct{})
			go func() { tr.Close(); close(done) }()
			conn.SetReadDeadline(time.Now().Add(soon))
			for _, want := range frames(msg("[2]"), bye(c.code)) {
				f, err := r.readFrame(conn)
				if f.bits == close8 {
					f.payload = f.payload[:2]
				}
				if err != nil || f != want {
					t.Errorf("%s, %s: %s, %v, want %s", r.name, name, f, err, want)
				}
			}
			conn.Close()
			<-done
			if err := tr.Write(burst("[3]")); err == nil {
				t.Errorf("%s, %s: Write after Close = nil", r.name, name)
			}
		}
	}
}

// TestCloseFrameWhileClosing checks that the peer's close frame ends the closing handshake of a
// server even if a Read that began before Close has read it.
func TestCloseFrameWhileClosing(t *testing.T) {
	server := roles[0]
	tr, conn := server.start(t, &Options{CloseTimeout: time.Hour})
	tr.reading.Lock() // as Read does
	done := make(chan struct{})
	go func() { tr.Close(); close(done) }()
	conn.SetReadDeadline(time.Now().Add(soon))
	if f, err := server.readFrame(conn); err != nil || f.bits != close8 {
		t.Fatalf("got %s, %v, want a close frame", f, err)
	}
	write(t, conn, server.raw(close8, closing(1000, "")))
	_ = tr.conn.SetReadDeadline(time.Time{}) // the frame arrived before the deadline that wakes Read
	_, err := tr.readMessage()
	if _, ok := errors.AsType[*CloseError](err); !ok {
		t.Fatalf("got %v, want the close frame", err)
	}
	_ = tr.stopReading(err) // the cause is that of Close
	tr.reading.Unlock()
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the server does not end the connection: %d, %v", n, err)
	}
	conn.Close()
	<-done
}

// TestCloseBoth checks that two ends that close at the same moment, with messages on their way, do
// not wait for each other.
func TestCloseBoth(t *testing.T) {
	for range 20 {
		a, b := dialled(t, &Options{CloseTimeout: time.Hour})
		for _, tr := range []*Transport{a, b} {
			if err := tr.Write(burst("[1]", "[2]")); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan struct{})
		go func() { a.Close(); close(done) }()
		b.Close()
		<-done
	}
}

// TestCloseDuringMessage checks that the close frame is detected after the data on its way, also
// when Read was woken within a frame. Bytes in the middle of a message, interpreted as frames,
// would end the message early.
func TestCloseDuringMessage(t *testing.T) {
	for _, cut := range []int{1, 5, 8, 40_000, 100_000} {
		bubble(t, func(t *testing.T, r role) {
			tr, conn := r.pipe(&Options{PingInterval: -1})
			wire := r.raw(fin|text, strings.Repeat("x", 120_000))
			failed := reading(tr)
			write(t, conn, wire[:cut])
			synctest.Wait()
			closed := make(chan struct{})
			go func() { tr.Close(); close(closed) }()
			if f, err := r.readFrame(conn); err != nil || f != bye(1000) {
				t.Fatalf("cut at %d: %s, %v, want 1000", cut, f, err)
			}
			write(t, conn, wire[cut:], r.raw(pingBits, "x"), r.raw(text, "["))
			synctest.Wait()
			select {
			case <-closed:
				t.Fatalf("cut at %d: closed before the close frame", cut)
			default:
			}
			start := time.Now()
			write(t, conn, r.raw(close8, closing(1000, "")))
			if !r.client { // the server ends first, and has sent nothing
				if f, err := r.readFrame(conn); !errors.Is(err, io.EOF) {
					t.Errorf("cut at %d: %s, %v, want the end", cut, f, err)
				}
			}
			conn.Close()
			<-closed
			if time.Since(start) != 0 {
				t.Errorf("cut at %d: Close took %v after the close frame", cut, time.Since(start))
			}
			<-failed
		})
	}
}

// halfConn counts how often it was closed for writing.
type halfConn struct {
	*transporttest.Tape
	halves int
}

func (c *halfConn) CloseWrite() error { c.halves++; return nil }

// TestPayloadOutlivesClose checks that Close may be called while the last message is still in use;
// later data is stored elsewhere.
func TestPayloadOutlivesClose(t *testing.T) {
	for _, r := range roles {
		tr, conn := r.start(t, &Options{CloseTimeout: time.Hour})
		write(t, conn, r.raw(fin|text, "[1,2,3]"), r.raw(fin|text, "[4,5,6]"))
		p, _, err := tr.Read()
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() { tr.Close(); close(closed) }()
		conn.SetReadDeadline(time.Now().Add(soon))
		if f, err := r.readFrame(conn); err != nil || f != bye(1000) {
			t.Fatalf("%s: %s, %v, want 1000", r.name, f, err)
		}
		write(t, conn, r.raw(fin|text, strings.Repeat("x", 20_000)), r.raw(close8, ""))
		conn.Close()
		<-closed
		if string(p) != "[1,2,3]" {
			t.Errorf("%s: after Close the message is %q", r.name, p)
		}
	}
}

// TestServerEndsFirst checks that a client waits for the server to end the connection (RFC 6455,
// section 7.1.1).
func TestServerEndsFirst(t *testing.T) {
	for _, r := range roles {
		for name, end := range map[string][]byte{"closed": r.raw(close8, ""), "broken": {0xFF}} {
			conn := &halfConn{Tape: transporttest.Play(io.EOF, end)}
			tr := r.over(t, conn, nil)
			if _, _, err := tr.Read(); err == nil {
				t.Fatal("Read = nil")
			}
			tr.Close()
			want := 1
			if r.client {
				want = 0
			}
			if conn.halves != want {
				t.Errorf("%s, %s by the peer: ended first %d times, want %d", r.name, name, conn.halves, want)
			}
		}
	}
}

// stuckConn has a write that waits, and then fails.
type stuckConn struct {
	*transporttest.Tape
	stuck, fail chan struct{}
}

func (c *stuckConn) Write(p []byte) (int, error) {
	select {
	case <-c.stuck:
		return c.Tape.Write(p)
	default:
	}
	close(c.stuck)
	<-c.fail
	return len(p) / 2, errBroken
}

// TestTornFrame checks that no close frame follows half a frame.
func TestTornFrame(t *testing.T) {
	for _, r := range roles {
		conn := &stuckConn{transporttest.Play(io.EOF), make(chan struct{}), make(chan struct{})}
		tr := r.over(t, conn, nil)
		wrote, closed := make(chan error, 1), make(chan struct{})
		go func() { wrote <- tr.Write(burst("[1]")) }()
		<-conn.stuck
		go func() { tr.Close(); close(closed) }()
		for !tr.over.Load() { // the closing handshake has begun
			runtime.Gosched()
		}
		close(conn.fail)
		<-closed
		if err := <-wrote; err == nil || len(conn.Written()) > 0 {
			t.Errorf("%s: Write = %v, and behind it % x", r.name, err, conn.Written())
		}
	}
}

// TestFarewellIsHeard checks that a peer that is still sending a too large message receives the
// reason for the refusal. A connection that is closed with unread bytes is reset, and the reason is
// lost.
func TestFarewellIsHeard(t *testing.T) {
	for range 10 {
		a, b := dialled(t, &Options{MaxMessage: 1000})
		failed := readingThenClosing(b)
		large := burst(string(make([]byte, 2<<20)))
		wrote := make(chan error, 1)
		go func() { wrote <- a.Write(large) }()
		_, _, err := a.Read()
		if said, ok := errors.AsType[*CloseError](err); !ok || said.Code != CloseTooBig {
			t.Fatalf("Read = %v, want 1009", err)
		}
		if err := <-wrote; err != nil {
			t.Errorf("Write = %v: the connection was reset under it", err)
		}
		a.Close()
		<-failed
	}
}

// TestSetClose checks that a Conn that is shut down sends the code that its owner has set.
func TestSetClose(t *testing.T) {
	for _, r := range roles {
		tr, tape := r.tape(t, nil)
		if err := tr.SetClose(CloseGoingAway, "stopping"); err != nil || len(tape.Written()) > 0 {
			t.Errorf("%s: SetClose = %v, wrote % x", r.name, err, tape.Written())
		}
		conn := jsonrpc.NewConn(tr)
		if err := conn.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		f, err := r.readFrame(bytes.NewReader(tape.Written()))
		if want := (rawFrame{close8, closing(1001, "stopping")}); err != nil || f != want {
			t.Errorf("%s: %s, %v, want %s", r.name, f, err, want)
		}
	}
}

func TestCloseWithBadCode(t *testing.T) {
	for _, code := range []Code{0, 999, 1004, CloseNoStatus, CloseAbnormal, 1015, 2000, 5000} {
		for _, r := range roles {
			tr, tape := r.tape(t, nil)
			if tr.SetClose(code, "") == nil {
				t.Errorf("%s: SetClose(%d) = nil", r.name, code)
			}
			if err := tr.CloseWith(code, ""); err == nil || len(tape.Written()) > 0 || tape.Closed() {
				t.Errorf("%s: CloseWith(%d) = %v, wrote % x", r.name, code, err, tape.Written())
			}
		}
	}
}
