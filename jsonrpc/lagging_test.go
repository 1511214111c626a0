package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// aboutCalls returns a client whose peer sends notifications about its calls. They name the id of
// the call.
func aboutCalls(t *testing.T, limits Limits) (*Conn, *scripted) {
	t.Helper()
	s := newScripted()
	c := NewConn(s)
	c.Limits = limits
	c.Related = func(req *Request) (ID, bool) {
		digits, _, _ := strings.Cut(string(req.Params[1:min(len(req.Params), 20)]), ",")
		id, err := strconv.ParseInt(digits, 10, 64)
		return IntID(id), err == nil
	}
	c.Start(t.Context())
	return c, s
}

func event(id, size int) scriptedRead {
	return scriptedRead{payload: fmt.Sprintf(`{"jsonrpc":"2.0","method":"e","params":[%d,"%s"]}`, id, strings.Repeat("x", size))}
}

// TestASlowStreamIsBoundedInBytes: while the callback of a Stream waits, its peer sends much more
// than the bound; what is stored stays in it, and the call ends.
func TestASlowStreamIsBoundedInBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		size   int // of one event
		taken  int // events that may wait
	}{
		{"large", Limits{}, 1 << 20, 7}, // each a little over 1 MiB
		{"large, with the number that mcp has", Limits{Events: 65_536}, 1 << 20, 7},
		{"small ones count a kibibyte", Limits{Events: 65_536}, 10, 8192},
		{"by number", Limits{}, 10, 256},
		{"a bound of its own", Limits{EventBytes: 100 << 10}, 30 << 10, 3},
		{"one of any size", Limits{EventBytes: 1 << 10}, 100 << 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, s := aboutCalls(t, c.limits)
				defer conn.Close()
				release := make(chan struct{})
				got := 0
				ended := make(chan error)
				go func() {
					ended <- conn.Stream(t.Context(), "x", nil, nil, func(*Request) error { got++; <-release; return nil })
				}()
				synctest.Wait()
				s.reads <- event(1, c.size) // the callback has it
				synctest.Wait()
				before := heap()
				for i := range c.taken {
					s.reads <- event(1, c.size)
					if synctest.Wait(); len(conn.Pending()) == 0 {
						t.Fatalf("ended with %d events, %d bytes", i, i*c.size)
					}
				}
				if grown := heap() - before; grown > 12<<20 {
					t.Errorf("%d events take %d bytes", c.taken, grown)
				}
				s.reads <- event(1, c.size)
				time.Sleep(time.Second) // the reader waits for room
				if len(conn.Pending()) != 0 {
					t.Errorf("%d bytes wait", (c.taken+1)*c.size)
				}
				if grown := heap() - before; grown > 2<<20 {
					t.Errorf("after the end %d bytes are held", grown)
				}
				close(release)
				if err := <-ended; !errors.Is(err, ErrLagging) || got != 1 {
					t.Errorf("Stream = %v after %d events", err, got)
				}
			})
		})
	}
}

// TestStreamsTogetherAreBoundedInBytes: of many slow Streams the one that holds most ends, and one
// that takes its notifications does not suffer.
func TestStreamsTogetherAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, size = 20, 1 << 20
		conn, s := aboutCalls(t, Limits{})
		var sent [streams + 2]int
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		got := 0
		wg.Go(func() {
			if err := conn.Stream(ctx, "x", nil, nil, func(*Request) error { got++; return nil }); err != nil {
				t.Errorf("the stream that is fast: %v", err)
			}
		})
		synctest.Wait()
		var lagged, rest atomic.Int32
		for range streams {
			wg.Go(func() {
				err := conn.Stream(ctx, "x", nil, nil, func(*Request) error { <-ctx.Done(); return nil })
				if errors.Is(err, ErrLagging) {
					lagged.Add(1)
				} else {
					rest.Add(1)
				}
			})
			synctest.Wait()
		}
		for range 6 {
			for id := range streams + 1 {
				s.reads <- event(id+1, size)
				synctest.Wait()
				sent[id+1]++
				waits := 0
				for _, pending := range conn.Pending() {
					if n, _ := pending.Int(); n > 1 {
						waits += max(sent[n]-1, 0) * size // the callback has the first one
					}
				}
				if waits > 64<<20 {
					t.Fatalf("%d bytes wait", waits)
				}
			}
		}
		s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","result":1,"id":1}`}
		synctest.Wait()
		cancel()
		wg.Wait()
		if got != 6 || lagged.Load() == 0 || rest.Load() == 0 {
			t.Errorf("%d events of the fast stream, %d slow ones ended, %d not", got, lagged.Load(), rest.Load())
		}
		_ = conn.Close()
	})
}

// TestAStreamThatTakesIsWaitedFor: a reader that is faster than a callback waits for it, and not
// for one that takes too long, or that needs the reader.
func TestAStreamThatTakesIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes func(ctx context.Context, c *Conn) error // each time
		want  error
	}{
		{"fast", func(context.Context, *Conn) error { return nil }, nil},
		{"steady", func(context.Context, *Conn) error { time.Sleep(10 * time.Millisecond); return nil }, nil},
		{"slow", func(context.Context, *Conn) error { time.Sleep(200 * time.Millisecond); return nil }, ErrLagging},
		{"too slow for the others", func(context.Context, *Conn) error { time.Sleep(90 * time.Millisecond); return nil }, ErrLagging},
		{"needs the reader", func(ctx context.Context, c *Conn) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_ = c.Call(ctx, "y", nil, nil) // it gets no response
			return nil
		}, ErrLagging},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, s := aboutCalls(t, Limits{EventBytes: 10 << 10, CallTime: -1})
				const events = 500
				go func() {
					<-s.written // an event before its call would be about none
					for range events {
						select {
						case s.reads <- event(1, 100):
						case <-t.Context().Done():
							return
						}
					}
					s.reads <- scriptedRead{payload: `{"jsonrpc":"2.0","result":1,"id":1}`}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got := 0
				err := conn.Stream(ctx, "x", nil, nil, func(*Request) error { got++; return c.takes(ctx, conn) })
				if c.want == nil && (err != nil || got != events) || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("Stream = %v after %d events", err, got)
				}
				_ = conn.Close()
			})
		})
	}
}

// heap returns the bytes of what is in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
