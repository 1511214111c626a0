package parley

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/internal/x/race"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// serveOnStdio is the environment variable of a copy of the test program that is a server on stdio.
const serveOnStdio = "PARLEY_TEST_SERVE_STDIO"

// bothWays returns methods for two sides that put load on each other.
func bothWays() *jsonrpc.Mux {
	m := new(jsonrpc.Mux)
	m.Add("after", jsonrpc.Func(func(ctx context.Context, in struct {
		N  int `json:"n"`
		Ms int `json:"ms"`
	}) (int, error) {
		select {
		case <-time.After(time.Duration(in.Ms) * time.Millisecond):
			return in.N, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}))
	m.Add("down", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in []int) (int, error) {
		if in[0] == 0 {
			return 1, nil
		}
		below, err := jsonrpc.Call[int](ctx, p, "down", []int{in[0] - 1})
		return below + 1, err
	}))
	addNests(m)
	m.Add("length", jsonrpc.Func(func(_ context.Context, in []string) (int, error) { return len(in[0]), nil }))
	// the server starts the calls
	m.Add("turn", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in []int) (int, error) {
		var wait sync.WaitGroup
		var mu sync.Mutex
		sum := 0
		for range in[0] {
			wait.Go(func() {
				if n, err := jsonrpc.Call[int](ctx, p, "down", []int{in[1]}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					sum += n
				}
			})
		}
		wait.Wait()
		return sum, nil
	}))
	return m
}

// serveStdio is the main function of the copy with serveOnStdio.
func serveStdio() {
	m := bothWays()
	m.Add("kill", jsonrpc.Func(func(context.Context, struct{}) (any, error) {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		return nil, self.Kill()
	}))
	l := &Listener{Handler: m, Mode: m.Mode, Limits: jsonrpc.Limits{Pending: 10_000}}
	s, err := l.Listen(context.Background(), Target{Scheme: "stdio"})
	if err == nil {
		err = s.Serve(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// eachDuplex runs f with a client of every bidirectional transport.
func eachDuplex(t *testing.T, f func(t *testing.T, c *Client)) {
	mux := bothWays()
	l := &Listener{Handler: mux, Mode: mux.Mode, Limits: jsonrpc.Limits{Pending: 10_000}}
	var targets []Target
	dir, err := os.MkdirTemp("", "parley") //nolint:usetesting // short: the path of a Unix socket has room for 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, text := range []string{"tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header", "unix:" + filepath.Join(dir, "s"), "ws://127.0.0.1:0/rpc", "sse+http://127.0.0.1:0/sse"} {
		target, err := ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	s, err := l.Listen(t.Context(), targets...)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := Command(self)
	t.Setenv(serveOnStdio, "1")
	for _, target := range append(s.Targets(), child) {
		name := target.Scheme
		if target.Framing != 0 {
			name += "-header"
		}
		t.Run(name, func(t *testing.T) {
			d := &Dialer{Back: mux, Mode: mux.Mode, Limits: jsonrpc.Limits{Pending: 10_000}}
			c, err := d.Dial(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f(t, c)
		})
	}
}

// manyCalls returns how many calls a test makes at once: a thousand, and a tenth of that under the
// race detector, which finds the same races with them.
func manyCalls() int {
	if race.Enabled {
		return 100
	}
	return 1000
}

// TestAThousandCallsOnOneConnection makes a thousand calls whose responses arrive in any order.
// Each caller gets its own response, and no call waits for a slow one.
func TestAThousandCallsOnOneConnection(t *testing.T) {
	eachDuplex(t, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow := make(chan error, 1)
		go func() { slow <- c.Call(ctx, "after", []int{0, 600_000}, nil) }()
		var wait sync.WaitGroup
		for i := range manyCalls() {
			wait.Go(func() {
				var got int
				item := jsonrpc.Item{Method: "after", Params: map[string]int{"n": i, "ms": rand.IntN(20)}, Result: &got}
				switch i % 4 { // IDs of every kind, all in flight together
				case 1:
					item.ID = jsonrpc.StringID(strconv.Itoa(i))
				case 2:
					item.ID, _ = jsonrpc.ParseID([]byte(strconv.Itoa(i) + ".0"))
				case 3:
					item.ID, _ = jsonrpc.ParseID([]byte("9007199254740993" + fmt.Sprintf("%04d", i)))
				}
				if err := c.Do(t.Context(), &item); err != nil || got != i {
					t.Errorf("call %d: %d, %v", i, got, err)
				}
			})
		}
		wait.Wait()
		select {
		case <-slow:
			t.Error("the slow call was done before the others")
		default:
		}
		cancel()
		<-slow
	})
}

// TestAThousandPairsThreeDeep makes a thousand concurrent calls from each side, each with three
// levels of calls back, with the same numbers as IDs on both sides.
func TestAThousandPairsThreeDeep(t *testing.T) {
	eachDuplex(t, func(t *testing.T, c *Client) {
		pairs, depth := manyCalls(), 3
		theirs := make(chan int, 1)
		go func() {
			sum, err := jsonrpc.Call[int](t.Context(), c, "turn", []int{pairs, depth})
			if err != nil {
				t.Error(err)
			}
			theirs <- sum
		}()
		var wait sync.WaitGroup
		for range pairs {
			wait.Go(func() {
				got, err := jsonrpc.Call[int](t.Context(), c, "down", []int{depth})
				if err != nil || got != depth+1 {
					t.Errorf("down = %d, %v", got, err)
				}
			})
		}
		wait.Wait()
		if sum := <-theirs; sum != pairs*(depth+1) {
			t.Errorf("the server's calls: %d, want %d", sum, pairs*(depth+1))
		}
	})
}

// TestLargeMessages checks that a message up to the limit is accepted, and that the process
// survives one above it.
func TestLargeMessages(t *testing.T) {
	eachDuplex(t, func(t *testing.T, c *Client) {
		got, err := jsonrpc.Call[int](t.Context(), c, "length", []string{strings.Repeat("x", 4_000_000)})
		if err != nil || got != 4_000_000 {
			t.Errorf("length = %d, %v", got, err)
		}
		if err := c.Call(t.Context(), "length", []string{strings.Repeat("x", 5_000_000)}, nil); err == nil || errors.Is(err, jsonrpc.ErrTimeout) {
			t.Errorf("five million bytes: %v", err)
		}
	})
}

// TestAChildIsKilledInMidCall checks that the calls that wait for a child process fail with the
// reason when it dies.
func TestAChildIsKilledInMidCall(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(serveOnStdio, "1")
	c, err := new(Dialer).Dial(t.Context(), Command(self))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	done := make(chan error, 10)
	for range 10 {
		go func() { done <- c.Call(context.Background(), "after", []int{1, 60_000}, nil) }()
	}
	go func() { _ = c.Call(context.Background(), "kill", nil, nil) }() // it fails like the others
	for range 10 {
		err := <-done
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("a call in flight: %v", err)
		}
	}
	start := time.Now()
	if err := c.Call(t.Context(), "after", []int{1, 0}, nil); err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("a later call: %v after %v", err, time.Since(start))
	}
}
