package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// joined is a BatchHandler whose HandleBatch is a function.
type joined struct {
	HandlerFunc
	batch func(ctx context.Context, members []*Member)
}

func (h joined) HandleBatch(ctx context.Context, members []*Member) { h.batch(ctx, members) }

func named(_ context.Context, req *Request) (any, error) { return req.Method, nil }

func message(method, id string) string {
	if id == "" {
		return `{"jsonrpc":"2.0","method":"` + method + `"}`
	}
	return `{"jsonrpc":"2.0","method":"` + method + `","id":` + id + `}`
}

// TestBatchHandler checks which messages of a batch reach the handler, and that the responses are
// in the order of the requests, whatever the order of the answers is.
func TestBatchHandler(t *testing.T) {
	result := func(text, id string) string { return `{"jsonrpc":"2.0","result":"` + text + `","id":` + id + `}` }
	fault := func(code, message, id string) string {
		return `{"jsonrpc":"2.0","error":{"code":` + code + `,"message":"` + message + `"},"id":` + id + `}`
	}
	backwards := func(_ context.Context, members []*Member) {
		for i := len(members) - 1; i >= 0; i-- {
			members[i].Answer(fmt.Sprintf("%s %d/%d", members[i].Method, i+1, len(members)), nil)
			members[i].Answer("a second answer", nil)
		}
	}
	tests := []struct {
		name, send, want string
		batch            func(context.Context, []*Member)
	}{
		{"three in reverse order", `[` + message("a", "1") + `,` + message("b", `"x"`) + `,` + message("c", "1.50") + `]`,
			`[` + result("a 1/3", "1") + `,` + result("b 2/3", `"x"`) + `,` + result("c 3/3", "1.50") + `]`, backwards},
		{"equal ids", `[` + message("a", "1") + `,` + message("b", "1") + `]`,
			`[` + result("a 1/2", "1") + `,` + result("b 2/2", "1") + `]`, backwards},
		{"invalid messages between", `[1,` + message("a", "1") + `,{"jsonrpc":"2.0","method":1,"id":7},` + message("n", "") + `]`,
			`[` + fault("-32600", "Invalid Request", "null") + `,` + result("a 1/2", "1") + `,` + fault("-32600", "Invalid Request", "7") + `]`, backwards},
		{"notifications only", `[` + message("n", "") + `,` + message("m", "") + `]`, "", backwards},
		{"no valid message", `[1]`, `[` + fault("-32600", "Invalid Request", "null") + `]`, backwards},
		{"rejected by the access check", `[` + message("secret", "1") + `,` + message("a", "2") + `]`,
			`[` + fault("7", "no", "1") + `,` + result("a 1/1", "2") + `]`, backwards},
		{"a missing answer", `[` + message("a", "1") + `,` + message("b", "2") + `]`,
			`[` + fault("-32603", "Internal error", "1") + `,` + result("b", "2") + `]`,
			func(_ context.Context, members []*Member) { members[1].Answer("b", nil) }},
		{"errors", `[` + message("a", "1") + `,` + message("b", "2") + `]`,
			`[` + fault("5", "five", "1") + `,` + fault("-32603", "Internal error", "2") + `]`,
			func(_ context.Context, members []*Member) {
				members[0].Answer(nil, NewError(5, "five"))
				members[1].Answer(nil, errors.New("private"))
			}},
		{"a result that cannot be encoded", `[` + message("a", "1") + `,` + message("b", "2") + `]`,
			`[` + fault("-32603", "Internal error", "1") + `,` + result("b", "2") + `]`,
			func(_ context.Context, members []*Member) {
				members[0].Answer(make(chan int), nil)
				members[1].Answer("b", nil)
			}},
		{"answers from many goroutines", `[` + message("a", "1") + `,` + message("b", "2") + `,` + message("c", "3") + `]`,
			`[` + result("a", "1") + `,` + result("b", "2") + `,` + result("c", "3") + `]`,
			func(_ context.Context, members []*Member) {
				var all sync.WaitGroup
				for _, m := range members {
					all.Go(func() { m.Answer(m.Method, nil) })
				}
				all.Wait()
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := joined{named, test.batch}
			check := func(_ context.Context, req *Request) error {
				if req.Method == "secret" {
					return NewError(7, "no")
				}
				return nil
			}
			a := &Answerer{Handler: handler, Gate: &Gate{Max: 1}, Report: func(string, error) {}}
			got, _ := a.Answer(t.Context(), nil, []byte(test.send), &Exchange{Check: check})
			if string(got) != test.want {
				t.Errorf("Answer returned\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// TestBatchHandlerPanics checks that a panic answers the members that have no answer, and no other.
func TestBatchHandlerPanics(t *testing.T) {
	a := &Answerer{Report: func(string, error) {}, Handler: joined{named, func(_ context.Context, members []*Member) {
		members[1].Answer("kept", nil)
		panic("a fault of the handler")
	}}}
	got, _ := a.Answer(t.Context(), nil, []byte(`[`+message("a", "1")+`,`+message("b", "2")+`]`), &Exchange{})
	if text := string(got); !strings.Contains(text, `{"jsonrpc":"2.0","result":"kept","id":2}`) || strings.Count(text, "-32603") != 1 {
		t.Errorf("Answer returned %s", got)
	}
}

// TestBatchHandlerOnAConn checks what only a connection has: cancellation of one member, deadlines,
// and the order of what follows the batch.
func TestBatchHandlerOnAConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := serveWire(t, func(c *Conn) {
			c.Cancellation = CancelRequest
			c.Handler = joined{named, func(_ context.Context, members []*Member) {
				var all sync.WaitGroup
				for _, m := range members {
					all.Go(func() {
						if m.Method != "quick" {
							<-m.Context().Done()
							m.Answer(nil, context.Cause(m.Context()))
						}
						m.Answer(m.Method, nil)
					})
				}
				all.Wait()
			}}
		})
		defer c.Close()
		w.send(`[` + message("waits", "1") + `,` + message("quick", "2") + `,` + message("slow", "3") + `]`)
		synctest.Wait()
		w.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}`)
		start := time.Now()
		w.want(`[{"jsonrpc":"2.0","error":{"code":-32800,"message":"Request cancelled","data":{"reason":"cancelled","retryable":false}},"id":1},` +
			`{"jsonrpc":"2.0","result":"quick","id":2},{"jsonrpc":"2.0",` + deadlineError + `,"id":3}]`)
		if d := time.Since(start); d < time.Second {
			t.Errorf("the response was sent after %v, want after the deadline of member 3", d)
		}
	})
}

// TestBatchHandlerThatDoesNotReturn checks that a batch gets its response one second after the
// deadline of a member that is not answered.
func TestBatchHandlerThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w, c := serveWire(t, func(c *Conn) {
			c.Handler = joined{named, func(_ context.Context, members []*Member) {
				members[0].Answer("done", nil)
				<-release
				members[1].Answer("too late", nil)
			}}
		})
		defer c.Close()
		w.send(`[` + message("a", "1") + `,` + message("b", "2") + `]`)
		w.want(`[{"jsonrpc":"2.0","result":"done","id":1},{"jsonrpc":"2.0",` + deadlineError + `,"id":2}]`)
		close(release)
		w.send(message("next", "9"))
		w.want(`{"jsonrpc":"2.0","result":"next","id":9}`)
	})
}

// TestBatchHandlerBytes checks that the responses of a batch are bounded together.
func TestBatchHandlerBytes(t *testing.T) {
	long := strings.Repeat("x", 1000)
	a := &Answerer{Limits: Limits{BatchBytes: 2500}, Handler: joined{named, func(_ context.Context, members []*Member) {
		for _, m := range members {
			m.Answer(long, nil)
		}
	}}}
	send := `[` + message("a", "1") + strings.Repeat(`,`+message("a", "1"), 9) + `]`
	got, _ := a.Answer(t.Context(), nil, []byte(send), &Exchange{})
	if text := string(got); strings.Count(text, long) != 3 || strings.Count(text, "-31003") != 7 {
		t.Errorf("%d results and %d errors, want 3 and 7", strings.Count(text, long), strings.Count(text, "-31003"))
	}
}
