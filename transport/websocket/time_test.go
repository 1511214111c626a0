package websocket

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// In these tests time is fake and exact; the connection is a net.Pipe, which synctest supports.

// pipe returns a Transport in this role and the raw connection to it.
func (r role) pipe(o *Options) (*Transport, net.Conn) {
	near, far := net.Pipe()
	return newTransport(near, r.client, o, "", nil), far
}

// bubble runs f for both roles, each in its own synctest bubble.
func bubble(t *testing.T, f func(t *testing.T, r role)) {
	t.Helper()
	for _, r := range roles {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, r) })
		})
	}
}

// reading runs Read until it fails and sends the error.
func reading(tr *Transport) <-chan error {
	failed := make(chan error, 1)
	go func() {
		for {
			if _, _, err := tr.Read(); err != nil {
				failed <- err
				return
			}
		}
	}()
	return failed
}

func TestPings(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		tr, far := r.pipe(nil)
		failed := reading(tr)
		start := time.Now()

		// The ping is answered, first by the pong, then by other bytes that arrive first.
		for i, answer := range [][]byte{r.raw(pongBits, ""), r.raw(fin|text, "[1]"), r.raw(text, "[")[:1], nil} {
			f, err := r.readFrame(far)
			if want := time.Duration(i+1) * 30 * time.Second; err != nil || f != ping("") || time.Since(start) != want {
				t.Fatalf("frame %d: %s, %v, after %v, want a ping after %v", i, f, err, time.Since(start), want)
			}
			if i == 3 {
				break
			}
			if i == 2 { // a message that began must also end
				go func() {
					_, first := far.Write(answer)
					time.Sleep(29 * time.Second)
					_, rest := far.Write(append(r.raw(text, "[")[1:], r.raw(fin, "]")...))
					if err := errors.Join(first, rest); err != nil {
						t.Error(err)
					}
				}()
				continue
			}
			time.Sleep(19 * time.Second)
			write(t, far, answer)
		}

		// The ping is not answered.
		if err := <-failed; !errors.Is(err, ErrDeadPeer) || time.Since(start) != 140*time.Second {
			t.Errorf("Read = %v after %v, want %v after 2m20s", err, time.Since(start), ErrDeadPeer)
		}
		if err := tr.Write(burst("1")); !errors.Is(err, ErrDeadPeer) {
			t.Errorf("Write = %v, want %v", err, ErrDeadPeer)
		}
		if f, err := r.readFrame(far); !errors.Is(err, io.EOF) {
			t.Errorf("the dead peer was sent %s, %v", f, err)
		}
		tr.Close()
	})
}

func TestNoPings(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		tr, far := r.pipe(&Options{PingInterval: -1})
		failed := reading(tr)
		far.SetReadDeadline(time.Now().Add(time.Hour))
		if f, err := r.readFrame(far); err == nil {
			t.Errorf("got %s, want nothing in an hour", f)
		}
		far.Close()
		<-failed
		tr.Close()
	})
}

// TestPingFlood checks that 100 pings at once are accepted, then one in 5 s; the third above that
// ends the connection.
func TestPingFlood(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		tr, far := r.pipe(&Options{PingInterval: -1})
		failed := reading(tr)
		send := func() {
			if _, err := far.Write(r.raw(pingBits, "x")); err != nil {
				t.Error(err)
			}
		}
		answer := func() rawFrame {
			f, err := r.readFrame(far)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		for range 100 {
			go send()
			if f := answer(); f != pong("x") {
				t.Fatalf("got %s, want a pong", f)
			}
		}
		for range 1000 { // on average
			time.Sleep(5 * time.Second)
			go send()
			if f := answer(); f != pong("x") {
				t.Fatalf("got %s, want a pong", f)
			}
		}
		for i := range 3 {
			go send()
			if f := answer(); i < 2 && f != pong("x") || i == 2 && f.payload[:2] != closing(1008, "") {
				t.Fatalf("ping %d over the bound: %s", i+1, f)
			}
		}
		if f, ok := errors.AsType[*jsonrpc.FrameError](<-failed); !ok || !f.Final {
			t.Errorf("Read = %v, want a final FrameError", f)
		}
		far.Close()
		tr.Close()
	})
}

func TestPingsAreForgiven(t *testing.T) {
	var b bucket
	now := time.Now()
	for round := range 3 {
		for i := range pingBurst + maxStrikes - 1 {
			if !b.allow(now) {
				t.Fatalf("round %d: ping %d was one too many", round, i)
			}
		}
		now = now.Add(pingBurst * pingCost)
	}
}

// TestPongsAreBounded checks that for a peer that pings and does not read, the latest pongs are
// retained.
func TestPongsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		tr, far := r.pipe(&Options{PingInterval: -1, WriteTimeout: time.Minute})
		failed := reading(tr)
		for i := range 60 {
			write(t, far, r.raw(pingBits, strings.Repeat("x", i)))
			synctest.Wait() // the first pong is on its way when the second ping arrives
		}
		want := []int{0}
		for i := 60 - maxControls; i < 60; i++ {
			want = append(want, i)
		}
		for _, n := range want {
			if f, err := r.readFrame(far); err != nil || f != pong(strings.Repeat("x", n)) {
				t.Fatalf("got %s, %v, want the pong of %d bytes", f, err, n)
			}
		}
		far.Close()
		<-failed
		tr.Close()
	})
}

// TestFrameTimeout checks that a message has 30 s from its first byte to its last, regardless of
// its pieces.
func TestFrameTimeout(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func(r role) []byte
		drip  func(r role) []byte // every 7 s
	}{
		{"half a header", func(r role) []byte { return r.raw(fin|text, "[1]")[:1] }, nil},
		{"half a payload", func(r role) []byte { b := r.raw(fin|text, "[1]"); return b[:len(b)-1] }, nil},
		{"no last fragment", func(r role) []byte { return r.raw(text, "[") }, nil},
		{"fragments for ever", func(r role) []byte { return r.raw(text, "[") }, func(r role) []byte { return r.raw(0, "1") }},
		{"pings in between", func(r role) []byte { return r.raw(text, "[") }, func(r role) []byte { return r.raw(pongBits, "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r role) {
				tr, far := r.pipe(&Options{PingInterval: -1})
				failed := reading(tr)

				// A message that takes long, but not too long, leaves no deadline behind.
				write(t, far, r.raw(text, "["))
				time.Sleep(29 * time.Second)
				write(t, far, r.raw(fin, "]"))
				time.Sleep(time.Hour)

				start := time.Now()
				write(t, far, c.first(r))
				dripped := make(chan struct{})
				go func() {
					defer close(dripped)
					for c.drip != nil {
						time.Sleep(7 * time.Second)
						if _, err := far.Write(c.drip(r)); err != nil {
							return
						}
					}
				}()
				f, err := r.readFrame(far)
				if err != nil || f.bits != close8 || f.payload[:2] != closing(1008, "") || time.Since(start) != 31*time.Second {
					t.Errorf("after %v: %s, %v, want 1008 after 31s, since nobody calls Close", time.Since(start), f, err)
				}
				if f, ok := errors.AsType[*jsonrpc.FrameError](<-failed); !ok || !f.Final {
					t.Errorf("Read = %v, want a final FrameError", f)
				}
				far.Close()
				tr.Close()
				<-dripped
			})
		})
	}
}

// TestSlowPeer checks that a peer that does not read ends the connection after 10 s, and that Read
// returns the error.
func TestSlowPeer(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		tr, far := r.pipe(nil)
		failed := reading(tr)
		start := time.Now()
		if err := tr.Write(burst("1")); !errors.Is(err, jsonrpc.ErrSlowPeer) || time.Since(start) != 10*time.Second {
			t.Errorf("Write = %v after %v, want %v after 10s", err, time.Since(start), jsonrpc.ErrSlowPeer)
		}
		if err := <-failed; !errors.Is(err, jsonrpc.ErrSlowPeer) {
			t.Errorf("Read = %v, want %v", err, jsonrpc.ErrSlowPeer)
		}
		tr.Close()
		if _, err := far.Write([]byte{0}); err == nil {
			t.Error("the connection is still open")
		}
	})
}

// TestCloseIsBounded checks that Close takes 1 s when the peer neither reads nor responds, and
// unblocks a waiting Write.
func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		for _, peerReads := range []bool{false, true} {
			tr, far := r.pipe(nil)
			if peerReads {
				go io.Copy(io.Discard, far)
			}
			read, wrote := reading(tr), make(chan error, 1)
			if !peerReads {
				go func() { wrote <- tr.Write(burst("1")) }()
			}
			synctest.Wait()
			start := time.Now()
			closed := make(chan time.Duration, 2)
			for range 2 {
				go func() {
					tr.Close()
					closed <- time.Since(start)
				}()
			}
			if err := <-read; !errors.Is(err, jsonrpc.ErrClosed) || time.Since(start) != 0 {
				t.Errorf("Read = %v after %v, want %v at once", err, time.Since(start), jsonrpc.ErrClosed)
			}
			if !peerReads {
				if err := <-wrote; !errors.Is(err, jsonrpc.ErrClosed) || time.Since(start) != time.Second {
					t.Errorf("Write = %v after %v, want %v after 1s", err, time.Since(start), jsonrpc.ErrClosed)
				}
			}
			for range 2 {
				if took := <-closed; took != time.Second {
					t.Errorf("Close took %v, want 1s", took)
				}
			}
			if _, err := far.Write([]byte{0}); err == nil {
				t.Error("the connection is still open")
			}
			if err := tr.Write(burst("2")); !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("Write after Close = %v", err)
			}
		}
	})
}

// TestViolationDoesNotHoldUpRead checks that a violation by the peer is returned at once, even if
// the peer never reads the close frame.
func TestViolationDoesNotHoldUpRead(t *testing.T) {
	bubble(t, func(t *testing.T, r role) {
		tr, far := r.pipe(nil)
		start := time.Now()
		failed := reading(tr)
		write(t, far, []byte{0xFF})
		if f, ok := errors.AsType[*jsonrpc.FrameError](<-failed); !ok || time.Since(start) != 0 {
			t.Errorf("Read = %v after %v, want a FrameError at once", f, time.Since(start))
		}
		tr.Close()
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v, want 1s", took)
		}
	})
}
