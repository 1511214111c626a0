package tap_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/tap"
)

// serveConn passes the first connection to f.
func serveConn(t *testing.T, f func(c net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// TestQuestionsAreRecordedBeforeAnswers checks that bytes are sent before they are parsed, and a
// request is still recorded before its response.
func TestQuestionsAreRecordedBeforeAnswers(t *testing.T) {
	address := serveConn(t, func(c net.Conn) {
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			id := lines.Bytes()[len(`{"jsonrpc":"2.0","method":"a","id":`):]
			if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","result":1,"id":%s`+"\n", id); err != nil {
				return
			}
		}
	})
	rec := newRecorder(t)
	at := serve(t, &tap.Relay{Record: rec, Framing: tap.Line}, address)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			c, err := net.Dial("tcp", at)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			answers := bufio.NewReader(c)
			for i := range 500 {
				if _, err := fmt.Fprintf(c, `{"jsonrpc":"2.0","method":"a","id":%d}`+"\n", i); err != nil {
					t.Error(err)
					return
				}
				if _, err := answers.ReadBytes('\n'); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	rec.Flush()
	done := 0
	for _, r := range rec.Rows(capture.Ref{}, 0) {
		if len(r.Findings) > 0 {
			t.Fatalf("#%s %s: %+v", r.Ref, r.Kind, r.Findings)
		}
		if r.Kind == capture.RowRequest && r.State == capture.StateDone {
			done++
		}
	}
	if done != 2000 {
		t.Errorf("%d of 2000 calls have their answer", done)
	}
}

// TestOneDirectionDoesNotHoldUpTheOther checks that a peer that does not read delays only the
// direction towards it.
func TestOneDirectionDoesNotHoldUpTheOther(t *testing.T) {
	const size = 32 << 20 // more than all buffers on the way
	got := make(chan int64, 1)
	address := serveConn(t, func(c net.Conn) {
		var writing sync.WaitGroup
		// This write blocks until the end, because the peer does not read.
		writing.Go(func() { _, _ = c.Write(bytes.Repeat([]byte("x"), size)) })
		n, _ := io.Copy(io.Discard, c)
		got <- n
		writing.Wait()
	})
	at := serve(t, &tap.Relay{Record: newRecorder(t), Framing: tap.Line}, address)
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	line := append(bytes.Repeat([]byte("y"), 1<<20), '\n')
	for range 16 {
		if _, err := c.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n := <-got; n != int64(16*len(line)) {
		t.Errorf("%d bytes passed, want %d", n, 16*len(line))
	}
	if n, err := io.Copy(io.Discard, c); err != nil || n != size {
		t.Errorf("%d bytes came back, %v", n, err)
	}
}
