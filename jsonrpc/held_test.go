package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// flood serves a Conn whose peer sends payload up to most times, or until the Conn stops reading,
// and reads all responses. sent and busy count the payloads and the -31001 errors.
func flood(t *testing.T, m *Mux, most int, payload string) (c *Conn, sent, busy *atomic.Int64) {
	sent, busy = new(atomic.Int64), new(atomic.Int64)
	var d *deaf
	d = newDeaf(func() []byte {
		if sent.Load() == int64(most) || d.close.Load() {
			return nil
		}
		sent.Add(1)
		return []byte(payload)
	})
	close(d.ears)
	c = NewConn(d)
	serving(m)(c)
	c.Limits.Deadline = -1
	c.Start(t.Context())
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case line := <-d.heard:
				busy.Add(int64(strings.Count(line, `"code":-31001`)))
			case <-stop:
				return
			}
		}
	}()
	synctest.Wait()
	t.Cleanup(func() { close(stop) })
	return c, sent, busy
}

func waits() *Mux {
	m := new(Mux)
	m.Add("wait", Func(func(ctx context.Context, _ Raw) (any, error) { <-ctx.Done(); return nil, ctx.Err() }))
	m.Add("ask", PeerFunc(func(ctx context.Context, p Peer, _ Raw) (string, error) {
		return Call[string](ctx, p, "answer", nil)
	}))
	return m
}

// TestBatchesAreWeighedByTheirMembers checks that a batch is charged for the memory of its members,
// not only for its bytes.
func TestBatchesAreWeighedByTheirMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members, batches = 1000, 100 // one and a half times of what may be held
		batch := "[" + strings.Repeat(`{"jsonrpc":"2.0","method":"wait","id":1},`, members-1) + `{"jsonrpc":"2.0","method":"wait","id":1}]`
		c, _, busy := flood(t, waits(), batches, batch)
		rejected := busy.Load() / members
		if held := batches - rejected; held*members > 64<<10 || held == 0 {
			t.Errorf("%d batches of %d members are held, want at most one member for each KiB of 64 MiB", held, members)
		}
		c.Hangup(ErrClosed)
		_ = c.Close()
	})
}

// TestNotificationsAreWeighed checks that short queued notifications are charged for the memory
// that they use.
func TestNotificationsAreWeighed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, sent, _ := flood(t, waits(), 100_000, `{"jsonrpc":"2.0","method":"wait"}`)
		if n := sent.Load(); n > 8<<10+10 {
			t.Errorf("%d notifications were taken, want at most one for each KiB of 8 MiB", n)
		}
		if !errors.Is(c.Err(), ErrBusy) {
			t.Errorf("Err = %v", c.Err())
		}
		_ = c.Close()
	})
}

// TestHandlersThatAskAreBounded checks that the number of handlers that wait for their peer is
// bounded: requests above it are rejected.
func TestHandlersThatAskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, busy := flood(t, waits(), 10_000, `{"jsonrpc":"2.0","id":1,"method":"ask"}`)
		if open := len(c.Pending()); open > 4096 {
			t.Errorf("%d handlers wait for their peer", open)
		}
		if busy.Load() < 10_000-4096-1280 {
			t.Errorf("%d requests were rejected", busy.Load())
		}
		c.Hangup(ErrClosed)
		_ = c.Close()
	})
}

// TestConnectionsShareTheMemoryForRequests checks that all connections together hold a bounded
// amount of memory, that a single one holds at most its share, and that a new one is served.
func TestConnectionsShareTheMemoryForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		payload := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"wait","params":[%q]}`, strings.Repeat("x", 60<<10))
		var conns []*Conn
		var held int64
		for range 20 { // 234 MiB in all
			c, _, busy := flood(t, waits(), 200, payload)
			conns = append(conns, c)
			held += 200 - busy.Load()
		}
		if held*60<<10 > 32<<20 || held < 100 {
			t.Errorf("%d requests of 60 KiB are held", held)
		}
		client, _ := pair(t, nil, serving(specMux()))
		for range 100 {
			if got, err := Call[int](t.Context(), client, "subtract", twoNumbers{42, 23}); err != nil || got != 19 {
				t.Fatalf("another connection: %v, %v", got, err)
			}
		}
		for _, c := range conns {
			c.Hangup(ErrClosed)
			_ = c.Close()
		}
	})
}
