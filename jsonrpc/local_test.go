package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

func TestLocal(t *testing.T) {
	m := specMux()
	m.Add("ask", PeerFunc(func(ctx context.Context, p Peer, in struct {
		Depth int `json:"depth"`
	}) (int, error) {
		if in.Depth == 0 {
			return 1, nil
		}
		below, err := Call[int](ctx, p, "ask", map[string]int{"depth": in.Depth - 1})
		return below + 1, err
	}))
	m.Add("count", PeerFunc(func(ctx context.Context, p Peer, in []int) (int, error) {
		for i := range in[0] {
			if err := p.Notify(ctx, "tick", []int{i}); err != nil {
				return 0, err
			}
		}
		return in[0], nil
	}))
	a := &Answerer{Handler: m, Mode: m.Mode}
	var wait sync.WaitGroup
	p := Local(a, a)
	for range 50 {
		wait.Go(func() {
			if got, err := Call[int](t.Context(), p, "subtract", twoNumbers{42, 23}); err != nil || got != 19 {
				t.Errorf("subtract = %d, %v", got, err)
			}
			if got, err := Call[int](t.Context(), p, "ask", map[string]int{"depth": 1}); err != nil || got != 2 {
				t.Errorf("ask = %d, %v", got, err)
			}
			ticks := 0
			var n int
			err := p.Stream(t.Context(), "count", []int{5}, &n, func(*Request) error { ticks++; return nil })
			if err != nil || n != 5 || ticks != 5 {
				t.Errorf("count: %d, %d ticks, %v", n, ticks, err)
			}
		})
	}
	wait.Wait()
	if err := p.Call(t.Context(), "none", nil, nil); !errors.Is(err, ErrMethodNotFound) {
		t.Errorf("none: %v", err)
	}
	if err := p.Notify(t.Context(), "update", []int{1}); err != nil {
		t.Errorf("update: %v", err)
	}
	alone := Local(a, nil)
	if err := alone.Call(t.Context(), "ask", map[string]int{"depth": 1}, nil); !errors.Is(err, ErrInternal) {
		t.Errorf("ask without a way back: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Call(ended, "subtract", []int{1, 2}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	if err := p.Call(t.Context(), "echo", 5, nil); err == nil {
		t.Error("params that are a number were sent")
	}
}

// TestOrderInABatch checks that requests of a batch run concurrently, and that a notification is
// done before a later message starts.
func TestOrderInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string
		note := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, s)
		}
		m := new(Mux)
		m.Add("sleep", Func(func(_ context.Context, in []int) (int, error) {
			time.Sleep(time.Duration(in[0]) * time.Second)
			note(fmt.Sprint("slept ", in[0]))
			return in[0], nil
		}))
		m.Add("log", Func(func(context.Context, []int) (any, error) {
			time.Sleep(time.Second)
			note("logged")
			return nil, nil
		}))
		w, c := serveWire(t, serving(m))
		start := time.Now()
		w.send(`[{"jsonrpc":"2.0","method":"sleep","params":[5],"id":1},{"jsonrpc":"2.0","method":"sleep","params":[4],"id":2},` +
			`{"jsonrpc":"2.0","method":"log","params":[]},{"jsonrpc":"2.0","method":"sleep","params":[0],"id":3}]`)
		// delayed by the notification, not by the batch
		w.send(`{"jsonrpc":"2.0","method":"sleep","params":[0],"id":4}`)
		w.want(`{"jsonrpc":"2.0","result":0,"id":4}`,
			`[{"jsonrpc":"2.0","result":5,"id":1},{"jsonrpc":"2.0","result":4,"id":2},{"jsonrpc":"2.0","result":0,"id":3}]`)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(log) != "[logged slept 0 slept 0 slept 4 slept 5]" {
			t.Errorf("%v", log)
		}
		_ = c.Close()
	})
}

func TestCancelOfABatchMember(t *testing.T) {
	m := muxOf(map[string]Handler{"wait": Func(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() })})
	w, _ := serveWire(t, serving(m))
	w.send(`[{"jsonrpc":"2.0","method":"wait","id":1},{"jsonrpc":"2.0","method":"wait","id":2}]`,
		`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}`, `{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}`)
	const cancelled = `{"jsonrpc":"2.0","error":{"code":-32800,"message":"Request cancelled","data":{"reason":"cancelled","retryable":false}},"id":`
	w.want(`[` + cancelled + `1},` + cancelled + `2}]`)
}

func TestBatchPastItsBytes(t *testing.T) {
	m := specMux()
	a := &Answerer{Handler: m, Mode: func(string) Mode { return Quick }, Limits: Limits{BatchBytes: 100}}
	out, _ := a.Answer(t.Context(), nil, []byte(`[{"jsonrpc":"2.0","method":"echo","params":["`+fmt.Sprintf("%0100d", 0)+`"],"id":1},{"jsonrpc":"2.0","method":"echo","id":2}]`), &Exchange{})
	want := `[{"jsonrpc":"2.0","result":["` + fmt.Sprintf("%0100d", 0) + `"],"id":1},{"jsonrpc":"2.0","error":{"code":-31003,"message":"Response too large","data":{"reason":"response_too_large","retryable":false}},"id":2}]`
	if string(out) != want {
		t.Errorf("got %s", out)
	}
}

func TestGate(t *testing.T) {
	gate := &Gate{Max: 1}
	m := new(Mux)
	inner := make(chan string, 1)
	a := &Answerer{Handler: m, Gate: gate}
	m.Add("outer", Func(func(ctx context.Context, _ struct{}) (any, error) {
		out, _ := a.Answer(ctx, nil, []byte(`{"jsonrpc":"2.0","method":"outer","id":2}`), &Exchange{})
		inner <- string(out)
		return 1, nil
	}))
	out, _ := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","method":"outer","id":1}`), &Exchange{})
	if got := <-inner; got != `{"jsonrpc":"2.0","error":{"code":-31001,"message":"Busy","data":{"reason":"busy","retryable":true,"retryAfterMs":100}},"id":2}` {
		t.Errorf("the second: %s", got)
	}
	if string(out) != `{"jsonrpc":"2.0","result":1,"id":1}` {
		t.Errorf("the first: %s", out)
	}
}

func TestTheDoor(t *testing.T) {
	a := &Answerer{Handler: specMux()}
	x := &Exchange{Check: func(_ context.Context, req *Request) error {
		if req.Method != "echo" {
			return NewError(CodeUnauthorized, "Not for you")
		}
		return nil
	}}
	out, e := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","method":"sum","params":[1],"id":1}`), x)
	if string(out) != `{"jsonrpc":"2.0","error":{"code":-31005,"message":"Not for you"},"id":1}` || e == nil || e.Code != CodeUnauthorized {
		t.Errorf("%s, %v", out, e)
	}
}

func TestContextOfAHandler(t *testing.T) {
	type key struct{}
	m := new(Mux)
	a := &Answerer{Handler: m}
	m.Add("x", Func(func(ctx context.Context, _ struct{}) (any, error) {
		if ctx.Value(key{}) != "v" {
			t.Error("a value of the carrier's context is lost")
		}
		if ctx.Err() != nil || context.Cause(ctx) != nil {
			t.Error("ended before its time")
		}
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		if !a.Cancel(IntID(1)) {
			t.Error("nothing to cancel")
		}
		<-child.Done()
		if context.Cause(child) != ErrPeerCancelled || context.Cause(ctx) != ErrPeerCancelled || ctx.Err() != context.Canceled {
			t.Errorf("causes: %v, %v", context.Cause(child), context.Cause(ctx))
		}
		if ctx.Value(key{}) != "v" {
			t.Error("a value is lost with the end")
		}
		return nil, ctx.Err()
	}))
	m.Add("y", Func(func(ctx context.Context, _ struct{}) (any, error) {
		a.Cancel(IntID(1)) // before the first call of Done
		if context.Cause(ctx) != ErrPeerCancelled || ctx.Err() != context.Canceled {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	for _, method := range []string{"x", "y"} {
		_, e := a.Answer(context.WithValue(t.Context(), key{}, "v"), nil, []byte(`{"jsonrpc":"2.0","method":"`+method+`","id":1}`), &Exchange{})
		if !errors.Is(e, ErrCancelled) {
			t.Errorf("%s: %v", method, e)
		}
	}
}

func TestMuxRefuses(t *testing.T) {
	h := Func(func(context.Context, struct{}) (any, error) { return nil, nil })
	for name, f := range map[string]func(m *Mux){
		"reserved": func(m *Mux) { m.Add("rpc.x", h) },
		"empty":    func(m *Mux) { m.Add("", h) },
		"nil":      func(m *Mux) { m.Add("x", nil) },
		"twice":    func(m *Mux) { m.Add("x", h); m.Add("x", h) },
		"duration": func(m *Mux) { m.Add("x", Func(func(context.Context, time.Duration) (any, error) { return nil, nil })) },
		"two fields of one name": func(m *Mux) {
			m.Add("x", Func(func(context.Context, struct {
				A int `json:"b"`
				B int
			}) (any, error) {
				return nil, nil
			}))
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f(new(Mux))
		}()
	}
	m := new(Mux)
	m.AddReserved("rpc.discover", h, Quick, Open)
	if m.Mode("rpc.discover") != Quick|Open || m.Mode("none") != 0 {
		t.Error("modes are lost")
	}
}

func TestRequestsMadeByHand(t *testing.T) {
	req := &Request{Method: "x"}
	if err := req.Peer().Call(t.Context(), "y", nil, nil); !errors.Is(err, ErrOneWay) {
		t.Errorf("Call = %v", err)
	}
	if err := req.Peer().Notify(t.Context(), "y", nil); !errors.Is(err, ErrOneWay) {
		t.Errorf("Notify = %v", err)
	}
	req.After(func() { t.Error("ran") })
	if !req.IsNotification() || req.Batched() {
		t.Error("what is it?")
	}
}

func TestSilentCancellation(t *testing.T) {
	m := muxOf(map[string]Handler{"wait": Func(func(ctx context.Context, _ struct{}) (any, error) { <-ctx.Done(); return nil, ctx.Err() })})
	w, _ := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Cancellation = Cancellation{Method: "notifications/cancelled", Member: "requestId", Silent: true}
	})
	w.send(`{"jsonrpc":"2.0","method":"wait","id":"a"}`,
		`[{"jsonrpc":"2.0","method":"wait","id":"b"},{"jsonrpc":"2.0","method":"none","id":"c"}]`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`)
	w.want(`[{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":"c"}]`)
	w.send(`{"jsonrpc":"2.0","method":"none","id":"d"}`)
	w.want(`{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":"d"}`)
}

// TestMuxGrowsWhileItIsUsed checks that a method can be added while a Mux is in use, also after a
// call of it has failed, and that its mode then applies.
func TestMuxGrowsWhileItIsUsed(t *testing.T) {
	m := new(Mux)
	a := &Answerer{Handler: m, Mode: m.Mode}
	call := []byte(`{"jsonrpc":"2.0","method":"late","id":1}`)
	if _, e := a.Answer(t.Context(), nil, call, &Exchange{}); !errors.Is(e, ErrMethodNotFound) {
		t.Errorf("before: %v", e)
	}
	m.Add("late", PeerFunc(func(ctx context.Context, p Peer, _ struct{}) (any, error) {
		if err := p.Call(ctx, "x", nil, nil); !errors.Is(err, ErrOneWay) {
			t.Errorf("a quick method called: %v", err)
		}
		return 1, nil
	}), Quick)
	for range 2 {
		if out, e := a.Answer(t.Context(), nil, call, &Exchange{}); e != nil {
			t.Errorf("after: %s", out)
		}
	}
}

// TestAfterInABatchOfQuickRequests checks that After functions of quick members of a batch run once
// the array is queued.
func TestAfterInABatchOfQuickRequests(t *testing.T) {
	m := new(Mux)
	var conn *Conn
	m.Add("new", HandlerFunc(func(_ context.Context, req *Request) (any, error) {
		if !req.Batched() {
			t.Error("Batched says no")
		}
		n := req.ID
		req.After(func() {
			go func() { _ = conn.Notify(context.Background(), "update", []ID{n}) }()
		})
		return n, nil
	}), Quick)
	w, c := serveWire(t, serving(m))
	conn = c
	w.send(`[{"jsonrpc":"2.0","method":"new","id":1},1,{"jsonrpc":"2.0","method":"none","id":2}]`)
	w.want(`[{"jsonrpc":"2.0","result":1,"id":1},`+invalid+`,{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":2}]`,
		`{"jsonrpc":"2.0","method":"update","params":[1]}`)
	w.send(`[{"jsonrpc":"2.0","method":"new","id":3}]`)
	w.want(`[{"jsonrpc":"2.0","result":3,"id":3}]`, `{"jsonrpc":"2.0","method":"update","params":[3]}`)
}

// TestWaitingHandlersFreeTheirPlace checks that a handler that waits for its peer frees its place
// for a queued request, also at the shared Gate.
func TestWaitingHandlersFreeTheirPlace(t *testing.T) {
	m := new(Mux)
	m.Add("ask", PeerFunc(func(ctx context.Context, p Peer, _ struct{}) (string, error) {
		return Call[string](ctx, p, "answer", nil)
	}))
	m.Add("fast", Func(func(context.Context, struct{}) (int, error) { return 1, nil }))
	w, _ := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Limits.Running = 1
		c.Gate = &Gate{Max: 1}
	})
	w.send(`[{"jsonrpc":"2.0","method":"ask","id":1}]`, `{"jsonrpc":"2.0","method":"fast","id":2}`)
	// the place is free before the call is sent
	w.wantInAnyOrder(`{"jsonrpc":"2.0","method":"answer","id":1}`, `{"jsonrpc":"2.0","result":1,"id":2}`)
	w.send(`{"jsonrpc":"2.0","result":"yes","id":1}`)
	w.want(`[{"jsonrpc":"2.0","result":"yes","id":1}]`)
}

func TestSilentCancellationWithoutAConn(t *testing.T) {
	m := new(Mux)
	a := &Answerer{Handler: m, Cancellation: Cancellation{Method: "cancelled", Member: "id", Silent: true}}
	m.Add("wait", Func(func(ctx context.Context, _ struct{}) (any, error) {
		out, _ := a.Answer(ctx, nil, []byte(`{"jsonrpc":"2.0","method":"cancelled","params":{"id":"x"}}`), &Exchange{})
		if len(out) > 0 {
			t.Errorf("the cancel is answered %s", out)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	out, e := a.Answer(t.Context(), []byte("before"), []byte(`{"jsonrpc":"2.0","method":"wait","id":"x"}`), &Exchange{})
	if string(out) != "before" || e != nil {
		t.Errorf("%s, %v", out, e)
	}
}

// TestHandlerDeadline checks that a handler that observes its context gets a response at its
// deadline. What it sends renews the deadline, and the time of waiting for its peer does not count.
func TestHandlerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Mux)
		wait := func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				if context.Cause(ctx) != ErrTimeout {
					t.Errorf("cause = %v", context.Cause(ctx))
				}
				return ctx.Err()
			}
		}
		m.Add("idle", Func(func(ctx context.Context, _ struct{}) (any, error) { return nil, wait(ctx, time.Hour) }))
		m.Add("busy", PeerFunc(func(ctx context.Context, p Peer, n []int) (string, error) {
			for range n[0] {
				if err := wait(ctx, 50*time.Second); err != nil {
					return "", err
				}
				if err := p.Notify(ctx, "going on", nil); err != nil {
					return "", err
				}
			}
			return "done", nil
		}))
		for _, tt := range []struct {
			call  string
			ticks int
			want  string
			after time.Duration
		}{
			{`{"jsonrpc":"2.0","method":"idle","id":1}`, 0, `{"jsonrpc":"2.0","error":{"code":-31002,"message":"Deadline exceeded","data":{"reason":"deadline","retryable":true}},"id":1}`, time.Minute},
			{`{"jsonrpc":"2.0","method":"busy","params":[3],"id":1}`, 3, `{"jsonrpc":"2.0","result":"done","id":1}`, 150 * time.Second},
			{`{"jsonrpc":"2.0","method":"busy","params":[30],"id":1}`, 12, `{"jsonrpc":"2.0","error":{"code":-31002,"message":"Deadline exceeded","data":{"reason":"deadline","retryable":true}},"id":1}`, 10 * time.Minute},
		} {
			w, c := serveWire(t, serving(m))
			start := time.Now()
			w.send(tt.call)
			for range tt.ticks {
				w.want(`{"jsonrpc":"2.0","method":"going on"}`)
			}
			w.want(tt.want)
			if took := time.Since(start); took < tt.after || took > tt.after+2*time.Second {
				t.Errorf("%s: after %v, want %v", tt.call, took, tt.after)
			}
			_ = c.Close()
		}
	})
}
