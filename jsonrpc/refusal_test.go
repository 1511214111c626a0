package jsonrpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

const refusalNull = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`

// TestARefusalIsNotGuessed checks that a response with id null ends a call or a batch only if it
// can be about nothing else.
func TestARefusalIsNotGuessed(t *testing.T) {
	call := func(ctx context.Context, c *Conn, method string, results chan<- error) {
		go func() { results <- c.Call(ctx, method, nil, nil) }()
		synctest.Wait()
	}
	batch := func(c *Conn, results chan<- error) {
		go func() {
			items := []Item{{Method: "x"}, {Method: "y"}}
			err := c.Batch(context.Background(), items)
			results <- errors.Join(err, items[0].Err, items[1].Err)
		}()
		synctest.Wait()
	}
	tests := []struct {
		name string
		do   func(t *testing.T, w *wire, c *Conn, results chan error)
		want string // the messages that follow on the wire, and the result of the call
	}{
		{"a single call alone", func(t *testing.T, w *wire, c *Conn, results chan error) {
			call(t.Context(), c, "pay", results)
			w.send(refusalNull)
		}, "Invalid Request (-32600)"},
		{"a batch alone", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, results)
			w.send(refusalNull)
			synctest.Wait()
			w.send(`{"jsonrpc":"2.0","result":1,"id":3}`, `{"jsonrpc":"2.0","result":1,"id":4}`)
		}, ""},
		{"another code, call", func(t *testing.T, w *wire, c *Conn, results chan error) {
			call(t.Context(), c, "pay", results)
			w.send(strings.Replace(refusalNull, "-32600", "-32700", 1), `{"jsonrpc":"2.0","result":1,"id":1}`)
		}, ""},
		{"another code, batch", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, results)
			w.send(strings.Replace(refusalNull, "-32600", "-31001", 1), `[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","result":1,"id":2}]`)
		}, ""},
		{"in an array", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, results)
			w.send("["+refusalNull+"]", `[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","result":1,"id":2}]`)
		}, ""},
		{"after a notification, call", func(t *testing.T, w *wire, c *Conn, results chan error) {
			call(t.Context(), c, "pay", results)
			_ = c.Notify(t.Context(), "huge", nil) // the test fails without it
			w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":1}`)
		}, ""},
		{"before a notification, call", func(t *testing.T, w *wire, c *Conn, results chan error) {
			_ = c.Notify(t.Context(), "huge", nil) // the test fails without it
			call(t.Context(), c, "pay", results)
			w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":1}`)
		}, ""},
		{"a notification that a later call has proved", func(t *testing.T, w *wire, c *Conn, results chan error) {
			_ = c.Notify(t.Context(), "small", nil) // the test fails without it
			call(t.Context(), c, "first", make(chan error, 1))
			w.send(`{"jsonrpc":"2.0","result":1,"id":1}`)
			synctest.Wait()
			call(t.Context(), c, "pay", results)
			w.send(refusalNull)
		}, "Invalid Request (-32600)"},
		{"with a notification, batch", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, results)
			_ = c.Notify(t.Context(), "huge", nil) // the test fails without it
			w.send(refusalNull, `[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","result":1,"id":2}]`)
		}, ""},
		{"with a response of ours", func(t *testing.T, w *wire, c *Conn, results chan error) {
			call(t.Context(), c, "pay", results)
			w.send(`{"jsonrpc":"2.0","method":"huge","id":7}`)
			synctest.Wait()
			w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":1}`)
		}, ""},
		{"with a batch of notifications", func(t *testing.T, w *wire, c *Conn, results chan error) {
			call(t.Context(), c, "pay", results)
			// the test fails without it
			_ = c.Batch(t.Context(), []Item{{Method: "a", Notify: true}})
			w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":1}`)
		}, ""},
		{"after a call was given up", func(t *testing.T, w *wire, c *Conn, results chan error) {
			ctx, cancel := context.WithCancel(t.Context())
			call(ctx, c, "huge", make(chan error, 1))
			cancel()
			synctest.Wait()
			call(t.Context(), c, "pay", results)
			w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":2}`)
		}, ""},
		{"after a call was given up, batch", func(t *testing.T, w *wire, c *Conn, results chan error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			call(ctx, c, "huge", make(chan error, 1))
			time.Sleep(2 * time.Second) // in a synctest bubble
			batch(c, results)
			w.send(refusalNull, `[{"jsonrpc":"2.0","result":1,"id":2},{"jsonrpc":"2.0","result":1,"id":3}]`)
		}, ""},
		{"after a call that was given up was answered", func(t *testing.T, w *wire, c *Conn, results chan error) {
			ctx, cancel := context.WithCancel(t.Context())
			call(ctx, c, "slow", make(chan error, 1))
			cancel()
			synctest.Wait()
			w.send(`{"jsonrpc":"2.0","result":1,"id":1}`)
			call(t.Context(), c, "pay", results)
			w.send(refusalNull)
		}, "Invalid Request (-32600)"},
		{"a batch of which a response came", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, results)
			w.send(`{"jsonrpc":"2.0","result":1,"id":1}`, refusalNull)
			synctest.Wait()
			w.send(`{"jsonrpc":"2.0","result":1,"id":2}`)
		}, ""},
		{"two batches", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, results)
			batch(c, make(chan error, 1))
			w.send(refusalNull)
			synctest.Wait()
			w.send(`{"jsonrpc":"2.0","result":1,"id":1}`, `{"jsonrpc":"2.0","result":1,"id":2}`,
				`{"jsonrpc":"2.0","result":1,"id":3}`, `{"jsonrpc":"2.0","result":1,"id":4}`)
		}, ""},
		{"a batch and a call", func(t *testing.T, w *wire, c *Conn, results chan error) {
			batch(c, make(chan error, 1))
			call(t.Context(), c, "pay", results)
			w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":3}`, `{"jsonrpc":"2.0","result":1,"id":1}`, `{"jsonrpc":"2.0","result":1,"id":2}`)
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := serveWire(t, func(*Conn) {})
				results := make(chan error, 1)
				test.do(t, w, c, results)
				got := ""
				if err := <-results; err != nil {
					got = err.Error()
				}
				if got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// TestALateMemberDoesNotMeetItsBatchAgain checks that a waiter, which later calls reuse, does not
// belong to the batch of its earlier call.
func TestALateMemberDoesNotMeetItsBatchAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := serveWire(t, func(*Conn) {})
		batch, single := make(chan []Item, 1), make(chan error, 1)
		go func() {
			items := []Item{{Method: "x"}, {Method: "y"}}
			_ = c.Batch(t.Context(), items) // the items hold the error
			batch <- items
		}()
		synctest.Wait()
		w.send(`{"jsonrpc":"2.0","result":1,"id":1}`)
		synctest.Wait()
		go func() { single <- c.Call(t.Context(), "pay", nil, nil) }()
		synctest.Wait()
		w.send(refusalNull, `{"jsonrpc":"2.0","result":1,"id":3}`, `{"jsonrpc":"2.0","result":1,"id":2}`)
		if err := <-single; err != nil {
			t.Error("the single call:", err)
		}
		for i, item := range <-batch {
			if item.Err != nil {
				t.Error("member", i, item.Err)
			}
		}
		w.want(`[{"jsonrpc":"2.0","method":"x","id":1},{"jsonrpc":"2.0","method":"y","id":2}]`, `{"jsonrpc":"2.0","method":"pay","id":3}`)
		_ = c.Close() // nothing else may be on the wire
		if rest, _ := w.r.ReadString('\n'); rest != "" {
			t.Errorf("%q was sent besides", rest)
		}
	})
}

// TestALoneClientDoesNotGuess checks the same rule for calls that are made one after the other.
func TestALoneClientDoesNotGuess(t *testing.T) {
	for _, test := range []struct {
		name, reply string
		notify      bool
		want        string
	}{
		{"alone", refusalNull, false, "Invalid Request (-32600)"},
		{"another code", strings.Replace(refusalNull, "-32600", "-31001", 1) + "\n" + `{"jsonrpc":"2.0","result":1,"id":1}`, false, ""},
		{"after a notification", refusalNull + "\n" + `{"jsonrpc":"2.0","result":1,"id":1}`, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := memoryPipe()
			w := &wire{t: t, c: a}
			c := NewLoneClient(newLine(b))
			defer c.Close()
			if test.notify {
				if err := c.Notify(t.Context(), "huge", nil); err != nil {
					t.Fatal(err)
				}
			}
			w.send(test.reply)
			got := ""
			if err := c.Call(t.Context(), "pay", nil, nil); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
