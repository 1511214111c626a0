package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// TestWrittenRejectionsCountNoLonger checks that rejections count until they are written, also if
// the peer always has other responses to read.
func TestWrittenRejectionsCountNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := held{newDeaf(nil), func() {}, make(chan struct{})}
		c := NewConn(h)
		c.Handler = texts(10)
		c.begin()
		long := make([]byte, 2*unreadBytes)
		for round := range 3 {
			c.out.tryPut(long, response)
			synctest.Wait() // it is being written
			c.out.mu.Lock()
			c.out.unread.progress = time.Now().Add(-time.Minute)
			c.out.mu.Unlock()
			if err := c.take(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"method":"m"}`)); err != nil {
				t.Fatal(err)
			}
			if err := c.release(); err != nil {
				t.Fatal(err)
			}
			c.out.tryPut(long, response) // so that there are always too many
			used := budget.Rejections.Used()
			if used <= messageCost || used > 2*messageCost || c.rejected != 0 {
				t.Errorf("round %d: %d bytes count, and %d in the reader", round, used, c.rejected)
			}
			for range 2 {
				h.may <- struct{}{}
				synctest.Wait()
			}
			if n := budget.Rejections.Used(); n != 0 {
				t.Errorf("round %d: %d bytes count after they were written", round, n)
			}
		}
		c.fail(ErrClosed)
	})
}

// TestRoomThatIsNotUsedIsReleased checks that a request that waited for room, and may not be queued
// after all, leaves nothing in the pool of the process.
func TestRoomThatIsNotUsedIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConn(newDeaf(nil))
		c.begin()
		var others budget.Account
		others.Pool = &budget.Requests
		others.Force(budget.Requests.Max)
		got := make(chan bool)
		long := &task{job: new(job), size: longRequest, members: 1, waits: true}
		go func() { got <- c.waitForRoom(t.Context(), long) }()
		synctest.Wait()
		c.lane.mu.Lock()
		c.lane.resting = mostResting // no new request may start
		c.lane.mu.Unlock()
		others.Give(budget.Requests.Max)
		if <-got {
			t.Error("the request is queued")
		}
		if n := budget.Requests.Used(); n != 0 {
			t.Errorf("%d bytes count", n)
		}
		c.fail(ErrClosed)
	})
}

// TestAPanicOfModeLeavesNothing checks that nothing counts after Mode panicked for a member of a
// batch: neither room, nor a request that runs, nor a payload that Drain waits for.
func TestAPanicOfModeLeavesNothing(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","id":2,"method":"bad"}]`
	mode := func(method string) Mode {
		if method == "bad" {
			panic("in Mode")
		}
		return 0
	}
	check := func(t *testing.T, a *Answerer) {
		if n := a.active.Load(); n != 0 {
			t.Errorf("%d payloads are in progress", n)
		}
		if a.newest != nil {
			t.Error("a request is still listed")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Drain(ctx); err != nil {
			t.Errorf("Drain = %v", err)
		}
	}
	t.Run("Conn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := NewConn(newDeaf(io.EOF, batch))
			c.Handler, c.Mode, c.Report = texts(10), mode, func(string, error) {}
			if err := c.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "in Mode") {
				t.Errorf("Serve = %v", err)
			}
			check(t, &c.Answerer)
			if n := budget.Requests.Used(); n != 0 || c.lane.weighs != 0 || c.lane.requests != 0 {
				t.Errorf("%d bytes, a weight of %d and %d requests count", n, c.lane.weighs, c.lane.requests)
			}
		})
	})
	for name, payload := range map[string]string{"Answer": `{"jsonrpc":"2.0","id":2,"method":"bad"}`, "Answer, batch": batch} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &Answerer{Handler: texts(10), Mode: mode, Report: func(string, error) {}}
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic does not reach the caller")
						}
					}()
					_, _ = a.Answer(t.Context(), nil, []byte(payload), &Exchange{}) // it panics
				}()
				check(t, a)
			})
		})
	}
}

// TestASentResponseWakesTheLane checks that a request starts once the long response that prevented
// it is queued, although the goroutine of that response has other things to do.
func TestASentResponseWakesTheLane(t *testing.T) {
	for name, row := range map[string]struct {
		before, after func(*lane)
	}{
		"response": {func(l *lane) { l.made(unreadBytes) }, func(l *lane) { l.sent(unreadBytes) }},
		"batch": {func(l *lane) { l.madePart(unreadBytes); l.running++; l.started = time.Now().Add(time.Hour) },
			func(l *lane) { l.sentPart(unreadBytes) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := make(chan struct{}, 1)
				l := &lane{run: func(*task) { ran <- struct{}{} }, most: 8, pending: 8, weight: 1 << 20, unread: new(unread)}
				row.before(l)
				next := &task{job: new(job), size: 100, members: 1, waits: true}
				if l.reserve(next) != reserved {
					t.Fatal("no room")
				}
				l.push(next)
				synctest.Wait()
				if len(ran) != 0 {
					t.Fatal("the request ran")
				}
				row.after(l)
				synctest.Wait()
				if len(ran) != 1 {
					t.Error("the request does not run")
				}
				l.wait(-1)
			})
		})
	}
}

// A bad counter panics when the progress of a write is asked for.
type badCounter struct{ *deaf }

func (badCounter) WrittenBytes() uint64 { panic("in WrittenBytes") }

// TestAPanicOfWrittenBytes checks that it ends the connection, and not the process: a handler that
// waits for room, and the watch over a peer that has ended its side, call it.
func TestAPanicOfWrittenBytes(t *testing.T) {
	for name, end := range map[string]error{"waiting for room": nil, "half-closed": io.EOF} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDeaf(end, fmt.Sprintf(numbered, 1), fmt.Sprintf(numbered, 2), fmt.Sprintf(numbered, 3))
				c := NewConn(badCounter{d})
				c.Handler, c.Grace, c.Report = texts(100), time.Minute, func(string, error) {}
				c.Limits.OutBytes = 100
				if err := c.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "in WrittenBytes") {
					t.Errorf("Serve = %v", err)
				}
			})
		})
	}
}

// TestANegativeGraceWaits checks that the end of a connection waits for a handler without a bound
// if Limits.Grace is negative, except for one that had the time of Conn.Grace.
func TestANegativeGraceWaits(t *testing.T) {
	for name, row := range map[string]struct {
		conn, limit, want time.Duration // want is from the start of the handler
		end               error         // of the input, a second later
	}{
		"Close":               {0, -1, time.Hour, nil},
		"the end of input":    {0, -1, time.Hour, io.EOF},
		"after Conn.Grace":    {time.Minute, -1, time.Minute + 2*time.Second, io.EOF},
		"a shorter one":       {time.Minute, time.Second / 2, time.Minute + 3*time.Second/2, io.EOF},
		"negative Conn.Grace": {-1, -1, time.Hour, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewConn(slow{newDeaf(row.end, fmt.Sprintf(numbered, 1))})
				c.Grace, c.Limits.Grace, c.Limits.Deadline = row.conn, row.limit, -1
				c.Report = func(string, error) {}
				started := make(chan time.Time, 1)
				c.Handler = HandlerFunc(func(context.Context, *Request) (any, error) {
					started <- time.Now()
					time.Sleep(time.Hour) // whatever happens to its context
					return nil, nil
				})
				served := make(chan error, 1)
				go func() { served <- c.Serve(t.Context()) }()
				start := <-started
				if row.end == nil {
					if err := c.Close(); err != nil {
						t.Errorf("Close = %v", err)
					}
				}
				err := <-served
				if took := time.Since(start); took < row.want || took > row.want+100*time.Millisecond {
					t.Errorf("it took %v, want %v", took, row.want)
				}
				if still := row.want < time.Hour; errors.Is(err, ErrStillRunning) != still {
					t.Errorf("Serve = %v", err)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// TestShortMembersOfABatchDoNotCount checks that only long responses of a batch that still runs
// count as responses that the peer cannot read yet: a batch of many short ones is not delayed.
func TestShortMembersOfABatchDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewConn(newDeaf(nil))
		wait := make(chan struct{})
		c.Handler = HandlerFunc(func(_ context.Context, req *Request) (any, error) {
			switch req.Method {
			case "wait":
				<-wait
			case "long":
				return Raw(`"` + strings.Repeat("x", longResponse) + `"`), nil
			}
			return Raw(`"` + strings.Repeat("x", longResponse/2) + `"`), nil
		})
		c.begin()
		before := budget.Unread.Load()
		for i, row := range []struct {
			method string
			least  int64
		}{{"short", 0}, {"long", 4 * longResponse}} {
			members := make([]string, 4)
			for n := range members {
				members[n] = fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d-%d","method":%q}`, i, n, row.method)
			}
			batch := "[" + strings.Join(members, ",") + fmt.Sprintf(`,{"jsonrpc":"2.0","id":"%d-w","method":"wait"}]`, i)
			if err := c.take(t.Context(), []byte(batch)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			n := c.lane.partial.Load()
			if n < row.least || n > row.least+1<<10 {
				t.Errorf("%s: %d bytes count", row.method, n)
			}
			wait <- struct{}{}
			synctest.Wait()
			if n := c.lane.partial.Load(); n != 0 {
				t.Errorf("%s: %d bytes count after the batch", row.method, n)
			}
		}
		c.fail(ErrClosed)
		c.lane.wait(-1)
		synctest.Wait()
		if n := budget.Unread.Load(); n != before {
			t.Errorf("%d bytes count after the connection", n-before)
		}
	})
}
