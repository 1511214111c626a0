package jsonrpc

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// longTexts is a handler whose method wait waits until stop is closed, and whose other methods
// return 1 MiB, or as many bytes as size says.
func longTexts(stop chan struct{}, size int) Handler {
	return HandlerFunc(func(ctx context.Context, r *Request) (any, error) {
		if strings.HasPrefix(r.Method, "wait") {
			select {
			case <-stop:
			case <-ctx.Done():
			}
		}
		return Raw(`"` + strings.Repeat("x", size) + `"`), nil
	})
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBatchesWithoutAConnAreBounded checks the memory of batches over HTTP whose first member does
// not end, so that the long responses to the others wait for it.
func TestBatchesWithoutAConnAreBounded(t *testing.T) {
	for name, row := range map[string]struct{ members, size int }{"long": {1000, 1 << 20}, "many": {2000, 8 << 10}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const batches = 50
				batch := `[{"jsonrpc":"2.0","id":0,"method":"wait"}` + strings.Repeat(`,{"jsonrpc":"2.0","id":1,"method":"long"}`, row.members) + `]`
				stop := make(chan struct{})
				a := &Answerer{Handler: longTexts(stop, row.size)}
				before := inUse()
				var wait sync.WaitGroup
				var busy, other atomic.Int64
				for range batches {
					wait.Go(func() {
						out, _ := a.Answer(t.Context(), nil, []byte(batch), &Exchange{})
						n := strings.Count(string(out), `"reason":"busy"`)
						busy.Add(int64(n))
						other.Add(int64(strings.Count(string(out), `"jsonrpc"`) - n))
					})
				}
				synctest.Wait() // all wait for their first members
				held, counted := inUse()-before, budget.Parts.Load()
				if held > 400<<20 { // more than 1 GiB without a bound
					t.Errorf("%d MiB are held", held>>20)
				}
				if counted < mostUnread {
					t.Errorf("%d bytes are counted", counted)
				}
				t.Logf("%d MiB are held, %d MiB are counted", held>>20, counted>>20)
				close(stop)
				wait.Wait()
				if busy.Load() == 0 || busy.Load()+other.Load() != batches*int64(row.members+1) {
					t.Errorf("%d members got -31001, %d another response", busy.Load(), other.Load())
				}
				if n := budget.Parts.Load(); n != 0 {
					t.Errorf("%d bytes are still counted", n)
				}
			})
		})
	}
}

// TestSlowHandlersWithoutAConnAreBounded checks that requests over HTTP of a method whose responses
// are long are rejected while as many of its handlers run as would fill the memory.
func TestSlowHandlersWithoutAConnAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 400
		stop := make(chan struct{})
		a := &Answerer{Handler: longTexts(stop, 1<<20)}
		call := func(method string) string {
			out, _ := a.Answer(t.Context(), nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q}`, method), &Exchange{})
			return string(out)
		}
		close(stop)
		call("waitLong") // from now on the length is known
		stop = make(chan struct{})
		a.Handler = longTexts(stop, 1<<20)
		var wait sync.WaitGroup
		var busy atomic.Int64
		for range requests {
			wait.Go(func() {
				if strings.Contains(call("waitLong"), `"reason":"busy"`) {
					busy.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := busy.Load(); n < requests-mostExpectedHTTP>>20 || n == requests {
			t.Errorf("%d of %d requests got -31001", n, requests)
		}
		if out := call("short"); !strings.Contains(out, `"result"`) {
			t.Errorf("another method: %.100s", out)
		}
		close(stop)
		wait.Wait()
		if n := budget.ExpectedHTTP.Load(); n != 0 {
			t.Errorf("%d bytes are still expected", n)
		}
	})
}

// TestManyShortMembersOfABatchCount checks that on a Conn short responses of a batch that still
// runs count once they are as much as a long one: the bound of a batch permits 16 MiB of them.
func TestManyShortMembersOfABatchCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		batch := `[{"jsonrpc":"2.0","id":0,"method":"wait"}` + strings.Repeat(`,{"jsonrpc":"2.0","id":1,"method":"short"}`, 1000) + `]`
		c := NewConn(newDeaf(nil, batch))
		c.Handler = longTexts(stop, 8<<10)
		c.Start(t.Context())
		synctest.Wait()
		if n := c.lane.partial.Load(); n < 7<<20 {
			t.Errorf("%d bytes count", n)
		}
		close(stop)
		synctest.Wait()
		if n := c.lane.partial.Load(); n != 0 {
			t.Errorf("%d bytes count after the batch", n)
		}
		c.Hangup(ErrClosed)
		_ = c.Close() // the reason is above
	})
}
