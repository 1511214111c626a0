//go:build unix

package bridge_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/bridge"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// roleName is the variable that makes this test binary the server of a bridge.
const roleName = "PARLEY_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleName) != "" {
		if err := parley.Serve(context.Background(), serverMux(), "stdio:"); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// serverMux has the methods of the server: a process that has an identity and state.
func serverMux() *jsonrpc.Mux {
	var hellos, calls atomic.Int64
	var ready atomic.Bool
	mux := new(jsonrpc.Mux)
	add := func(name string, f func(ctx context.Context, req *jsonrpc.Request) (any, error)) {
		mux.Add(name, jsonrpc.HandlerFunc(f), jsonrpc.Open)
	}
	add("pid", func(context.Context, *jsonrpc.Request) (any, error) { return os.Getpid(), nil })
	add("echo", func(_ context.Context, req *jsonrpc.Request) (any, error) { return req.Params, nil })
	add("id", func(_ context.Context, req *jsonrpc.Request) (any, error) { return req.ID.String(), nil })
	add("env", func(_ context.Context, req *jsonrpc.Request) (any, error) {
		var names []string
		if err := req.Params.Decode(&names); err != nil {
			return nil, err
		}
		return os.Getenv(names[0]), nil
	})
	add("fail", func(_ context.Context, req *jsonrpc.Request) (any, error) {
		return nil, &jsonrpc.Error{Code: 7, Message: "It failed", Data: jsonrpc.Raw(`{"a": [1.0]}`)}
	})
	add("hang", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		_ = req.Peer().Notify(ctx, "hanging", []int{os.Getpid()}) // for the test
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), jsonrpc.ErrPeerCancelled) {
			return nil, jsonrpc.ErrCancelled
		}
		return nil, context.Cause(ctx)
	})
	add("second", func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
		select {
		case <-time.After(time.Second):
			return nil, nil
		case <-ctx.Done():
			return nil, jsonrpc.ErrCancelled
		}
	})
	add("die", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
		select {}
	})
	add("tick", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		for i := range 20 {
			if err := req.Peer().Notify(ctx, "tock", []int{i}); err != nil {
				return nil, err
			}
		}
		return "ticked", nil
	})
	add("progress", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		var p struct {
			Meta struct {
				Token jsonrpc.Raw `json:"progressToken"`
			} `json:"_meta"`
		}
		if err := req.Params.Decode(&p); err != nil {
			return nil, err
		}
		err := req.Peer().Notify(ctx, mcp.NotifyProgress, map[string]any{"progressToken": p.Meta.Token, "progress": 1})
		return p.Meta.Token, err
	})
	add(mcp.MethodListen, func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		about := map[string]any{"_meta": map[string]any{"a": 1, mcp.MetaSubscriptionID: jsonrpc.Raw(req.ID.String())}}
		if err := req.Peer().Notify(ctx, mcp.NotifyAcknowledged, about); err != nil {
			return nil, err
		}
		if string(req.Params) == `["wait"]` {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return about, nil
	})
	add("ask", func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		return jsonrpc.Call[jsonrpc.Raw](ctx, req.Peer(), "question", req.Params)
	})
	add("count", func(context.Context, *jsonrpc.Request) (any, error) { return calls.Add(1), nil })
	add("note", func(context.Context, *jsonrpc.Request) (any, error) { calls.Add(1); return nil, nil })
	add(mcp.MethodInitialize, func(_ context.Context, req *jsonrpc.Request) (any, error) {
		if hellos.Add(1) > 1 {
			return nil, jsonrpc.NewError(jsonrpc.CodeInvalidRequest, "initialized twice")
		}
		return map[string]any{"protocolVersion": "2025-11-25", "capabilities": struct{}{}, "serverInfo": map[string]string{"name": "s", "version": "1"}}, nil
	})
	add(mcp.NotifyInitialized, func(context.Context, *jsonrpc.Request) (any, error) { ready.Store(true); return nil, nil })
	add("ready", func(context.Context, *jsonrpc.Request) (any, error) { return []any{ready.Load(), hellos.Load()}, nil })
	return mux
}

// A bridged is a bridge under test.
type bridged struct {
	*bridge.Bridge
	at  []parley.Target
	end func()
}

// bridgeTo runs a bridge at the targets until the test ends. Without o.To, the server is this
// binary.
func bridgeTo(t *testing.T, o bridge.Options, from ...string) *bridged {
	t.Helper()
	if o.To.Scheme == "" {
		o.To = parley.Command(os.Args[0])
		o.To.Env = append(os.Environ(), roleName+"=server", "GORACE=atexit_sleep_ms=0")
	}
	if o.Report == nil {
		o.Report = func(string, error) {}
	}
	b := bridge.New(o)
	l := &parley.Listener{Converse: b.Converse, Endpoint: b.Endpoint(), Report: o.Report}
	running, err := l.Listen(t.Context(), targetsOf(t, from)...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- running.Serve(context.Background()) }()
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		if err := errors.Join(running.Close(), <-done, b.Close()); err != nil {
			t.Errorf("end: %v", err)
		}
		if n := b.Servers(); n != 0 {
			t.Errorf("%d servers are left", n)
		}
	}
	t.Cleanup(end)
	return &bridged{b, running.Targets(), end}
}

func targetsOf(t *testing.T, texts []string) []parley.Target {
	t.Helper()
	targets := make([]parley.Target, len(texts))
	for i, text := range texts {
		var err error
		if targets[i], err = parley.ParseTarget(text); err != nil {
			t.Fatal(err)
		}
	}
	return targets
}

// dial connects a client to the first target of a bridge.
func dial(t *testing.T, d *parley.Dialer, b *bridged) *parley.Client {
	t.Helper()
	if d == nil {
		d = new(parley.Dialer)
	}
	c, err := d.Dial(t.Context(), b.at[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func call[Out any](t *testing.T, p jsonrpc.Peer, method string, params any) Out {
	t.Helper()
	out, err := jsonrpc.Call[Out](t.Context(), p, method, params)
	if err != nil {
		t.Errorf("%s: %v", method, err)
	}
	return out
}
