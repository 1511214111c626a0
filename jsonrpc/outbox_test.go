package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/race"
	. "github.com/da1ed7bb/parley/jsonrpc"
)

// A narrow is a peer that constantly reads rate bytes a second, in steps of a quarter of a second,
// and responds to each call.
type narrow struct {
	rate    int
	stopAt  uint64
	answers chan []byte
	closed  chan struct{}
	once    sync.Once
	written atomic.Uint64
	mu      sync.Mutex
	got     []string // the first bytes of each payload
}

func newNarrow(rate int) *narrow {
	return &narrow{rate: rate, answers: make(chan []byte, 1000), closed: make(chan struct{})}
}

func (n *narrow) Read() ([]byte, bool, error) {
	select {
	case a := <-n.answers:
		return a, false, nil
	case <-n.closed:
		return nil, false, io.EOF
	}
}

func (n *narrow) Write(b Burst) error {
	for left := len(b.Bytes); left > 0; {
		step := time.NewTimer(time.Second / 4)
		if n.stopAt > 0 && n.written.Load() >= n.stopAt {
			step.Stop()
		}
		select {
		case <-step.C:
		case <-n.closed:
			return io.ErrClosedPipe
		}
		took := min(left, n.rate/4)
		left -= took
		n.written.Add(uint64(took))
	}
	for payload := range b.All() {
		n.mu.Lock()
		n.got = append(n.got, string(payload[:min(len(payload), 60)]))
		n.mu.Unlock()
		var id int
		ends := string(payload[:min(len(payload), 60)]) + string(payload[max(0, len(payload)-20):])
		if _, rest, ok := strings.Cut(ends, `"id":`); ok && strings.Contains(ends, `"method"`) {
			if _, err := fmt.Sscanf(rest, "%d", &id); err == nil {
				n.answers <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":true}`, id)
			}
		}
	}
	return nil
}

func (n *narrow) TryWrite(Burst) bool { return false }

func (n *narrow) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// A counting is a narrow peer on a Transport that reports the progress of a Write.
type counting struct{ *narrow }

func (c counting) WrittenBytes() uint64 { return c.written.Load() }

// TestSlowButSteadyPeerGetsAll checks that many long messages at once all arrive at a peer that
// reads slowly but constantly.
func TestSlowButSteadyPeerGetsAll(t *testing.T) {
	long, messages := []string{strings.Repeat("x", 1<<20)}, longMessages()
	for name, send := range map[string]func(context.Context, *Conn, int) error{
		"calls":         func(ctx context.Context, c *Conn, _ int) error { return c.Call(ctx, "store", long, nil) },
		"notifications": func(ctx context.Context, c *Conn, _ int) error { return c.Notify(ctx, "note", long) },
	} {
		// with the second, one burst takes longer than OutWait
		for _, rate := range []int{4 << 20, 256 << 10} {
			t.Run(fmt.Sprintf("%s/%d", name, rate), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNarrow(rate)
					c := NewConn(counting{n})
					c.Limits.CallTime = -1
					c.Start(t.Context())
					errs := make(chan error)
					for i := range messages {
						go func() { errs <- send(t.Context(), c, i) }()
					}
					failed := 0
					for range messages {
						if err := <-errs; err != nil {
							failed++
							t.Log(err)
						}
					}
					if failed > 0 || c.Err() != nil {
						t.Errorf("%d of %d failed; the connection: %v", failed, messages, c.Err())
					}
					c.Hangup(ErrClosed)
					_ = c.Close()
				})
			})
		}
	}
}

// longMessages returns how many messages of 1 MiB are sent: far more than the 8 MiB that wait by
// default, or, under the race detector, three times that.
func longMessages() int {
	if race.Enabled {
		return 24
	}
	return 96
}

// TestSlowButSteadyPeerGetsResponses checks the same for the responses of handlers.
func TestSlowButSteadyPeerGetsResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, messages := newNarrow(4<<20), longMessages()
		for i := range messages {
			n.answers <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"long"}`, i)
		}
		c := NewConn(n)
		m := new(Mux)
		m.Add("long", Func(func(context.Context, []string) (string, error) { return strings.Repeat("x", 1<<20), nil }))
		serving(m)(c)
		c.Start(t.Context())
		time.Sleep(2 * time.Minute)
		n.mu.Lock()
		got := len(n.got)
		n.mu.Unlock()
		if got != messages || c.Err() != nil {
			t.Errorf("%d of %d responses were written; the connection: %v", got, messages, c.Err())
		}
		c.Hangup(ErrClosed)
		_ = c.Close()
	})
}

// TestOutboxIsFirstComeFirstServed checks that a short message does not overtake long ones that
// were sent before it.
func TestOutboxIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNarrow(4 << 20)
		c := NewConn(n)
		c.Limits.OutBytes = 3 << 20
		c.Start(t.Context())
		var all sync.WaitGroup
		var want []string
		for i := range 40 {
			size := 1 << 20
			if i%4 == 3 {
				size = 10
			}
			method := fmt.Sprintf("note%02d", i)
			want = append(want, method)
			all.Go(func() {
				if err := c.Notify(t.Context(), method, []string{strings.Repeat("x", size)}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // it is queued or parked
		}
		all.Wait()
		_ = c.Close()
		var got []string
		for _, payload := range n.got {
			_, rest, _ := strings.Cut(payload, `"method":"`)
			method, _, _ := strings.Cut(rest, `"`)
			got = append(got, method)
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %q", got)
		}
	})
}

// TestPeerThatStopsReadingIsClosed checks that ten seconds without progress close the connection,
// whatever was read before.
func TestPeerThatStopsReadingIsClosed(t *testing.T) {
	for _, stopAt := range []uint64{1, 20 << 20} {
		synctest.Test(t, func(t *testing.T) {
			n := newNarrow(1 << 20)
			n.stopAt = stopAt
			c := NewConn(counting{n})
			c.Start(t.Context())
			start := time.Now()
			var failed atomic.Int64
			var all sync.WaitGroup
			for range 40 {
				all.Go(func() {
					if err := c.Notify(t.Context(), "note", []string{strings.Repeat("x", 1<<20)}); errors.Is(err, ErrSlowPeer) {
						failed.Add(1)
					}
				})
			}
			all.Wait()
			silent := time.Since(start) - time.Duration(stopAt>>20)*time.Second
			if failed.Load() == 0 || silent < 9*time.Second || silent > 13*time.Second {
				t.Errorf("%d failed, %v after the last progress", failed.Load(), silent)
			}
			_ = c.Close()
		})
	}
}

// TestLeavingTheLine checks that a sender that stops waiting leaves no message in the line, and
// that others can pass.
func TestLeavingTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeaf(func() []byte { return nil })
		c := NewConn(d)
		c.Limits.OutBytes = 1 << 20
		c.Start(t.Context())
		send := func(ctx context.Context, method string, size int) chan error {
			got := make(chan error, 1)
			go func() { got <- c.Notify(ctx, method, []string{strings.Repeat("x", size)}) }()
			synctest.Wait()
			return got
		}
		if err := <-send(t.Context(), "first", 700<<10); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		long := send(ctx, "long", 700<<10)
		short := send(t.Context(), "short", 10)
		select {
		case err := <-short:
			t.Errorf("the short one passed: %v", err)
		default:
		}
		cancel()
		if err := <-long; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrNotSent) {
			t.Errorf("the one that left: %v", err)
		}
		if err := <-short; err != nil {
			t.Error(err)
		}
		close(d.ears)
		for _, want := range []string{"first", "short"} {
			if got := <-d.heard; !strings.Contains(got[:min(len(got), 60)], want) {
				t.Errorf("got %.60s, want %s", got, want)
			}
		}
		_ = c.Close()
	})
}
