package jsonrpc_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

var _ Peer = (*LoneClient)(nil)

func lone(t *testing.T, set func(*Conn)) *LoneClient {
	t.Helper()
	a, b := memoryPipe()
	s := NewConn(newLine(b))
	set(s)
	s.Start(context.Background())
	c := NewLoneClient(newLine(a))
	t.Cleanup(func() {
		_ = c.Close()
		_ = s.Close()
	})
	return c
}

func TestLoneClient(t *testing.T) {
	m := specMux()
	m.Add("ask", PeerFunc(func(ctx context.Context, p Peer, _ struct{}) (string, error) {
		return Call[string](ctx, p, "name", nil)
	}))
	m.Add("count", PeerFunc(func(ctx context.Context, p Peer, in []int) (int, error) {
		for i := range in[0] {
			if err := p.Notify(ctx, "tick", []int{i}); err != nil {
				return 0, err
			}
		}
		return in[0], nil
	}))
	c := lone(t, serving(m))
	if err := c.Call(t.Context(), "ask", nil, nil); !errors.Is(err, ErrMethodNotFound) {
		t.Errorf("ask without a way back: %v", err)
	}
	c.Back = &Answerer{Handler: muxOf(map[string]Handler{"name": Func(func(context.Context, struct{}) (string, error) { return "Ada", nil })})}
	if got, err := Call[string](t.Context(), c, "ask", nil); got != "Ada" || err != nil {
		t.Errorf("ask = %q, %v", got, err)
	}
	var wait sync.WaitGroup
	for i := range 50 { // they run one after the other
		wait.Go(func() {
			if got, err := Call[int](context.Background(), c, "subtract", []int{i, 1}); err != nil || got != i-1 {
				t.Errorf("subtract = %d, %v", got, err)
			}
		})
	}
	wait.Wait()
	ticks, n := 0, 0
	err := c.Stream(t.Context(), "count", []int{5}, &n, func(r *Request) error { ticks++; return nil })
	if err != nil || ticks != 5 || n != 5 {
		t.Errorf("count: %d ticks, %d, %v", ticks, n, err)
	}
	if err := c.Call(t.Context(), "none", nil, nil); !errors.Is(err, ErrMethodNotFound) {
		t.Errorf("none: %v", err)
	}
	if err := c.Notify(t.Context(), "update", []int{1}); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	if err := c.Call(t.Context(), "sum", []int{1}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestLoneClientEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := muxOf(map[string]Handler{"never": Func(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() })})
		quiet := func(c *Conn) { serving(never)(c); c.Limits.Deadline = -1; c.Limits.TotalDeadline = -1 }
		c := lone(t, quiet)
		start := time.Now()
		if err := c.Call(t.Context(), "never", nil, nil); !errors.Is(err, ErrTimeout) && !errors.Is(err, context.Canceled) || time.Since(start) != 60*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		c = lone(t, quiet)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Call(ctx, "never", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call = %v", err)
		}
		if err := c.Call(t.Context(), "never", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("a later Call = %v", err)
		}
	})
}

func TestLoneClientAgainstBadPeers(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   error
	}{
		{`not JSON`, ErrBadResponse},
		{`{"jsonrpc":"2.0","id":1}`, ErrBadResponse},
		{`{"jsonrpc":"2.0","result":1,"error":null,"id":1}`, ErrBadResponse},
		{invalid, ErrInvalidRequest},
		{`{"jsonrpc":"2.0","result":5,"id":7}` + "\n" + `{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"},"id":1}`, ErrMethodNotFound},
	} {
		a, b := memoryPipe()
		c := NewLoneClient(newLine(a))
		go func() { _, _ = io.WriteString(b, tt.answer+"\n") }()
		if err := c.Call(t.Context(), "x", nil, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.answer, err)
		}
		_ = b.Close()
		_ = c.Close()
	}
}
