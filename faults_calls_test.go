package parley

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
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

// countOf reads a number from the environment; `make test` and `make test-long` set larger ones
// than the default of a plain go test.
func countOf(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%s is no count", variable, text)
	}
	return n
}

// faultSeed returns the seed of a run and prints it. Set PARLEY_FAULT_SEED to repeat the run.
func faultSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PARLEY_FAULT_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("PARLEY_FAULT_SEED=%d", seed)
	return seed
}

// A ledger counts the calls that a server has run, by the unique number of each call.
type ledger struct {
	mu  sync.Mutex
	ran map[uint64]int
}

func (l *ledger) add(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ran == nil {
		l.ran = map[uint64]int{}
	}
	l.ran[n]++
}

func (l *ledger) times(n uint64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran[n]
}

type work struct {
	N    uint64 `json:"n"`
	Fill string `json:"fill,omitempty"`
}

// mux returns methods that record each call in the ledger, and respond with its number.
func (l *ledger) mux() *jsonrpc.Mux {
	m := new(jsonrpc.Mux)
	m.Add("work", jsonrpc.Func(func(_ context.Context, in work) (uint64, error) {
		l.add(in.N)
		return in.N, nil
	}))
	m.Add("steps", jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		var in work
		if err := req.Params.Decode(&in); err != nil {
			return nil, err
		}
		l.add(in.N)
		for range 3 {
			if err := req.Peer().Notify(ctx, "step", map[string]any{"request_id": req.ID, "n": in.N}); err != nil {
				return nil, err
			}
		}
		return in.N, nil
	}))
	return m
}

// mcpServer returns the same as a tool.
func (l *ledger) mcpServer() *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	mcp.AddTool(s, mcp.Tool{Name: "work"}, func(_ context.Context, _ *mcp.Request, in work) (string, error) {
		l.add(in.N)
		return strconv.FormatUint(in.N, 10), nil
	})
	return s
}

// An outcome is the result of one call.
type outcome struct {
	n    uint64
	done bool  // it returned its own response
	err  error // set if done is false
}

// A faultClient makes calls over one transport.
type faultClient interface {
	// a single call, or all numbers as a batch
	call(ctx context.Context, random *rand.Rand, numbers []uint64) []outcome
	Close() error
}

// rpcClient is the client for every transport of package parley.
type rpcClient struct{ *Client }

func (c rpcClient) call(ctx context.Context, random *rand.Rand, numbers []uint64) []outcome {
	fill := ""
	if random.IntN(10) == 0 {
		fill = strings.Repeat("x", random.IntN(4<<10))
	}
	if len(numbers) == 1 {
		in := work{numbers[0], fill}
		var got uint64
		var err error
		if random.IntN(4) == 0 {
			err = c.Stream(ctx, "steps", in, &got, func(req *jsonrpc.Request) error {
				var step work
				if err := json.Unmarshal(req.Params, &step); err != nil || step.N != in.N {
					return fmt.Errorf("a step of call %d at call %d: %w", step.N, in.N, errCrossed)
				}
				return nil
			})
		} else {
			err = c.Call(ctx, "work", in, &got)
		}
		return []outcome{ended(in.N, got, err)}
	}
	items := make([]jsonrpc.Item, len(numbers))
	got := make([]uint64, len(numbers))
	for i, n := range numbers {
		items[i] = jsonrpc.Item{Method: "work", Params: work{n, fill}, Result: &got[i]}
	}
	err := c.Batch(ctx, items)
	all := make([]outcome, len(numbers))
	for i, n := range numbers {
		failed := items[i].Err
		if failed == nil && err != nil && got[i] == 0 {
			failed = err
		}
		all[i] = ended(n, got[i], failed)
	}
	return all
}

var errCrossed = errors.New("crossed")

func ended(n, got uint64, err error) outcome {
	if err == nil && got != n {
		err = fmt.Errorf("the response to call %d at call %d: %w", got, n, errCrossed)
	}
	return outcome{n: n, done: err == nil, err: err}
}

// toolClient is the client for MCP over Streamable HTTP.
type toolClient struct{ *mcp.Client }

func (c toolClient) call(ctx context.Context, _ *rand.Rand, numbers []uint64) []outcome {
	all := make([]outcome, len(numbers))
	for i, n := range numbers {
		result, err := c.CallTool(ctx, "work", work{N: n}, nil)
		got := uint64(0)
		if err == nil && len(result.Content) == 1 && !result.IsError {
			got, err = strconv.ParseUint(result.Content[0].Text, 10, 64)
		}
		all[i] = ended(n, got, err)
	}
	return all
}

// A slot is a client that several workers share. It is replaced when it fails or has been used for
// a while.
type slot struct {
	dial func(ctx context.Context) (faultClient, error)
	gone sync.WaitGroup

	// guards the fields below; held while dialling, since all users of the slot wait for the same
	// client
	mu     sync.Mutex
	client faultClient
	uses   int
}

func (s *slot) get(ctx context.Context) (faultClient, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.uses >= 50 {
		s.dropLocked()
	}
	if s.client == nil {
		c, err := s.dial(ctx)
		if err != nil {
			return nil, err
		}
		s.client, s.uses = c, 0
	}
	s.uses++
	return s.client, nil
}

// drop replaces a client that failed.
func (s *slot) drop(failed faultClient) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == failed {
		s.dropLocked()
	}
}

func (s *slot) dropLocked() {
	if old := s.client; old != nil {
		// its pending calls return errors, which are counted like all others
		s.gone.Go(func() { _ = old.Close() })
		s.client = nil
	}
}

// A faulted is one transport of the test, with the function that creates its clients.
type faulted struct {
	name  string
	proxy *faultProxy // nil for stdio, whose proxies are programs
	dial  func(ctx context.Context) (faultClient, error)
}

// TestFaults makes calls over every transport through proxies that delay, split, stall, reset,
// half-close and drop data. Every call ends once: with its own response, with an error that nothing
// was sent, or with an error that leaves open whether it ran. The server counts: no call runs
// twice, a call with a response ran once, and a call that was not sent did not run. After the
// faults a call succeeds on every transport.
func TestFaults(t *testing.T) {
	calls := countOf(t, "PARLEY_FAULTS", 1000)
	seed := faultSeed(t)
	var book ledger
	mux := book.mux()
	mcpServer := book.mcpServer()
	mcpHandler := mcphttp.NewHandler(mcpServer, &mcphttp.Options{Unguarded: true})
	dir, err := os.MkdirTemp("", "parley") //nolint:usetesting // short: the path of a Unix socket has room for 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &Listener{
		Handler: mux, Mode: mux.Mode, AllowHost: []string{"127.0.0.1:*"},
		Mounts: map[string]Mount{"/mcp": {Handler: http.Handler(mcpHandler), Drain: mcpHandler.Shutdown}},
	}
	s := serve(t, l, "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header", "unix:"+filepath.Join(dir, "s"), "http://127.0.0.1:0/rpc", "sse+http://127.0.0.1:0/sse")
	t.Cleanup(mcpServer.Close)
	at := s.Targets()
	transports := faultedTransports(t, at, dir, seed)

	var last atomic.Uint64
	t.Run("transports", func(t *testing.T) {
		for i, f := range transports {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				runFaults(t, f, &book, &last, calls, seed+uint64(i))
			})
		}
	})
}

func faultedTransports(t *testing.T, at []Target, dir string, seed uint64) []faulted {
	t.Helper()
	rpc := func(name, network, listen, backend string, target func(address string) string) faulted {
		p := newFaultProxy(t, network, listen, backend, seed+uint64(len(name)))
		address := p.listener.Addr().String()
		return faulted{name, p, func(ctx context.Context) (faultClient, error) {
			parsed, err := ParseTarget(target(address))
			if err != nil {
				return nil, err
			}
			c, err := (&Dialer{Timeout: 2 * time.Second}).Dial(ctx, parsed)
			if err != nil {
				return nil, err
			}
			return rpcClient{c}, nil
		}}
	}
	tool := func(name, backend string, versions ...mcp.Version) faulted {
		p := newFaultProxy(t, "tcp", "", backend, seed+uint64(len(name)))
		return faulted{name, p, func(ctx context.Context) (faultClient, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			c, err := mcphttp.Connect(ctx, "http://"+p.listener.Addr().String()+"/mcp", mcp.Implementation{Name: "c", Version: "1"},
				&mcphttp.ClientOptions{Client: mcp.ClientOptions{Versions: versions, Probe: time.Second}})
			if err != nil {
				return nil, err
			}
			return toolClient{c}, nil
		}}
	}
	var drawn sync.Mutex
	random := rand.New(rand.NewPCG(seed, 2))
	healed := &faultProxy{} // only stores whether the children have faults
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdio := faulted{"stdio", healed, func(ctx context.Context) (faultClient, error) {
		drawn.Lock()
		plan := planFault(random)
		drawn.Unlock()
		healed.mu.Lock()
		if healed.healed {
			plan = faultPlan{}
		}
		healed.count[plan.fault]++
		healed.mu.Unlock()
		c, err := (&Dialer{Timeout: 5 * time.Second}).Dial(ctx, Command("/usr/bin/env", faultChild+"="+plan.String()+"@"+at[0].Address, self))
		if err != nil {
			return nil, err
		}
		return rpcClient{c}, nil
	}}
	web := at[3].Address
	return []faulted{
		rpc("tcp", "tcp", "", at[0].Address, func(a string) string { return "tcp://" + a }),
		rpc("tcp-header", "tcp", "", at[1].Address, func(a string) string { return "tcp://" + a + "?framing=header" }),
		rpc("unix", "unix", filepath.Join(dir, "p"), filepath.Join(dir, "s"), func(a string) string { return "unix:" + a }),
		rpc("http", "tcp", "", web, func(a string) string { return "http://" + a + "/rpc" }),
		rpc("websocket", "tcp", "", web, func(a string) string { return "ws://" + a + "/rpc" }),
		rpc("sse-pair", "tcp", "", at[4].Address, func(a string) string { return "sse+http://" + a + "/sse" }),
		tool("mcp", web, mcp.V20260728),
		tool("mcp-session", web, mcp.V20250618),
		stdio,
	}
}

// runFaults makes the calls of one transport and compares the outcomes with the ledger.
func runFaults(t *testing.T, f faulted, book *ledger, last *atomic.Uint64, calls int, seed uint64) {
	const workers, shared = 16, 4
	slots := make([]*slot, workers/shared)
	for i := range slots {
		slots[i] = &slot{dial: f.dial}
	}
	var left atomic.Int64
	left.Store(int64(calls))
	results := make([][]outcome, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			s := slots[w/shared]
			for left.Load() > 0 {
				c, err := s.get(t.Context())
				if err != nil {
					continue // the fault affected the opening; another connection has another fault
				}
				numbers := []uint64{last.Add(1)}
				for random.IntN(8) == 0 && len(numbers) < 4 {
					numbers = append(numbers, last.Add(1))
				}
				left.Add(-int64(len(numbers)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(500+random.IntN(1500))*time.Millisecond)
				ends := c.call(ctx, random, numbers)
				cancel()
				for _, o := range ends {
					if _, answered := errors.AsType[*jsonrpc.Error](o.err); !o.done && !answered {
						s.drop(c)
					}
				}
				results[w] = append(results[w], ends...)
			}
		})
	}
	all.Wait()
	f.proxy.heal()
	for _, s := range slots {
		s.mu.Lock()
		s.dropLocked()
		s.mu.Unlock()
		s.gone.Wait()
	}
	healsAfter(t, f, last.Add(1))
	checkOutcomes(t, f, book, results)
}

// healsAfter requires that a call on a new client succeeds.
func healsAfter(t *testing.T, f faulted, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	c, err := f.dial(ctx)
	if err != nil {
		t.Errorf("after the faults: %v", err)
		return
	}
	defer c.Close()
	if o := c.call(ctx, rand.New(rand.NewPCG(1, 1)), []uint64{n}); !o[0].done {
		t.Errorf("after the faults: %v", o[0].err)
	}
}

func checkOutcomes(t *testing.T, f faulted, book *ledger, results [][]outcome) {
	t.Helper()
	var total, done, notSent, unknown, refused, ran int
	for _, ends := range results {
		for _, o := range ends {
			total++
			times := book.times(o.n)
			ran += times
			_, answered := errors.AsType[*jsonrpc.Error](o.err)
			switch {
			case times > 1:
				t.Errorf("call %d ran %d times: %v", o.n, times, o.err)
			case errors.Is(o.err, errCrossed):
				t.Errorf("call %d: %v", o.n, o.err)
			case o.done:
				done++
				if times != 1 {
					t.Errorf("call %d has a response and did not run", o.n)
				}
			case jsonrpc.NotSent(o.err):
				notSent++
				if times != 0 {
					t.Errorf("call %d was not sent and ran: %v", o.n, o.err)
				}
			case answered:
				refused++
			default:
				unknown++
			}
		}
	}
	var planned strings.Builder
	f.proxy.mu.Lock()
	for i, n := range f.proxy.count {
		fmt.Fprintf(&planned, " %s %d", faultNames[i], n)
	}
	f.proxy.mu.Unlock()
	t.Logf("%d calls: %d answered, %d refused, %d not sent, %d open (%d ran in all); connections:%s", total, done, refused, notSent, unknown, ran, planned.String())
	if done*2 < total {
		t.Errorf("only %d of %d calls were answered", done, total)
	}
}
