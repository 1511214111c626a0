package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// A deaf is a peer that sends the results of next and reads nothing until ears is closed.
type deaf struct {
	next  func() []byte // nil means no more input
	reads atomic.Int64  // bytes
	ears  chan struct{} // closed when it may read
	ended chan struct{}
	heard chan string
	close atomic.Bool
}

func newDeaf(next func() []byte) *deaf {
	return &deaf{next: next, ears: make(chan struct{}), ended: make(chan struct{}), heard: make(chan string, 10_000)}
}

func (d *deaf) Read() ([]byte, bool, error) {
	payload := d.next()
	if d.close.Load() {
		return nil, false, io.ErrClosedPipe
	}
	if payload == nil {
		<-d.ended
		return nil, false, io.EOF
	}
	d.reads.Add(int64(len(payload)))
	return payload, false, nil
}

func (d *deaf) Write(b Burst) error {
	select {
	case <-d.ears:
	case <-d.ended:
		return io.ErrClosedPipe
	}
	for payload := range b.All() {
		d.heard <- string(payload)
	}
	return nil
}

func (d *deaf) TryWrite(Burst) bool { return false }

func (d *deaf) Close() error {
	if d.close.CompareAndSwap(false, true) {
		close(d.ended)
	}
	return nil
}

// echoes returns a Mux with a method that returns its params, quick or not.
func echoes(modes ...Mode) *Mux {
	m := new(Mux)
	m.Add("echo", Func(func(_ context.Context, in []string) ([]string, error) { return in, nil }), modes...)
	return m
}

// TestUnreadResponsesStopReading checks that a Conn does not read from a peer that reads no
// responses.
func TestUnreadResponsesStopReading(t *testing.T) {
	for _, quick := range []bool{false, true} {
		for _, size := range []int{10, 4 << 10, 128 << 10} {
			t.Run(fmt.Sprintf("quick=%t/%d", quick, size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					request := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":[%q]}`, strings.Repeat("x", size)))
					d := newDeaf(func() []byte { return request })
					c := NewConn(d)
					var modes []Mode
					if quick {
						modes = append(modes, Quick)
					}
					serving(echoes(modes...))(c)
					c.Start(t.Context())
					synctest.Wait() // everything waits for the peer
					if n := d.reads.Load(); n > 3<<20 || n > int64(1300*len(request)) {
						t.Errorf("%d bytes in %d requests were read of a peer that reads nothing", n, n/int64(len(request)))
					}
					if err := c.Err(); err != nil {
						t.Errorf("the connection ended: %v", err)
					}
					before := d.reads.Load()
					close(d.ears)
					for range before/int64(len(request)) + 100 { // more than were read: reading continues
						<-d.heard
					}
					if d.reads.Load() == before {
						t.Error("reading does not continue")
					}
					c.Hangup(ErrClosed)
					go func() {
						for range d.heard {
						}
					}()
					_ = c.Close()
					close(d.heard)
				})
			})
		}
	}
}

// TestUnreadResponsesLetOurCallsEnd checks that reading continues for the response to an open call
// of ours, and that new requests are rejected once the peer makes no progress.
func TestUnreadResponsesLetOurCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":[%q]}`, strings.Repeat("x", 128<<10)))
		var answer atomic.Pointer[[]byte]
		stop := make(chan struct{})
		d := newDeaf(nil)
		d.next = func() []byte {
			if p := answer.Swap(nil); p != nil {
				return *p
			}
			select {
			case <-stop:
				return nil
			default:
				return request
			}
		}
		c := NewConn(d)
		serving(echoes())(c)
		c.Limits.CallTime = -1
		c.Start(t.Context())
		synctest.Wait()
		response := []byte(`{"jsonrpc":"2.0","id":1,"result":"here"}`)
		answer.Store(&response)
		got, err := Call[string](t.Context(), c, "ours", nil)
		if err != nil || got != "here" {
			t.Errorf("our call = %q, %v", got, err)
		}
		synctest.Wait()
		if n := d.reads.Load(); n > 16<<20 {
			t.Errorf("%d bytes were read", n)
		}
		close(stop)
		c.Hangup(ErrClosed)
		_ = c.Close()
	})
}

// A slowEars is a peer that reads its responses more slowly than it sends requests.
type slowEars struct {
	*deaf
	read atomic.Int64 // messages
}

func (d *slowEars) Write(b Burst) error {
	time.Sleep(10 * time.Millisecond) // the time of the bubble
	d.read.Add(int64(len(b.Ends)))
	return nil
}

// A steady is a peer that takes 50 ms for each message that it reads.
type steady struct {
	*deaf
	bytes atomic.Uint64
}

func (d *steady) Write(b Burst) error {
	for payload := range b.All() {
		time.Sleep(50 * time.Millisecond) // the time of the bubble
		d.bytes.Add(uint64(len(payload)))
		d.heard <- string(payload)
	}
	return nil
}

func (d *steady) WrittenBytes() uint64 { return d.bytes.Load() }

// TestSteadyPeersAreNotRejected checks that the requests of a peer are not rejected while it reads
// a burst of responses for several seconds: a transport with one POST for each message takes that
// long.
func TestSteadyPeersAreNotRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 300
		d := &steady{deaf: newDeaf(nil)}
		sent := 0
		d.next = func() []byte {
			if sent++; sent > most {
				return nil
			}
			if sent > most/2 {
				time.Sleep(100 * time.Millisecond) // while a long burst is being written
			}
			return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"echo","params":["x"]}`, sent)
		}
		c := NewConn(d)
		serving(echoes())(c)
		c.Limits.CallTime = -1
		opened := make(chan struct{})
		go func() {
			close(opened)
			_ = c.Call(t.Context(), "ours", nil, nil) // it ends with the Conn
		}()
		<-opened
		synctest.Wait() // the call is open before the first request
		c.Start(t.Context())
		responses := 0
		for responses < most {
			switch text := <-d.heard; {
			case strings.Contains(text, `"ours"`):
			default:
				if responses++; strings.Contains(text, `"error"`) {
					t.Errorf("response %d: %s", responses, text)
				}
			}
		}
		c.Hangup(ErrClosed)
		_ = c.Close()
	})
}

// TestSlowPeersAreReadAtTheirPace checks that, with a call of ours open, a peer that reads its
// rejections more slowly than it sends is read at its own pace.
func TestSlowPeersAreReadAtTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 200_000
		var sent atomic.Int64
		d := &slowEars{deaf: newDeaf(nil)}
		furthest := int64(0)
		d.next = func() []byte {
			n := sent.Add(1)
			if n == most {
				return nil
			}
			furthest = max(furthest, n-d.read.Load())
			return []byte(`{"jsonrpc":"2.0","id":1,"method":"none"}`)
		}
		c := NewConn(d)
		serving(echoes())(c)
		c.Limits.CallTime = -1
		c.Start(t.Context())
		go func() { _ = c.Call(t.Context(), "ours", nil, nil) }() // it ends with the Conn
		for sent.Load() < most && c.Err() == nil {
			time.Sleep(time.Second)
		}
		if err := c.Err(); err != nil {
			t.Errorf("after %d requests the connection ended: %v", sent.Load(), err)
		}
		if furthest > 40_000 { // 100 bytes each
			t.Errorf("%d responses waited", furthest)
		}
		c.Hangup(ErrClosed)
		_ = c.Close()
	})
}

// TestUnreadRejectionsEndTheConnection checks that a peer that owes us a response and reads nothing
// while it sends requests is rejected and then closed.
func TestUnreadRejectionsEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":[%q]}`, strings.Repeat("x", 64<<10)))
		d := newDeaf(func() []byte { return request })
		c := NewConn(d)
		serving(echoes())(c)
		c.Start(t.Context())
		err := c.Call(t.Context(), "ours", nil, nil)
		if !errors.Is(err, ErrClosed) || !errors.Is(err, ErrSlowPeer) {
			t.Errorf("our call = %v, want the end of the connection because of a slow peer", err)
		}
		_ = c.Close()
	})
}
