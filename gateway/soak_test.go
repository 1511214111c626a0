package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A phoenix is an upstream that is killed and comes back at the same address.
type phoenix struct {
	name   string
	target parley.Target
	placed bool // its port is known

	mu     sync.Mutex
	server *parley.Server
	ended  chan error
	called chan struct{} // the server that runs has got a call
}

func (p *phoenix) rise(t *testing.T) {
	called := make(chan struct{})
	first := sync.OnceFunc(func() { close(called) })
	l := &parley.Listener{Report: func(string, error) {}, Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		first()
		return []any{p.name, req.Method, req.Params}, nil
	})}
	for range 200 { // the port may be in use for a moment
		s, err := l.Listen(context.Background(), p.target)
		if err == nil {
			p.mu.Lock()
			if p.server, p.ended, p.called = s, make(chan error, 1), called; !p.placed {
				p.placed, p.target = true, s.Targets()[0]
			}
			go func(ended chan error) { ended <- s.Serve(context.Background()) }(p.ended)
			p.mu.Unlock()
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%s cannot listen at %s again", p.name, p.target)
}

func (p *phoenix) die() {
	p.mu.Lock()
	s, ended := p.server, p.ended
	p.server = nil
	p.mu.Unlock()
	if s != nil {
		_ = s.Close() // calls in flight are cut
		<-ended
	}
}

// TestReloadsAndDeathsLoseNoCall calls idempotent methods, alone and in batches, while the
// configuration is replaced again and again, and upstreams are killed at random: each call gets
// exactly its own response. With PARLEY_LONG it runs for ten minutes with a reload every second.
func TestReloadsAndDeathsLoseNoCall(t *testing.T) {
	duration, every := 3*time.Second, 50*time.Millisecond
	if os.Getenv("PARLEY_LONG") != "" {
		duration, every = 10*time.Minute, time.Second
	}
	var all []*phoenix
	for i, address := range []string{"http://127.0.0.1:0/rpc", "http://127.0.0.1:0/rpc", "http://127.0.0.1:0/rpc", "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"} {
		target, err := parley.ParseTarget(address)
		if err != nil {
			t.Fatal(err)
		}
		p := &phoenix{name: fmt.Sprintf("p%d", i), target: target}
		p.rise(t)
		t.Cleanup(p.die)
		all = append(all, p)
	}
	written := func(version int) string {
		var b strings.Builder
		b.WriteString("servers:\n")
		for i, p := range all {
			group := "web"
			if i >= 3 {
				group = "raw"
			}
			timeout := 20
			if i == version%len(all) {
				timeout = 21 // its entry has changed: it gets new connections
			}
			fmt.Fprintf(&b, "  %s: {url: %q, protocol: jsonrpc, group: %s, timeout: %ds}\n", p.name, p.target, group, timeout)
		}
		b.WriteString("gateway:\n  upstream: {breaker: {open: 50ms, max: 100ms}, health: {every: 100ms}}\n  routes:\n" +
			"    - {method: \"web.*\", to: web, idempotent: true, retry: {attempts: 5, backoff: 10ms}}\n" +
			"    - {method: \"raw.*\", to: raw, idempotent: true, retry: {attempts: 5, backoff: 10ms}}\n")
		return b.String()
	}
	read := func(version int) *config.File {
		path := t.TempDir() + "/parley.yaml"
		if err := os.WriteFile(path, []byte(written(version)), 0o600); err != nil {
			t.Error(err)
		}
		file, err := config.Read(path, &config.Options{Gateway: &config.GatewayOptions{}})
		if err != nil || len(file.Problems) > 0 {
			t.Error(err, file.Problems)
		}
		return file
	}
	g, err := gateway.New(&gateway.Options{File: read(0), Report: func(string, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	l := new(parley.Listener)
	g.Listener(l)
	at := serve(t, l, "http://127.0.0.1:0/rpc")

	ctx, stop := context.WithTimeout(t.Context(), duration)
	defer stop()
	var background, callers sync.WaitGroup
	deaths := 0
	background.Go(func() {
		for version := 1; ctx.Err() == nil; version++ {
			if _, err := g.Reload(read(version), true); err != nil {
				t.Error(err)
			}
			time.Sleep(every)
		}
	})
	background.Go(func() { // one of each group is down at a time
		for ctx.Err() == nil {
			a, b := all[rand.IntN(3)], all[3+rand.IntN(2)]
			a.die()
			b.die()
			deaths += 2
			time.Sleep(30 * time.Millisecond)
			a.rise(t)
			b.rise(t)
			// Before the next ones die, the gateway has noticed that these are there again: on a busy
			// machine too, a server of each group can be called at any time.
			for _, p := range []*phoenix{a, b} {
				select {
				case <-p.called:
				case <-ctx.Done():
				}
			}
		}
	})
	var answered, unavailable atomic.Int64
	for caller := range 8 {
		callers.Go(func() {
			client, err := new(parley.Dialer).Dial(t.Context(), at)
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			for n := 0; ctx.Err() == nil; n++ {
				items := make([]jsonrpc.Item, 1+n%5)
				results := make([]jsonrpc.Raw, len(items))
				for i := range items {
					items[i] = jsonrpc.Item{Method: []string{"web.a", "raw.b"}[(n+i)%2], Params: []int{caller, n, i}, Result: &results[i]}
				}
				if len(items) == 1 {
					err = client.Do(t.Context(), &items[0])
				} else {
					err = client.Batch(t.Context(), items)
				}
				for i := range items {
					if err == nil || items[i].Err != nil {
						err = items[i].Err
					}
					want := fmt.Sprintf(`,"%s",[%d,%d,%d]]`, items[i].Method, caller, n, i)
					switch {
					case err == nil && strings.HasSuffix(string(results[i]), want):
						answered.Add(1)
					case errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeUnavailable}), errors.Is(err, &jsonrpc.Error{Code: jsonrpc.CodeBusy}):
						unavailable.Add(1)
					default:
						t.Errorf("call %d of %d: %s, %v, want %s", n, caller, results[i], err, want)
					}
					err = nil
				}
			}
		})
	}
	callers.Wait()
	background.Wait()
	t.Logf("%d deaths; %d calls had their own response, %d an error because a server was down", deaths, answered.Load(), unavailable.Load())
	if deaths == 0 || answered.Load() == 0 || unavailable.Load()*20 > answered.Load() {
		t.Errorf("%d calls had their own response, and %d an error, want at most one in twenty", answered.Load(), unavailable.Load())
	}
}
