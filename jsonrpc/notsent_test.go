package jsonrpc_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

func TestNotSent(t *testing.T) {
	if jsonrpc.NotSent(nil) || jsonrpc.AsNotSent(nil) != nil {
		t.Error("no error says that nothing was sent")
	}
	if jsonrpc.NotSent(jsonrpc.ErrClosed) || jsonrpc.NotSent(jsonrpc.ErrInternal) {
		t.Error("an error of its own says that nothing was sent")
	}
	inner := &net.OpError{Op: "dial", Err: errors.New("refused")}
	err := jsonrpc.AsNotSent(inner)
	found, ok := errors.AsType[*net.OpError](err)
	if !jsonrpc.NotSent(err) || !ok || found != inner || err.Error() != inner.Error() || jsonrpc.AsNotSent(err) != err {
		t.Errorf("%v: the error inside is not found, or its text has changed", err)
	}
}

// TestWhichErrorsSayThatNothingWasSent checks that an error contains ErrNotSent if no byte was
// passed to the transport, and only then.
func TestWhichErrorsSayThatNothingWasSent(t *testing.T) {
	near, far := inproc.Pipe(nil)
	started, release := make(chan struct{}, 1), make(chan struct{})
	server := jsonrpc.NewConn(far)
	server.Handler = jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		started <- struct{}{}
		<-release
		return "done", nil
	})
	server.Start(t.Context())
	defer server.Close()
	defer close(release)
	client := jsonrpc.NewConn(near)
	client.Limits.Calls = 1
	client.Start(t.Context())

	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller's own reason")
	cancel(cause)
	if err := client.Call(ended, "x", nil, nil); !jsonrpc.NotSent(err) || !errors.Is(err, cause) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	if err := client.Call(t.Context(), "x", func() {}, nil); !jsonrpc.NotSent(err) {
		t.Errorf("params that cannot be encoded: %v", err)
	}
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Call(running, "x", nil, nil) }()
	<-started
	if err := client.Call(t.Context(), "x", nil, nil); !jsonrpc.NotSent(err) || !errors.Is(err, jsonrpc.ErrBusy) {
		t.Errorf("one call too many: %v", err)
	}
	stop()
	if err := <-done; jsonrpc.NotSent(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("a call that runs: %v", err)
	}
	client.Hangup(jsonrpc.ErrGarbage)
	if err := client.Call(t.Context(), "x", nil, nil); !jsonrpc.NotSent(err) || !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if err := client.Notify(t.Context(), "x", nil); !jsonrpc.NotSent(err) {
		t.Errorf("a notification after the end: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	var unbound jsonrpc.Request
	if err := unbound.Peer().Call(t.Context(), "x", nil, nil); !jsonrpc.NotSent(err) || !errors.Is(err, jsonrpc.ErrOneWay) {
		t.Errorf("a peer that is nobody: %v", err)
	}
}
