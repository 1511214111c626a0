package httprpc

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A tripper is a transport in memory, so that time can be fake.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// silent sends no response until the request is cancelled.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestCallTime(t *testing.T) {
	over := func(t *testing.T, o Options, call func(*Client) error, want time.Duration, kind error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			if o.HTTP == nil {
				o.HTTP = &http.Client{Transport: tripper(silent)}
			}
			c := NewClient("http://server.example/", &o)
			start := time.Now()
			err := call(c)
			if took := time.Since(start); !errors.Is(err, kind) || took != want {
				t.Errorf("got %v after %v, want %v after %v", err, took, kind, want)
			}
			_ = c.Close() // always nil
		})
	}
	plainCall := func(c *Client) error { return c.Call(context.Background(), "x", nil, nil) }
	t.Run("60 s", func(t *testing.T) { over(t, Options{}, plainCall, time.Minute, jsonrpc.ErrTimeout) })
	t.Run("another time", func(t *testing.T) {
		over(t, Options{CallTime: time.Second}, plainCall, time.Second, jsonrpc.ErrTimeout)
	})
	t.Run("a notification", func(t *testing.T) {
		over(t, Options{}, func(c *Client) error { return c.Notify(context.Background(), "x", nil) }, time.Minute, jsonrpc.ErrTimeout)
	})
	t.Run("a deadline counts instead", func(t *testing.T) {
		over(t, Options{}, func(c *Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			return c.Call(ctx, "x", nil, nil)
		}, time.Hour, context.DeadlineExceeded)
	})
	why := errors.New("why")
	t.Run("a cause", func(t *testing.T) {
		over(t, Options{}, func(c *Client) error {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Second, func() { cancel(why) })
			return c.Call(ctx, "x", nil, nil)
		}, time.Second, why)
	})
	t.Run("an open method", func(t *testing.T) {
		over(t, Options{Open: func(string) bool { return true }}, func(c *Client) error {
			time.AfterFunc(24*time.Hour, func() { _ = c.Close() })
			return c.Call(context.Background(), "x", nil, nil)
		}, 24*time.Hour, jsonrpc.ErrClosed)
	})
	t.Run("events renew it", func(t *testing.T) {
		over(t, Options{HTTP: &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			context.AfterFunc(r.Context(), func() { pw.CloseWithError(r.Context().Err()) })
			go func() {
				for range 3 {
					time.Sleep(50 * time.Second)
					// fails when the call is over
					_, _ = io.WriteString(pw, "data: {\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n\n")
				}
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: pr, Request: r}, nil
		})}}, plainCall, 210*time.Second, jsonrpc.ErrTimeout)
	})
}

// TestAbandonedCallsAreHeardOf checks that the server's handler ends when the caller stops waiting.
func TestAbandonedCallsAreHeardOf(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	web := serve(t, Handler(jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		close(started)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, nil
	})))
	c := client(t, web, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if err := c.Call(ctx, "wait", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context: %v", err)
	}
}

func TestClose(t *testing.T) {
	started := make(chan struct{}, 10)
	web := serve(t, Handler(jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, nil
	})))
	c := NewClient(web.URL, nil)
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			if err := c.Call(t.Context(), "wait", nil, nil); !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		})
	}
	for range 10 {
		<-started
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	calls.Wait()
	if err := c.Call(t.Context(), "wait", nil, nil); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
}

// TestConnectionsAreUsedAgain counts the connections for many kinds of responses.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var conns atomic.Int64
	web := httptest.NewUnstartedServer(Handler(methods()))
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	c := client(t, web, nil)
	for range 10 {
		_ = c.Call(t.Context(), "subtract", []int{2, 1}, nil)
		_ = c.Call(t.Context(), "nobody", nil, nil)
		_ = c.Notify(t.Context(), "update", nil)
		_ = c.Call(t.Context(), "count", []int{2}, nil)
		_ = c.Batch(t.Context(), []jsonrpc.Item{{Method: "update"}, {Method: "update", Notify: true}})
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections were opened, want 1", n)
	}
}

// TestTheEndOfAStreamIsWaitedFor checks a stream whose end arrives a little later than the
// response.
func TestTheEndOfAStreamIsWaitedFor(t *testing.T) {
	var conns atomic.Int64
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		replying(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":1}\n\n").ServeHTTP(w, r)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-time.After(10 * time.Millisecond) // a real connection has no fake clock
	}))
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	c := client(t, web, nil)
	for range 20 {
		if err := c.Call(t.Context(), "x", nil, nil); err != nil {
			t.Error(err)
		}
	}
	if n := conns.Load(); n > 5 { // a busy machine may take longer than the client waits
		t.Errorf("%d connections were opened for 20 calls", n)
	}
}
