package websocket

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestCloseHandshake: both ends end in order, without waiting for any time to pass, and both hear the right thing.
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

// readingThenClosing is what a Conn does: it reads to the end and closes.
func readingThenClosing(tr *Transport) <-chan error {
	failed := make(chan error, 1)
	go func() {
		err := <-reading(tr)
		tr.Close()
		failed <- err
	}()
	return failed
}

// TestLastWords: what was read before the end may still be answered; the close frame comes behind that.
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

// TestCloseBoth: two that close at the same moment, with messages on their way, do not wait for each other.
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

// TestCloseDuringMessage: the close frame is found behind what was on its way, also when Read was woken within a frame.
func TestCloseDuringMessage(t *testing.T) {
	for _, r := range roles {
		for _, cut := range []int{1, 5, 8, 70_000} {
			tr, conn := r.start(t, &Options{CloseTimeout: time.Hour})
			wire := r.raw(fin|text, string(make([]byte, 100_000)))
			write(t, conn, wire[:cut])
			failed := reading(tr)
			closed := make(chan struct{})
			go func() { tr.Close(); close(closed) }()

			conn.SetReadDeadline(time.Now().Add(soon))
			if f, err := r.readFrame(conn); err != nil || f != bye(1000) {
				t.Fatalf("%s, cut at %d: %s, %v, want 1000", r.name, cut, f, err)
			}
			write(t, conn, wire[cut:], r.raw(pingBits, "x"), r.raw(text, "["), r.raw(close8, closing(1000, "")))
			if !r.client { // nothing is answered any more; the server ends first
				if f, err := r.readFrame(conn); !errors.Is(err, io.EOF) {
					t.Errorf("%s, cut at %d: %s, %v, want the end", r.name, cut, f, err)
				}
			}
			conn.Close()
			<-closed
			<-failed
		}
	}
}

// TestFarewellIsHeard: a peer that is still sending a message that is too large gets to know why nobody wants it. A
// connection that is closed on top of unread bytes is reset, and the reason lost.
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
		<-wrote
		a.Close()
		<-failed
	}
}

// TestSetClose: a Conn that is shut down says what its owner has set.
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
