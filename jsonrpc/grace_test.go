package jsonrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestEveryEndIsBounded checks that Close, Shutdown and Serve return and report it although a
// handler ignores its context.
func TestEveryEndIsBounded(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(*Conn)
		end  func(*wire, *Conn) error
		took time.Duration
	}{
		{"Close", nil, func(_ *wire, c *Conn) error { return c.Close() }, 5 * time.Second},
		{"Close with a grace of its own", func(c *Conn) { c.Limits.Grace = 2 * time.Second }, func(_ *wire, c *Conn) error { return c.Close() }, 2 * time.Second},
		{"Shutdown", nil, func(_ *wire, c *Conn) error {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			err := c.Shutdown(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		}, 16 * time.Second},
		{"the end of the input", func(c *Conn) { c.Grace = 15 * time.Second }, func(w *wire, c *Conn) error {
			_ = w.c.Close() // Close ends it
			time.Sleep(16 * time.Second)
			return c.Close()
		}, 16 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				stuckReports := make(chan error, 10)
				w, c := serveWire(t, func(c *Conn) {
					c.Handler = stuck(release, func(req *Request) {
						if err := req.Peer().Notify(context.Background(), "late", nil); err == nil {
							t.Error("a handler spoke after the end")
						}
					})
					c.Report = func(what string, err error) {
						if what == "stuck" {
							stuckReports <- err
						}
					}
					if test.set != nil {
						test.set(c)
					}
				})
				w.send(`{"jsonrpc":"2.0","method":"x","id":1}`)
				synctest.Wait()
				start := time.Now()
				err := test.end(w, c)
				if d := time.Since(start); d < test.took || d > test.took+time.Second {
					t.Errorf("it took %v, want %v", d, test.took)
				}
				time.Sleep(10 * time.Second)
				if len(stuckReports) == 0 || test.name != "the end of the input" && !errors.Is(err, ErrStillRunning) {
					t.Errorf("it returned %v and reported %d times, want ErrStillRunning and a report", err, len(stuckReports))
				}
				close(release)
				synctest.Wait()
			})
		})
	}
}
