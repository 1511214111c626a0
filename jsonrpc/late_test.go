package jsonrpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

const deadlineError = `"error":{"code":-31002,"message":"Deadline exceeded","data":{"reason":"deadline","retryable":true}}`

// stuck is a method that ignores its context until release is closed, and then calls after.
func stuck(release <-chan struct{}, after func(*Request)) Handler {
	return HandlerFunc(func(_ context.Context, req *Request) (any, error) {
		<-release
		if after != nil {
			after(req)
		}
		return "too late", nil
	})
}

// TestABatchIsAnsweredWithoutTheHandlerThatDoesNotStop checks that a batch gets its response one
// second after the deadline, with the available results.
func TestABatchIsAnsweredWithoutTheHandlerThatDoesNotStop(t *testing.T) {
	echo := HandlerFunc(func(_ context.Context, req *Request) (any, error) { return req.Method, nil })
	ok := func(id string) string { return `{"jsonrpc":"2.0","result":"echo","id":` + id + `}` }
	late := func(id string) string { return `{"jsonrpc":"2.0",` + deadlineError + `,"id":` + id + `}` }
	call := func(method, id string) string { return `{"jsonrpc":"2.0","method":"` + method + `","id":` + id + `}` }
	tests := []struct {
		name   string
		limits Limits
		send   []string
		want   []string
	}{
		{"one of three", Limits{}, []string{`[` + call("echo", "1") + `,` + call("stuck", "2") + `,` + call("echo", "3") + `]`},
			[]string{`[` + ok("1") + `,` + late("2") + `,` + ok("3") + `]`}},
		{"every place of the batch is taken", Limits{Parallel: 2},
			[]string{`[` + call("stuck", "1") + `,` + call("stuck", "2") + `,` + call("echo", "3") + `,1]`},
			[]string{`[` + late("1") + `,` + late("2") + `,` + late("3") + `,{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]`}},
		{"behind a notification that does not stop", Limits{},
			[]string{`[{"jsonrpc":"2.0","method":"stuck"},` + call("echo", "1") + `]`}, []string{`[` + late("1") + `]`}},
		{"a batch that waits in line", Limits{Running: 1},
			[]string{call("stuck", "1"), `[` + call("echo", "2") + `,` + call("echo", "3") + `]`},
			[]string{late("1"), `[` + late("2") + `,` + late("3") + `]`}},
		{"a notification that waits in line", Limits{Running: 1},
			[]string{call("stuck", "1"), `[{"jsonrpc":"2.0","method":"echo"},` + call("echo", "2") + `]`},
			[]string{late("1"), `[` + late("2") + `]`}},
		{"behind two notifications that do not stop", Limits{},
			[]string{`[{"jsonrpc":"2.0","method":"stuck"},{"jsonrpc":"2.0","method":"stuck"},` + call("echo", "1") + `]`}, []string{`[` + late("1") + `]`}},
		{"nothing else in it", Limits{}, []string{`[` + call("stuck", "1") + `]`}, []string{`[` + late("1") + `]`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				w, c := serveWire(t, func(c *Conn) {
					c.Limits = test.limits
					c.Handler = muxOf(map[string]Handler{"echo": echo, "stuck": stuck(release, func(req *Request) {
						if err := req.Peer().Notify(context.Background(), "late", nil); !errors.Is(err, ErrAnswered) {
							t.Errorf("Notify after the answer: %v, want ErrAnswered", err)
						}
					})})
				})
				start := time.Now()
				w.send(test.send...)
				if len(test.want) == 2 { // the responses come from two goroutines
					a, _ := w.r.ReadString('\n')
					b, _ := w.r.ReadString('\n')
					if x, y := test.want[0]+"\n", test.want[1]+"\n"; (a != x || b != y) && (a != y || b != x) {
						t.Errorf("got %s%s", a, b)
					}
				} else {
					w.want(test.want...)
				}
				if d := time.Since(start); d < 60*time.Second || d > 64*time.Second {
					t.Errorf("answered after %v, want about 61 s", d)
				}
				close(release)
				synctest.Wait()
				w.send(call("echo", `"after"`))
				w.want(ok(`"after"`)) // no late response precedes it
				_ = c.Close()         // ends with the test
			})
		})
	}
}

// A lateSender is a transport with one payload per exchange.
type lateSender struct {
	mu  sync.Mutex
	out []string
}

func (l *lateSender) SendLate(response []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = append(l.out, string(response))
}

// TestAnswerGivesUp checks that a transport with one payload per exchange sends the response in
// place of a handler that does not stop.
func TestAnswerGivesUp(t *testing.T) {
	for _, test := range []struct{ name, payload, want string }{
		{"single", `{"jsonrpc":"2.0","method":"stuck","id":1}`, `{"jsonrpc":"2.0",` + deadlineError + `,"id":1}`},
		{"batch", `[{"jsonrpc":"2.0","method":"stuck","id":1},{"jsonrpc":"2.0","method":"nobody","id":2}]`,
			`[{"jsonrpc":"2.0",` + deadlineError + `,"id":1},{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":2}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				a := &Answerer{Handler: muxOf(map[string]Handler{"stuck": stuck(release, nil)})}
				var late lateSender
				done := make(chan string)
				go func() {
					out, _ := a.Answer(context.Background(), nil, []byte(test.payload), &Exchange{Late: &late})
					done <- string(out)
				}()
				time.Sleep(64 * time.Second)
				late.mu.Lock()
				if len(late.out) != 1 || late.out[0] != test.want {
					t.Errorf("got %q, want %q", late.out, test.want)
				}
				late.mu.Unlock()
				close(release)
				if out := <-done; out != "" {
					t.Errorf("Answer appended %q besides", out)
				}
				time.Sleep(2 * time.Second) // the timer of the deadlines stops
			})
		})
	}
}

// TestNothingFollowsACancel checks that in a protocol that requires silence, a handler cannot send
// anything after its caller has cancelled the request.
func TestNothingFollowsACancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, errs := make(chan struct{}), make(chan error, 2)
		w, c := serveWire(t, func(c *Conn) {
			c.Cancellation = Cancellation{Method: "cancel", Member: "id", Silent: true}
			c.Handler = muxOf(map[string]Handler{"stuck": stuck(release, func(req *Request) {
				errs <- req.Peer().Notify(context.Background(), "progress", nil)
				errs <- req.Peer().Call(context.Background(), "ask", nil, nil)
			}), "ping": HandlerFunc(func(context.Context, *Request) (any, error) { return "pong", nil })})
		})
		w.send(`{"jsonrpc":"2.0","method":"stuck","id":1}`, `{"jsonrpc":"2.0","method":"cancel","params":{"id":1}}`)
		synctest.Wait()
		close(release)
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrPeerCancelled) || !errors.Is(err, ErrNotSent) {
				t.Errorf("got %v, want ErrPeerCancelled", err)
			}
		}
		w.send(`{"jsonrpc":"2.0","method":"ping","id":2}`)
		w.want(`{"jsonrpc":"2.0","result":"pong","id":2}`)
		_ = c.Close() // ends with the test
	})
}

// TestARequestThatIsKeptSpeaksToNobody checks that a handler that retains its Request after Handle
// does not get the request of another caller.
func TestARequestThatIsKeptSpeaksToNobody(t *testing.T) {
	var mu sync.Mutex
	var kept []*Request
	h := HandlerFunc(func(_ context.Context, req *Request) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, req)
		return nil, nil
	})
	for _, test := range []struct {
		name string
		mode Mode
	}{{"a goroutine of its own", 0}, {"quick", Quick}} {
		t.Run(test.name, func(t *testing.T) {
			kept = nil
			first, _ := pair(t, nil, func(c *Conn) { c.Handler, c.Mode = h, func(string) Mode { return test.mode } })
			release := make(chan struct{})
			second, _ := pair(t, func(c *Conn) {
				c.Handler = HandlerFunc(func(context.Context, *Request) (any, error) {
					t.Error("the second caller was reached")
					return nil, nil
				})
			}, func(c *Conn) {
				c.Handler = stuck(release, nil)
			})
			for range 20 {
				if err := first.Call(t.Context(), "keep", nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			go func() { done <- second.Call(t.Context(), "other", nil, nil) }()
			mu.Lock()
			for _, req := range kept {
				if req.Method != "keep" {
					t.Errorf("a kept request became one of %s", req.Method)
				}
				if err := req.Peer().Notify(t.Context(), "late", nil); !errors.Is(err, ErrAnswered) {
					t.Errorf("Notify: %v, want ErrAnswered", err)
				}
				if err := req.Peer().Call(t.Context(), "late", nil, nil); !errors.Is(err, ErrAnswered) {
					t.Errorf("Call: %v, want ErrAnswered", err)
				}
			}
			mu.Unlock()
			close(release)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
