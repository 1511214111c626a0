package stream

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// TestTheBufferAfterALongMessage checks that the buffer after a long message has the largest size
// that needs no wait, and not the smallest.
func TestTheBufferAfterALongMessage(t *testing.T) {
	before := budget.Messages.Used() // of transports of other tests
	for _, high := range []int{largeBuffer, 2 * largeBuffer, 1 << 20} {
		var s source
		s.buf = newBuffer(high)
		s.high = high
		s.release()
		s.borrow(max(s.hint, smallBuffer))
		if n := len(s.buf.b); n != largeBuffer {
			t.Errorf("after %d bytes the buffer has %d", high, n)
		}
		s.buf.free()
		s.stop()
	}
	if n := budget.Messages.Used() - before; n != 0 {
		t.Errorf("%d bytes still count", n)
	}
}

// TestCloseWhileAMessageWaitsForRoom checks that the timer of a message is not set again by the end
// of its wait after Close.
func TestCloseWhileAMessageWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var other budget.Account
		other.Pool = &budget.Messages
		other.Force(budget.Messages.Max)
		defer other.Give(budget.Messages.Max)
		oldest := other.Begin(1)
		defer oldest.End()
		peer, conn := net.Pipe()
		aborted := false
		s := source{}
		s.init(struct{ io.Reader }{conn}, time.Minute, func() { aborted = true })
		s.buf = newBuffer(1 << 20)
		s.end = len(s.buf.b)
		done := make(chan error)
		go func() { done <- s.fill(true) }()
		synctest.Wait()
		s.stop()
		if err := <-done; err == nil {
			t.Error("there is room")
		}
		s.watch.arm(time.Second) // at the same time as Close
		time.Sleep(time.Hour)
		if aborted {
			t.Error("a timer was left")
		}
		_, _ = peer.Close(), conn.Close()
	})
}
