package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

func muxOf(methods map[string]Handler) *Mux {
	m := new(Mux)
	for name, h := range methods {
		m.Add(name, h)
	}
	return m
}

func serving(m *Mux) func(*Conn) {
	return func(c *Conn) { c.Handler, c.Mode, c.Cancellation = m, m.Mode, CancelRequest }
}

func TestCallBothWays(t *testing.T) {
	client, server := pair(t,
		serving(muxOf(map[string]Handler{"name": Func(func(context.Context, struct{}) (string, error) { return "client", nil })})),
		serving(specMux()))
	got, err := Call[int](t.Context(), client, "subtract", twoNumbers{42, 23})
	if err != nil || got != 19 {
		t.Errorf("subtract = %v, %v", got, err)
	}
	name, err := Call[string](t.Context(), server, "name", nil)
	if err != nil || name != "client" {
		t.Errorf("name = %q, %v", name, err)
	}
	err = client.Call(t.Context(), "nothing", nil, nil)
	if !errors.Is(err, ErrMethodNotFound) {
		t.Errorf("nothing: %v", err)
	}
}

// TestPairsThatCallEachOther has two sides that call each other from their handlers, three levels
// deep, with the same ids in flight, and with far more calls than handlers may run.
func TestPairsThatCallEachOther(t *testing.T) {
	const callers, depth = 1000, 3
	deeper := func() *Mux {
		m := new(Mux)
		m.Add("down", PeerFunc(func(ctx context.Context, p Peer, in struct {
			N int `json:"n"`
		}) (int, error) {
			if in.N == 0 {
				return 1, nil
			}
			below, err := Call[int](ctx, p, "down", map[string]int{"n": in.N - 1})
			return below + 1, err
		}))
		return m
	}
	few := func(c *Conn) {
		serving(deeper())(c)
		c.Limits.Running, c.Limits.Pending = 16, callers*depth
	}
	client, server := pair(t, few, few)
	var wait sync.WaitGroup
	for i := range callers {
		from := client
		if i%2 == 1 {
			from = server
		}
		wait.Go(func() {
			got, err := Call[int](t.Context(), from, "down", map[string]int{"n": depth})
			if err != nil || got != depth+1 {
				t.Errorf("down = %d, %v", got, err)
			}
		})
	}
	wait.Wait()
}

func TestEachCallerGetsItsOwnAnswer(t *testing.T) {
	m := new(Mux)
	m.Add("echo", Func(func(ctx context.Context, in struct {
		N, Ms int
	}) (int, error) {
		time.Sleep(time.Duration(in.Ms) * time.Millisecond) // in a synctest bubble
		return in.N, nil
	}))
	synctest.Test(t, func(t *testing.T) {
		client, _ := pair(t, nil, serving(m))
		var wait sync.WaitGroup
		for i := range 1000 {
			wait.Go(func() {
				got, err := Call[int](t.Context(), client, "echo", []int{i, i * 7 % 100})
				if err != nil || got != i {
					t.Errorf("echo(%d) = %d, %v", i, got, err)
				}
			})
		}
		wait.Wait()
		_ = client.Close()
	})
}

func TestCallerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause atomic.Value
		m := muxOf(map[string]Handler{"wait": Func(func(ctx context.Context, _ struct{}) (any, error) {
			<-ctx.Done()
			cause.Store(context.Cause(ctx))
			return nil, ctx.Err()
		})})
		client, _ := pair(t, serving(new(Mux)), serving(m))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := client.Call(ctx, "wait", nil, nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		synctest.Wait()
		if cause.Load() != ErrPeerCancelled {
			t.Errorf("cause = %v", cause.Load())
		}
	})
}

func TestCancelOnTheWire(t *testing.T) {
	m := muxOf(map[string]Handler{"wait": Func(func(ctx context.Context, _ struct{}) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	w, _ := serveWire(t, serving(m))
	for i := range 500 { // a cancel directly after its request finds it
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"wait","id":%d}`, i),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":%d}}`, i))
		w.want(fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32800,"message":"Request cancelled","data":{"reason":"cancelled","retryable":false}},"id":%d}`, i))
	}
}

func TestCallDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := muxOf(map[string]Handler{"never": Func(func(ctx context.Context, _ struct{}) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		m.Add("open", Func(func(ctx context.Context, _ struct{}) (string, error) {
			time.Sleep(time.Hour)
			return "done", ctx.Err()
		}), Open)
		client, _ := pair(t, func(c *Conn) { c.Open = func(m string) bool { return m == "open" } }, serving(m))
		start := time.Now()
		err := client.Call(t.Context(), "never", nil, nil)
		took := time.Since(start)
		if !errors.Is(err, ErrTimeout) && !errors.Is(err, NewError(CodeDeadline, "")) {
			t.Errorf("never: %v", err)
		}
		if took < 60*time.Second || took > 62*time.Second {
			t.Errorf("took %v", took)
		}
		got, err := Call[string](t.Context(), client, "open", nil)
		if got != "done" || err != nil {
			t.Errorf("open = %q, %v", got, err)
		}
	})
}

// TestStuckHandler checks that a request gets its response one second after the deadline if the
// handler ignores its context.
func TestStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := muxOf(map[string]Handler{"stuck": Func(func(ctx context.Context, _ struct{}) (any, error) {
			time.Sleep(5 * time.Minute)
			return "late", nil
		})})
		w, c := serveWire(t, serving(m))
		start := time.Now()
		w.send(`{"jsonrpc":"2.0","method":"stuck","id":1}`)
		w.want(`{"jsonrpc":"2.0","error":{"code":-31002,"message":"Deadline exceeded","data":{"reason":"deadline","retryable":true}},"id":1}`)
		if took := time.Since(start); took > 63*time.Second {
			t.Errorf("took %v", took)
		}
		_ = c.Shutdown(t.Context()) // nothing follows the first response
		if rest, _ := w.r.ReadString('\n'); rest != "" {
			t.Errorf("also got %s", rest)
		}
	})
}

func TestNotificationsKeepTheirOrder(t *testing.T) {
	var log []int
	m := new(Mux)
	m.Add("log", Func(func(_ context.Context, in []int) (any, error) {
		if in[0]%10 == 0 {
			time.Sleep(time.Millisecond) // so that a later one could overtake it
		}
		log = append(log, in[0])
		return nil, nil
	}))
	m.Add("get", Func(func(context.Context, struct{}) (int, error) { return len(log), nil }))
	w, _ := serveWire(t, serving(m))
	for i := range 200 {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"log","params":[%d]}`, i))
	}
	w.send(`{"jsonrpc":"2.0","method":"get","id":1}`)
	w.want(`{"jsonrpc":"2.0","result":200,"id":1}`)
	for i, n := range log {
		if i != n {
			t.Fatalf("log[%d] = %d", i, n)
		}
	}
}

func TestASlowCallDelaysNobody(t *testing.T) {
	release := make(chan struct{})
	m := muxOf(map[string]Handler{
		"slow": Func(func(context.Context, struct{}) (string, error) { <-release; return "slow", nil }),
		"fast": Func(func(context.Context, struct{}) (string, error) { return "fast", nil }),
	})
	w, _ := serveWire(t, serving(m))
	w.send(`{"jsonrpc":"2.0","method":"slow","id":1}`, `{"jsonrpc":"2.0","method":"fast","id":2}`)
	w.want(`{"jsonrpc":"2.0","result":"fast","id":2}`)
	close(release)
	w.want(`{"jsonrpc":"2.0","result":"slow","id":1}`)
}

func TestWhatAHandlerSendsComesBeforeItsAnswer(t *testing.T) {
	m := new(Mux)
	m.Add("count", PeerFunc(func(ctx context.Context, p Peer, _ struct{}) (string, error) {
		for i := range 3 {
			if err := p.Notify(ctx, "tick", []int{i}); err != nil {
				return "", err
			}
		}
		return "done", nil
	}))
	m.Add("kept", HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
		p := req.Peer()
		req.After(func() {
			if err := p.Notify(context.Background(), "late", nil); !errors.Is(err, ErrAnswered) {
				t.Errorf("a kept peer: %v", err)
			}
		})
		return true, nil
	}))
	w, _ := serveWire(t, serving(m))
	w.send(`{"jsonrpc":"2.0","method":"count","id":1}`)
	w.want(`{"jsonrpc":"2.0","method":"tick","params":[0]}`, `{"jsonrpc":"2.0","method":"tick","params":[1]}`,
		`{"jsonrpc":"2.0","method":"tick","params":[2]}`, `{"jsonrpc":"2.0","result":"done","id":1}`)
	w.send(`{"jsonrpc":"2.0","method":"kept","id":2}`)
	w.want(`{"jsonrpc":"2.0","result":true,"id":2}`)
}

func TestAfterRunsOnceTheAnswerIsQueued(t *testing.T) {
	m := new(Mux)
	var conn *Conn
	m.Add("new", HandlerFunc(func(ctx context.Context, req *Request) (any, error) {
		req.After(func() { _ = conn.Notify(context.Background(), "update", nil) })
		return "session", nil
	}))
	w, c := serveWire(t, serving(m))
	conn = c
	w.send(`{"jsonrpc":"2.0","method":"new","id":1}`)
	w.want(`{"jsonrpc":"2.0","result":"session","id":1}`, `{"jsonrpc":"2.0","method":"update"}`)
}

func TestPanicsAndPrivateErrorsStayHere(t *testing.T) {
	m := muxOf(map[string]Handler{
		"panic":   Func(func(context.Context, struct{}) (any, error) { panic("secret") }),
		"private": Func(func(context.Context, struct{}) (any, error) { return nil, errors.New("secret") }),
		"wrapped": Func(func(context.Context, struct{}) (any, error) {
			return nil, fmt.Errorf("secret: %w", NewError(1, "inner"))
		}),
		"public":     Func(func(context.Context, struct{}) (any, error) { return nil, NewError(7, "said").WithData("why") }),
		"unencoded":  Func(func(context.Context, struct{}) (any, error) { return make(chan int), nil }),
		"badEncoder": Func(func(context.Context, struct{}) (any, error) { return panicking{}, nil }),
	})
	var mu sync.Mutex
	var reports []error
	w, _ := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Report = func(_ string, err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err)
		}
	})
	for _, method := range []string{"private", "wrapped", "unencoded"} {
		w.send(`{"jsonrpc":"2.0","method":"` + method + `","id":1}`)
		w.want(`{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":1}`)
	}
	w.send(`{"jsonrpc":"2.0","method":"public","id":1}`)
	w.want(`{"jsonrpc":"2.0","error":{"code":7,"message":"said","data":"why"},"id":1}`)
	for _, method := range []string{"panic", "badEncoder"} {
		w.send(`{"jsonrpc":"2.0","method":"` + method + `","id":1}`)
		got, _ := w.r.ReadString('\n')
		var ref int
		if n, _ := fmt.Sscanf(got, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error","data":{"reference":%d}},"id":1}`, &ref); n != 1 {
			t.Errorf("%s: %s", method, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(reports) != 5 {
		t.Errorf("%d reports: %v", len(reports), reports)
	}
}

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("in the encoder") }

func TestBusy(t *testing.T) {
	release := make(chan struct{})
	m := muxOf(map[string]Handler{"wait": Func(func(context.Context, struct{}) (any, error) { <-release; return 1, nil })})
	w, _ := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Limits.Running, c.Limits.Pending = 2, 3
	})
	for i := range 6 {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"wait","id":%d}`, i))
	}
	w.want(`{"jsonrpc":"2.0","error":{"code":-31001,"message":"Busy","data":{"reason":"busy","retryable":true,"retryAfterMs":100}},"id":5}`)
	close(release)
	for range 5 {
		if line, err := w.r.ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
	}
}

func TestShutdownAnswersWhatRuns(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	m := muxOf(map[string]Handler{"wait": Func(func(context.Context, struct{}) (any, error) { close(started); <-release; return 1, nil })})
	w, c := serveWire(t, serving(m))
	w.send(`{"jsonrpc":"2.0","method":"wait","id":1}`)
	<-started
	done := make(chan error)
	go func() { done <- c.Shutdown(t.Context()) }()
	for {
		w.send(`{"jsonrpc":"2.0","method":"none","id":2}`)
		line, _ := w.r.ReadString('\n')
		if line == `{"jsonrpc":"2.0","error":{"code":-31004,"message":"Shutting down","data":{"reason":"shutting_down","retryable":true,"retryAfterMs":1000}},"id":2}`+"\n" {
			break
		}
	}
	close(release)
	w.want(`{"jsonrpc":"2.0","result":1,"id":1}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBatchCall(t *testing.T) {
	client, _ := pair(t, nil, serving(specMux()))
	var a, b int
	items := []Item{
		{Method: "subtract", Params: []int{42, 23}, Result: &a},
		{Method: "update", Notify: true},
		{Method: "nothing"},
		{Method: "sum", Params: []int{1, 2, 4}, Result: &b},
	}
	if err := client.Batch(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if a != 19 || b != 7 || items[0].Err != nil || !errors.Is(items[2].Err, ErrMethodNotFound) {
		t.Errorf("%d %d %v", a, b, items)
	}
}

func TestBatchRefusedByThePeer(t *testing.T) {
	refusals := 0
	client, _ := pair(t, nil, func(c *Conn) {
		serving(specMux())(c)
		c.NoBatch = true
		c.Report = func(string, error) { refusals++ }
	})
	for range 3 {
		var a, b int
		items := []Item{{Method: "subtract", Params: []int{42, 23}, Result: &a}, {Method: "sum", Params: []int{1, 2, 4}, Result: &b}}
		if err := client.Batch(t.Context(), items); err != nil || a != 19 || b != 7 {
			t.Errorf("%v: %d %d %v", err, a, b, items)
		}
	}
	if refusals != 1 {
		t.Errorf("%d arrays were sent, want one", refusals)
	}
}

func TestBusyByWeight(t *testing.T) {
	release := make(chan struct{})
	m := muxOf(map[string]Handler{"wait": Func(func(context.Context, Raw) (any, error) { <-release; return 1, nil })})
	w, _ := serveWire(t, func(c *Conn) {
		serving(m)(c)
		c.Limits.PendingBytes = 2500
	})
	call := `{"jsonrpc":"2.0","method":"wait","params":["` + strings.Repeat("x", 1000) + `"],"id":`
	w.send(call+`1}`, call+`2}`, call+`3}`)
	const busy = `{"jsonrpc":"2.0","error":{"code":-31001,"message":"Busy","data":{"reason":"busy","retryable":true,"retryAfterMs":100}},"id":3}`
	w.want(busy)
	close(release)
	for range 2 {
		if line, err := w.r.ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
	}
	for { // there is room again shortly after the response
		w.send(call + `3}`)
		line, err := w.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line != busy+"\n" {
			break
		}
	}
}
