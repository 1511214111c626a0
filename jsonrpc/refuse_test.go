package jsonrpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestAnErrorOfOnOutlivesTheAnswer checks the case that the response arrives before on was called
// with the notifications. The error of on must not be lost, and on is not called again.
func TestAnErrorOfOnOutlivesTheAnswer(t *testing.T) {
	m := muxOf(map[string]Handler{"burst": HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
		for i := range 10 {
			if err := req.Peer().Notify(ctx, "tick", map[string]any{"id": req.ID, "n": i}); err != nil {
				return nil, err
			}
		}
		return "done", nil
	})})
	enough := errors.New("enough")
	for range 50 {
		a, b := memoryPipe()
		server, client := NewConn(newLine(a)), NewConn(newLine(b))
		server.Handler = m
		client.Related = related
		server.Start(t.Context())
		client.Start(t.Context())
		calls := 0
		err := client.Stream(t.Context(), "burst", nil, nil, func(*Request) error {
			if calls++; calls == 4 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || calls != 4 {
			t.Fatalf("Stream = %v after %d calls of on, want %v after 4", err, calls, enough)
		}
		_, _ = client.Close(), server.Close() // an error is not relevant any more
	}
}

// related returns the id in the params of a notification.
func related(req *Request) (ID, bool) {
	var p struct {
		ID ID  `json:"id"`
		N  int `json:"n"`
	}
	if req.Params.Decode(&p) != nil {
		return ID{}, false
	}
	return p.ID, true
}

// TestPeerFromManyGoroutines is for the race detector: a handler may use its request on several
// goroutines.
func TestPeerFromManyGoroutines(t *testing.T) {
	m := muxOf(map[string]Handler{"fan": HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
		var all sync.WaitGroup
		peers := make([]Peer, 8)
		for i := range peers {
			all.Go(func() { peers[i] = req.Peer() })
		}
		all.Wait()
		for _, p := range peers {
			if p != peers[0] {
				return nil, errors.New("two peers of one request")
			}
		}
		return "one", nil
	})})
	a, b := memoryPipe()
	server, client := NewConn(newLine(a)), NewConn(newLine(b))
	server.Handler = m
	server.Start(t.Context())
	client.Start(t.Context())
	if got, err := Call[string](t.Context(), client, "fan", nil); err != nil || got != "one" {
		t.Errorf("fan = %q, %v", got, err)
	}
	_, _ = client.Close(), server.Close() // an error is not relevant any more
}
