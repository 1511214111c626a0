package parley

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// ledgerChild is the environment variable of a copy of the test program that serves on stdio and
// appends the number of each call that it runs to a file. The value is the name of the file, which
// remains after kill -9.
const ledgerChild = "PARLEY_TEST_LEDGER_CHILD"

func serveLedgerChild(path string) int {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 2
	}
	m := new(jsonrpc.Mux)
	m.Add("pid", jsonrpc.Func(func(context.Context, struct{}) (int, error) { return os.Getpid(), nil }))
	m.Add("work", jsonrpc.Func(func(_ context.Context, in work) (uint64, error) {
		_, err := fmt.Fprintln(file, in.N) // a single write, so that lines are complete
		return in.N, err
	}))
	s, err := (&Listener{Handler: m, Mode: m.Mode}).Listen(context.Background(), Target{Scheme: "stdio"})
	if err != nil || s.Serve(context.Background()) != nil {
		return 3
	}
	return 0
}

// TestChildrenAreKilled kills children with calls in flight, some sooner and some later. Each call
// ends once; a call with a response ran once, a call that was not sent did not run, and every other
// call ran at most once.
func TestChildrenAreKilled(t *testing.T) {
	kills := countOf(t, "PARLEY_CHILD_KILLS", 5)
	seed := faultSeed(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 3))
	for i := range kills {
		path := filepath.Join(t.TempDir(), "ledger")
		killAfter := uint64(1) << random.IntN(10)
		killChild(t, Command("/usr/bin/env", ledgerChild+"="+path, self), path, killAfter)
		if t.Failed() {
			t.Fatalf("at kill %d, after %d calls", i, killAfter)
		}
	}
}

func killChild(t *testing.T, child Target, path string, killAfter uint64) {
	t.Helper()
	c, err := (&Dialer{Timeout: testTime}).Dial(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid, err := jsonrpc.Call[int](t.Context(), c, "pid", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	const workers = 8
	var last, answered atomic.Uint64
	var kill sync.Once
	ends := make([][]outcome, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for {
				n := last.Add(1)
				ctx, cancel := context.WithTimeout(t.Context(), testTime)
				var got uint64
				err := c.Call(ctx, "work", work{N: n}, &got)
				cancel()
				ends[w] = append(ends[w], ended(n, got, err))
				if err != nil {
					return
				}
				if answered.Add(1) >= killAfter {
					// the process exists until Wait
					kill.Do(func() { _ = process.Kill() })
				}
			}
		})
	}
	all.Wait()
	if err := c.Call(t.Context(), "work", work{}, nil); !jsonrpc.NotSent(err) {
		t.Errorf("a call after the end: %v", err)
	}
	_ = c.Close() // waits for the child: its file is complete
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[uint64]int{}
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatalf("the ledger holds %q", line)
		}
		ran[n]++
	}
	for _, of := range ends {
		for _, o := range of {
			switch times := ran[o.n]; {
			case errors.Is(o.err, errCrossed), errors.Is(o.err, context.DeadlineExceeded):
				t.Errorf("call %d: %v", o.n, o.err)
			case times > 1, o.done && times != 1, jsonrpc.NotSent(o.err) && times != 0:
				t.Errorf("call %d ran %d times; its end: response %t, %v", o.n, times, o.done, o.err)
			}
		}
	}
}

// loaded is a server on all transports whose calls take some milliseconds, and clients that call it
// without a pause.
type loaded struct {
	book     ledger
	server   *Server
	served   chan error
	mcp      *mcp.Server
	begun    atomic.Uint64 // handlers that have started
	stop     atomic.Bool
	answered sync.Map // number → struct{}{}
	calls    atomic.Int64
	failures sync.Map // of calls before the server was stopped: number → error
	cut      sync.Map // of calls after that: number → error
	stopping atomic.Bool
}

func load(t *testing.T, dir string, longest time.Duration) *loaded {
	t.Helper()
	x := &loaded{served: make(chan error, 1)}
	run := func(n uint64) {
		x.begun.Add(1)
		x.book.add(n)
		if longest > 0 {
			time.Sleep(rand.N(longest)) // simulates the work of the handler
		}
	}
	m := new(jsonrpc.Mux)
	m.Add("work", jsonrpc.Func(func(_ context.Context, in work) (uint64, error) { run(in.N); return in.N, nil }))
	x.mcp = mcp.NewServer(mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	mcp.AddTool(x.mcp, mcp.Tool{Name: "work"}, func(_ context.Context, _ *mcp.Request, in work) (string, error) {
		run(in.N)
		return strconv.FormatUint(in.N, 10), nil
	})
	handler := mcphttp.NewHandler(x.mcp, &mcphttp.Options{Unguarded: true})
	l := &Listener{Handler: m, Mode: m.Mode, Mounts: map[string]Mount{"/mcp": {Handler: http.Handler(handler), Drain: handler.Shutdown}}}
	var err error
	x.server, err = listen(t, l, "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header", "unix:"+filepath.Join(dir, "s"), "http://127.0.0.1:0/rpc", "ws://127.0.0.1:0/rpc", "sse+http://127.0.0.1:0/sse")
	if err != nil {
		t.Fatal(err)
	}
	go func() { x.served <- x.server.Serve(context.Background()) }()
	return x
}

// client makes calls until it is stopped or one fails.
func (x *loaded) client(dial func(ctx context.Context) (faultClient, error), last *atomic.Uint64, workers int) {
	c, err := dial(context.Background())
	if err != nil {
		x.failures.Store(last.Add(1), err)
		return
	}
	defer c.Close()
	random := rand.New(rand.NewPCG(1, last.Load()))
	var all sync.WaitGroup
	seeds := make([]uint64, workers)
	for i := range seeds {
		seeds[i] = random.Uint64()
	}
	for _, seed := range seeds {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for !x.stop.Load() {
				n := last.Add(1)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				o := c.call(ctx, random, []uint64{n})[0]
				cancel()
				x.calls.Add(1)
				if o.done {
					x.answered.Store(n, struct{}{})
					continue
				}
				if !x.stopping.Load() || errors.Is(o.err, errCrossed) {
					x.failures.Store(n, o.err)
				}
				if x.stopping.Load() {
					x.cut.Store(n, fmt.Errorf("%T: %w", c, o.err))
					return
				}
			}
		})
	}
	all.Wait()
}

// plainClient calls the method "work" only: the server does not have the other methods of the
// ledger's mux.
type plainClient struct{ *Client }

func (c plainClient) call(ctx context.Context, _ *rand.Rand, numbers []uint64) []outcome {
	var got uint64
	err := c.Call(ctx, "work", work{N: numbers[0]}, &got)
	return []outcome{ended(numbers[0], got, err)}
}

func (x *loaded) dials() []func(ctx context.Context) (faultClient, error) {
	var all []func(ctx context.Context) (faultClient, error)
	for _, target := range x.server.Targets() {
		all = append(all, func(ctx context.Context) (faultClient, error) {
			c, err := (&Dialer{Timeout: testTime}).Dial(ctx, target)
			if err != nil {
				return nil, err
			}
			return plainClient{c}, nil
		})
	}
	web := x.server.Targets()[3].Address
	for _, version := range []mcp.Version{mcp.V20260728, mcp.V20250618} {
		all = append(all, func(ctx context.Context) (faultClient, error) {
			c, err := mcphttp.Connect(ctx, "http://"+web+"/mcp", mcp.Implementation{Name: "c", Version: "1"},
				&mcphttp.ClientOptions{Client: mcp.ClientOptions{Versions: []mcp.Version{version}}})
			if err != nil {
				return nil, err
			}
			return toolClient{c}, nil
		})
	}
	return all
}

// TestDrainUnderLoad stops a server that is under load on all transports: every call whose handler
// has started gets its response.
func TestDrainUnderLoad(t *testing.T) {
	drains := countOf(t, "PARLEY_DRAINS", 2)
	var last atomic.Uint64
	accepted := 0
	for i := range drains {
		dir, err := os.MkdirTemp("", "parley") //nolint:usetesting // short: the path of a Unix socket has room for 108 bytes
		if err != nil {
			t.Fatal(err)
		}
		x := load(t, dir, 5*time.Millisecond)
		first := last.Load() + 1
		var clients sync.WaitGroup
		for _, dial := range x.dials() {
			clients.Go(func() { x.client(dial, &last, 4) })
		}
		for x.begun.Load() < 300 && !hasAny(&x.failures) {
			runtime.Gosched()
		}
		x.stopping.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 4*testTime)
		if err := x.server.Shutdown(ctx); err != nil {
			t.Errorf("drain %d: Shutdown = %v", i, err)
		}
		cancel()
		x.stop.Store(true)
		clients.Wait()
		x.mcp.Close()
		if err := <-x.served; err != nil {
			t.Errorf("Serve = %v", err)
		}
		_ = os.RemoveAll(dir)
		x.failures.Range(func(n, err any) bool { t.Errorf("call %d before the drain: %v", n, err); return true })
		for n := first; n <= last.Load(); n++ {
			_, answered := x.answered.Load(n)
			times := x.book.times(n)
			accepted += times
			if times > 1 || times == 1 && !answered || times == 0 && answered {
				err, _ := x.cut.Load(n)
				t.Errorf("drain %d: call %d ran %d times and is answered: %t, %v", i, n, times, answered, err)
			}
		}
	}
	t.Logf("%d drains, %d accepted calls", drains, accepted)
}

func hasAny(m *sync.Map) bool {
	found := false
	m.Range(func(any, any) bool { found = true; return false })
	return found
}

// A footprint is the resource use of a process.
type footprint struct {
	goroutines, files int
	heap, rss         uint64 // bytes; rss is 0 where the system does not report it
}

func footprintNow() footprint {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f := footprint{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		f.files = len(entries)
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if _, rest, found := bytes.Cut(status, []byte("VmRSS:")); found {
			var kib uint64
			_, _ = fmt.Sscan(string(rest), &kib) // if it fails, kib stays 0
			f.rss = kib << 10
		}
	}
	return f
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d files, heap %.1f MiB, RSS %.1f MiB", f.goroutines, f.files, float64(f.heap)/(1<<20), float64(f.rss)/(1<<20))
}

// TestSoak calls on all transports, with clients that come and go, for PARLEY_SOAK (one second; 20s
// in `make test`, 30m in `make test-long`). No call may fail, and the footprint must not grow
// between the rounds.
func TestSoak(t *testing.T) {
	length := time.Second
	if text := os.Getenv("PARLEY_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "parley") //nolint:usetesting // short: the path of a Unix socket has room for 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	x := load(t, dir, 0)
	defer func() {
		x.stopping.Store(true)
		if err := x.server.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		x.mcp.Close()
		<-x.served
	}()
	// Rounds are compared after their clients have closed. The first rounds fill pools and caches.
	const rounds = 20
	var last atomic.Uint64
	var marks []footprint
	for range rounds {
		x.stop.Store(false)
		over := time.AfterFunc(length/rounds, func() { x.stop.Store(true) })
		var clients sync.WaitGroup
		for _, dial := range x.dials() {
			clients.Go(func() { x.client(dial, &last, 4) })
		}
		clients.Wait()
		over.Stop()
		x.book.mu.Lock()
		for n, times := range x.book.ran {
			if times != 1 {
				t.Errorf("call %d ran %d times", n, times)
			}
		}
		clear(x.book.ran)
		x.book.mu.Unlock()
		x.answered.Clear()
		x.failures.Range(func(n, err any) bool { t.Errorf("call %d: %v", n, err); return true })
		if t.Failed() {
			return
		}
		marks = append(marks, settled(marks))
	}
	early, late := marks[rounds/4], marks[rounds-1]
	t.Logf("%d calls in %v; after a quarter: %v; at the end: %v", x.calls.Load(), length, early, late)
	if late.goroutines > early.goroutines+5 {
		t.Errorf("goroutines grew from %d to %d", early.goroutines, late.goroutines)
	}
	if late.files > early.files+3 {
		t.Errorf("open files grew from %d to %d", early.files, late.files)
	}
	if late.heap > early.heap+early.heap/10+(2<<20) {
		t.Errorf("the heap grew from %d to %d bytes", early.heap, late.heap)
	}
	if length >= 5*time.Minute && late.rss > early.rss+(16<<20) {
		t.Errorf("RSS grew from %d to %d bytes", early.rss, late.rss)
	}
}

// settled returns the footprint after the resources of closed clients are released: the server
// notices their end a little later. It waits for at most testTime, for at most as many goroutines
// and files as in before.
func settled(before []footprint) footprint {
	f := footprintNow()
	if len(before) == 0 {
		return f
	}
	first := before[0]
	for due := time.Now().Add(testTime); (f.goroutines > first.goroutines+5 || f.files > first.files+3) && time.Now().Before(due); {
		runtime.Gosched()
		f = footprintNow()
	}
	return f
}
