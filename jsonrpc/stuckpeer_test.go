package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A deaf transport delivers payloads and then err, or waits if that is nil. It writes nothing.
type deaf struct {
	payloads [][]byte
	err      error
	closed   chan struct{}
	once     sync.Once
}

func newDeaf(err error, payloads ...string) *deaf {
	d := &deaf{err: err, closed: make(chan struct{})}
	for _, p := range payloads {
		d.payloads = append(d.payloads, []byte(p))
	}
	return d
}

func (d *deaf) Read() ([]byte, bool, error) {
	if len(d.payloads) > 0 {
		p := d.payloads[0]
		d.payloads = d.payloads[1:]
		return p, false, nil
	}
	if d.err == nil {
		<-d.closed
		return nil, false, ErrClosed
	}
	return nil, false, d.err
}

func (d *deaf) Write(Burst) error {
	<-d.closed
	return ErrClosed
}

func (d *deaf) TryWrite(Burst) bool { return false }

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

const numbered = `{"jsonrpc":"2.0","id":%d,"method":"text"}`

// texts answers every request with the given number of bytes.
func texts(n int) Handler {
	return HandlerFunc(func(context.Context, *Request) (any, error) {
		return Raw(`"` + string(bytes.Repeat([]byte("x"), n-2)) + `"`), nil
	})
}

// TestAHalfClosedPeerThatDoesNotRead checks that the connection ends a second after the peer has
// stopped to take responses, whatever the time for the last ones is.
func TestAHalfClosedPeerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConn(newDeaf(io.EOF, fmt.Sprintf(numbered, 1)))
		c.Handler, c.Grace = texts(100), 15*time.Second
		start := time.Now()
		if err := c.Serve(t.Context()); !errors.Is(err, ErrSlowPeer) {
			t.Errorf("Serve = %v", err)
		}
		if took := time.Since(start); took < time.Second || took > 1500*time.Millisecond {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// TestAHalfClosedPeerWaitsForItsResponse checks that a slow handler has its time.
func TestAHalfClosedPeerWaitsForItsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := false
		c := NewConn(newDeaf(io.EOF, fmt.Sprintf(numbered, 1)))
		c.Grace = 15 * time.Second
		c.Handler = HandlerFunc(func(ctx context.Context, _ *Request) (any, error) {
			time.Sleep(10 * time.Second)
			done = ctx.Err() == nil
			return nil, nil
		})
		_ = c.Serve(t.Context()) // as above
		if !done {
			t.Error("the handler was cancelled")
		}
	})
}

// TestLongResponsesAreNotMade checks that requests that were read do not run while the peer does
// not read the long responses to others: a short request may have a long response.
func TestLongResponsesAreNotMade(t *testing.T) {
	for name, payload := range map[string]string{"single": numbered, "batch": "[" + numbered + "]"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var payloads []string
				for i := range 60 {
					payloads = append(payloads, fmt.Sprintf(payload, i))
				}
				peer := newDeaf(nil, payloads...)
				c := NewConn(peer)
				var mu sync.Mutex
				ran := 0
				c.Handler = HandlerFunc(func(context.Context, *Request) (any, error) {
					mu.Lock()
					ran++
					turn := time.Duration(ran)
					mu.Unlock()
					time.Sleep(turn * time.Second) // one after the other
					return Raw(`"` + string(bytes.Repeat([]byte("x"), 1<<20)) + `"`), nil
				})
				c.Limits.Running = 2
				c.Start(t.Context())
				time.Sleep(9 * time.Second)
				mu.Lock()
				if ran > 3 {
					t.Errorf("%d requests ran", ran)
				}
				mu.Unlock()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRejectionsAreBounded checks that a peer that does not read, and sends requests while a call
// of ours is open, cannot make us hold any number of rejections.
func TestRejectionsAreBounded(t *testing.T) {
	for name, payload := range map[string]string{
		"request":       `{"jsonrpc":"2.0","id":1,"method":"text"}`,
		"quick":         `{"jsonrpc":"2.0","id":1,"method":"quick"}`,
		"quick batch":   `[{"jsonrpc":"2.0","id":1,"method":"quick"}]`,
		"invalid":       `{"jsonrpc":"2.0","id":1,"method":1}`,
		"invalid batch": `[1]`,
		"empty batch":   `[]`,
		"no JSON":       `{`,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { floodUnread(t, payload) }) })
	}
}

// floodUnread checks that four connections end that get 40,000 payloads and write nothing.
func floodUnread(t *testing.T, payload string) {
	payloads := slices.Repeat([]string{payload}, 40_000)
	const conns = 4
	var ends sync.WaitGroup
	for range conns {
		c := NewConn(newDeaf(nil, payloads...))
		c.Handler = texts(100)
		c.Mode = func(method string) Mode {
			if method == "quick" {
				return Quick
			}
			return 0
		}
		ends.Go(func() { _ = c.Call(t.Context(), "never", nil, nil) })
		synctest.Wait() // until the call is open
		ends.Go(func() {
			if err := c.Serve(t.Context()); !errors.Is(err, ErrSlowPeer) {
				t.Errorf("Serve = %v", err)
			}
		})
	}
	ends.Wait()
	if budget.Rejections.Used() != 0 || budget.Unread.Load() != 0 {
		t.Errorf("%d and %d bytes are left", budget.Rejections.Used(), budget.Unread.Load())
	}
}

// TestANotificationAfterARejection checks that nothing of a rejected request is left in the message
// after it: a notification that had its ID would get a response.
func TestANotificationAfterARejection(t *testing.T) {
	c := NewConn(newDeaf(nil))
	m := new(Mux)
	ran := 0
	m.Add("count", Func(func(context.Context, struct{}) (any, error) { ran++; return nil, nil }), Quick)
	c.Handler, c.Mode = m, m.Mode
	c.begin()
	u := &c.out.unread
	u.over = true // long ago
	u.level.Store(true)
	if err := c.take(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"method":"count"}`)); err != nil {
		t.Fatal(err)
	}
	u.over = false // the peer has read meanwhile
	u.level.Store(false)
	if err := c.take(t.Context(), []byte(`{"jsonrpc":"2.0","method":"count"}`)); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(c.held.Bytes, []byte(`"id":7`)); n != 1 || ran != 1 {
		t.Errorf("id 7 got %d responses, and the handler ran %d times: %s", n, ran, c.held.Bytes)
	}
	c.forgetRejections()
}

// A slow transport delivers one payload each second.
type slow struct{ *deaf }

func (s slow) Read() ([]byte, bool, error) {
	time.Sleep(time.Second) // in a synctest bubble
	return s.deaf.Read()
}

// TestABatchWithALongResponse checks that other requests run while a batch has a long response and
// still runs: its peer cannot read the response yet, and a member may wait for another request.
func TestABatchWithALongResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConn(slow{newDeaf(nil,
			`[{"jsonrpc":"2.0","id":1,"method":"long"},{"jsonrpc":"2.0","id":2,"method":"wait"}]`,
			`{"jsonrpc":"2.0","id":3,"method":"proceed"}`)})
		proceed, waited := make(chan struct{}), make(chan struct{})
		c.Handler = HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
			switch req.Method {
			case "long":
				return Raw(`"` + string(bytes.Repeat([]byte("x"), 2<<20)) + `"`), nil
			case "wait":
				select {
				case <-proceed:
					close(waited)
				case <-ctx.Done():
				}
			case "proceed":
				close(proceed)
			}
			return nil, nil
		})
		c.Start(t.Context())
		time.Sleep(3 * time.Second)
		select {
		case <-waited:
		default:
			t.Error("the member of the batch still waits for the request after it")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if c.lane.partial.Load() != 0 || budget.Unread.Load() != 0 {
			t.Errorf("%d and %d bytes still count", c.lane.partial.Load(), budget.Unread.Load())
		}
	})
}

// TestABatchWithAStuckHandler checks that the long response of a batch counts no longer once it was
// sent in place of a handler that does not return.
func TestABatchWithAStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConn(newDeaf(nil, `[{"jsonrpc":"2.0","id":1,"method":"long"},{"jsonrpc":"2.0","id":2,"method":"stuck"}]`))
		c.Handler = HandlerFunc(func(_ context.Context, req *Request) (any, error) {
			if req.Method == "stuck" {
				time.Sleep(2 * time.Minute)
			}
			return Raw(`"` + string(bytes.Repeat([]byte("x"), 2<<20)) + `"`), nil
		})
		c.Start(t.Context())
		time.Sleep(50 * time.Second)
		if n := c.lane.partial.Load(); n < 2<<20 {
			t.Errorf("%d bytes count while the batch runs", n)
		}
		time.Sleep(20 * time.Second)
		if n := c.lane.partial.Load(); n != 0 {
			t.Errorf("%d bytes count after the response", n)
		}
		time.Sleep(time.Minute)
		_ = c.Close() // the handler has returned
		if c.lane.partial.Load() != 0 || budget.Unread.Load() != 0 {
			t.Errorf("%d and %d bytes still count", c.lane.partial.Load(), budget.Unread.Load())
		}
	})
}

// A held transport calls try before it refuses to write at once, and writes when it may.
type held struct {
	*deaf
	try func()
	may chan struct{}
}

func (h held) TryWrite(Burst) bool { h.try(); return false }

func (h held) Write(Burst) error { <-h.may; return nil }

// TestUnreadCountsWhatIsQueuedMeanwhile checks that a response counts until it is written if it was
// queued while another one was tried to be written.
func TestUnreadCountsWhatIsQueuedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := held{newDeaf(nil), nil, make(chan struct{})}
		var c *Conn
		h.try = func() { c.out.put([]byte("a cancel")); c.out.tryPut([]byte("second"), response) }
		c = NewConn(h)
		c.begin()
		unread := func() int {
			synctest.Wait()
			c.out.mu.Lock()
			defer c.out.mu.Unlock()
			return c.out.unread.messages()
		}
		b := new(Burst)
		b.Add([]byte("first"))
		c.out.now(b, response)
		for want := 2; want >= 0; want-- {
			if n := unread(); n != want {
				t.Errorf("%d responses are unread, want %d", n, want)
			}
			if want > 0 {
				h.may <- struct{}{}
			}
		}
	})
}

// TestLongResponsesAreExpected checks that few handlers of a method run at once if its responses
// are long and those of the process are many already: one on each connection, and above a bound
// only as many as 2 MiB per second allow. Other methods are not delayed.
func TestLongResponsesAreExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget.LongResponses.Reset()
		noteRecent("other", 0)
		noteRecent("expected", 4<<20)
		defer noteRecent("expected", 0)
		var mu sync.Mutex
		ran := map[string]int{}
		handler := HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
			mu.Lock()
			ran[req.Method]++
			mu.Unlock()
			<-ctx.Done()
			return nil, nil
		})
		count := func(method string) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return ran[method]
		}
		const text = `{"jsonrpc":"2.0","id":1,"method":"%s"}`
		var conns []*Conn
		for range 10 {
			payloads := slices.Repeat([]string{fmt.Sprintf(text, "expected")}, 20)
			c := NewConn(newDeaf(nil, payloads...))
			c.Handler = handler
			c.Start(t.Context())
			conns = append(conns, c)
			synctest.Wait()
		}
		// four on the first one, one on each of the next ones, and one more beyond the bound
		const first = 2*mostHeld/(4<<20) + 1
		if n := count("expected"); n != first || budget.Expected.Load() != int64(n)<<22 {
			t.Errorf("%d run, %d bytes are expected", n, budget.Expected.Load())
		}
		other := NewConn(newDeaf(nil, slices.Repeat([]string{fmt.Sprintf(text, "other")}, 20)...))
		other.Handler = handler
		other.Start(t.Context())
		if n := count("other"); n != 20 {
			t.Errorf("%d of another method run", n)
		}
		time.Sleep(2*time.Second - time.Millisecond)
		if n := count("expected"); n != first {
			t.Errorf("%d run in less than 2 s", n)
		}
		for i := range 3 {
			time.Sleep(2 * time.Second) // 4 MiB, at 2 MiB per second
			if n := count("expected"); n != first+1+i {
				t.Errorf("%d run after %d intervals", n, i+1)
			}
		}
		for _, c := range append(conns, other) {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := budget.Expected.Load(); n != 0 {
			t.Errorf("%d bytes are still expected", n)
		}
	})
}

// TestOthersMayBeFaster checks that a request does not start if another connection has used what
// was free when this one looked.
func TestOthersMayBeFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget.LongResponses.Reset()
		budget.Expected.Add(2 * mostHeld)
		defer budget.Expected.Add(-2 * mostHeld)
		var known, fresh budget.Recent
		known.Note(1 << 20)
		for name, c := range map[string]struct {
			recent *budget.Recent
			use    func()
			wait   time.Duration
		}{
			"overdraft": {&known, func() { budget.LongResponses.Take(1 << 20) }, 500 * time.Millisecond},
			"first": {&fresh, func() {
				for fresh.StartNew() == 0 {
				}
			}, 50 * time.Millisecond},
		} {
			l := &lane{unread: new(unread)}
			task := &task{job: new(job), waits: true, recent: c.recent}
			if !l.mayAnswer(task) {
				t.Fatalf("%s: the request may not start", name)
			}
			c.use()
			if n := budget.Expected.Load(); l.draw(task) || budget.Expected.Load() != n {
				t.Errorf("%s: the request starts, or counts", name)
			}
			time.Sleep(c.wait)
			if !l.mayAnswer(task) || !l.draw(task) {
				t.Errorf("%s: the request does not start later", name)
			}
			l.end(task)
		}
	})
}

// noteRecent makes n the length of the recent responses of a method, which may share its entry with
// methods of other tests.
func noteRecent(method string, n int) {
	for range 100 {
		budget.RecentOf(method).Note(0)
	}
	budget.RecentOf(method).Note(n)
}

// TestManyHandlersOfANewMethod checks that few handlers of a method that has not responded yet
// start at once, and all of them after a moment, or when the length of its responses is known.
func TestManyHandlersOfANewMethod(t *testing.T) {
	for _, responds := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var ran atomic.Int32
			end := make(chan struct{}, 1)
			budget.RecentOf("new").Forget()
			c := NewConn(newDeaf(nil, slices.Repeat([]string{`{"jsonrpc":"2.0","id":1,"method":"new"}`}, 100)...))
			c.Handler = HandlerFunc(func(ctx context.Context, _ *Request) (any, error) {
				ran.Add(1)
				select {
				case <-end:
				case <-ctx.Done():
				}
				return nil, nil
			})
			c.Start(t.Context())
			check := func(want int32) {
				t.Helper()
				synctest.Wait()
				if n := ran.Load(); n != want {
					t.Errorf("%d handlers run, want %d", n, want)
				}
			}
			check(16)
			if responds {
				end <- struct{}{}
			} else {
				time.Sleep(49 * time.Millisecond)
				check(16)
				time.Sleep(time.Millisecond)
			}
			check(100)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadersOfLongResponsesAreNotDelayed checks that a peer that has read much may have many long
// responses made at once, and how many if others have the memory.
func TestReadersOfLongResponsesAreNotDelayed(t *testing.T) {
	for _, tc := range []struct {
		taken, others int64
		want          int
	}{
		{0, 0, mostExpected >> 20},
		{0, mostExpected, 1},
		{64 << 20, mostExpected, 9},
		{1 << 30, mostExpected, 100},
		{1 << 30, mostEarned - 20<<20, 20},
		{1 << 30, mostEarned, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			budget.LongResponses.Reset()
			budget.Expected.Add(tc.others)
			defer budget.Expected.Add(-tc.others)
			var ran atomic.Int32
			c := NewConn(newDeaf(nil, slices.Repeat([]string{`{"jsonrpc":"2.0","id":1,"method":"read"}`}, 100)...))
			noteRecent("read", 1<<20)
			defer noteRecent("read", 0)
			c.Handler = HandlerFunc(func(ctx context.Context, _ *Request) (any, error) {
				ran.Add(1)
				<-ctx.Done()
				return nil, nil
			})
			c.out.unread.taken.Store(tc.taken)
			c.Start(t.Context())
			synctest.Wait()
			if n := ran.Load(); n != int32(tc.want) { //nolint:gosec // short
				t.Errorf("%d handlers run after %d bytes were taken, with %d of others; want %d", n, tc.taken, tc.others, tc.want)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestALongResponseIsNotCopied checks that the memory of a long response is handed over.
func TestALongResponseIsNotCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConn(newDeaf(nil))
		c.begin()
		c.out.put([]byte("being written"))
		synctest.Wait()
		j := &job{out: append(make([]byte, 0, handedOver+1), bytes.Repeat([]byte("x"), handedOver)...)}
		first := &j.out[0]
		c.send(j)
		c.out.mu.Lock()
		if b := c.out.next; b == nil || &b.Bytes[0] != first || len(b.Bytes) != handedOver+1 || len(b.Ends) != 1 || j.out != nil {
			t.Error("the response was copied, or still belongs to the job")
		}
		c.out.mu.Unlock()
		c.fail(ErrClosed)
	})
}

// TestWaitingMessagesDoNotEndTheConnection checks that a response of the reader finds room while
// messages of our own fill the outbox and more of them wait.
func TestWaitingMessagesDoNotEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeaf(nil, `{"jsonrpc":"2.0","id":1,"method":"quick"}`)
		m := new(Mux)
		m.Add("quick", Func(func(context.Context, struct{}) (string, error) { return strings.Repeat("x", 100<<10), nil }), Quick)
		c := NewConn(d)
		c.Handler, c.Mode = m, m.Mode
		text := strings.Repeat("x", 64<<10)
		for range 200 {
			go func() { _ = c.Notify(t.Context(), "ours", []string{text}) }() // it ends with the Conn
		}
		synctest.Wait() // the outbox is full
		c.Start(t.Context())
		synctest.Wait()
		if err := c.Err(); err != nil {
			t.Errorf("the connection ended: %v", err)
		}
		c.Hangup(ErrClosed)
		_ = c.Close() // the reason is above
	})
}
