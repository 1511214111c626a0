package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/gateway/gatetest"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// readConfig reads a configuration in which {NAME} stands for the address of an upstream.
func readConfig(t testing.TB, text string, upstreams map[string]string) *config.File {
	t.Helper()
	for name, address := range upstreams {
		text = strings.ReplaceAll(text, "{"+name+"}", address)
	}
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.Read(path, &config.Options{Gateway: &config.GatewayOptions{}})
	if err != nil || len(file.Problems) > 0 {
		t.Fatal(err, file.Problems)
	}
	return file
}

// newGateway returns a Gateway that ends with the test.
func newGateway(t testing.TB, text string, upstreams map[string]string) *Gateway {
	t.Helper()
	g, err := New(&Options{File: readConfig(t, text, upstreams), Report: func(string, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// handle sends one call of a principal through the router, and returns its result or error as
// text.
func handle(ctx context.Context, g *Gateway, name, method, params string) string {
	req := &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: method, Params: jsonrpc.Raw(params)}
	result, err := router{gateway: g}.Handle(principal.With(ctx, name), req)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s", result)
}

// await waits until f returns true, and fails the test after a minute.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

const oneSlow = `
servers:
  a: {url: "{a}", protocol: jsonrpc, health: off}
gateway:
  limits: [{per: server, inflight: 1, queue: 100, wait: 60s}]
  routes: [{method: "*", to: a}]
`

// TestCancelledCallIsNeverSent: a call that was cancelled in the queue does not reach the
// upstream.
func TestCancelledCallIsNeverSent(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	g := newGateway(t, oneSlow, map[string]string{"a": u.URL()})
	queue := g.state.Load().byName["a"].member.queue
	u.Next(gatetest.Step{Fault: gatetest.Stall})
	var calls sync.WaitGroup
	first, end := context.WithCancel(t.Context())
	calls.Go(func() { handle(first, g, "p", "first", "[]") })
	u.Await(1)
	ctx, cancel := context.WithCancelCause(t.Context())
	calls.Go(func() {
		if got := handle(ctx, g, "p", "cancelled", "[]"); !strings.Contains(got, "enough") {
			t.Errorf("cancelled: %s", got)
		}
	})
	await(t, "it waits", func() bool { return queue.status().Waiting == 1 })
	cancel(errors.New("enough"))
	await(t, "it has left", func() bool { return queue.status().Waiting == 0 })
	end()
	calls.Wait()
	if got := handle(t.Context(), g, "p", "last", "[]"); got != `["a","last",[]]` {
		t.Error(got)
	}
	if n := u.Count("cancelled"); n != 0 || u.Count("") != 2 {
		t.Errorf("%d calls arrived, %d of them cancelled before", u.Count(""), n)
	}
}

// TestFloodOfOnePrincipal: the calls of one principal fill the queue, and those of 50 others are
// answered before most of them.
func TestFloodOfOnePrincipal(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	g := newGateway(t, oneSlow, map[string]string{"a": u.URL()})
	queue := g.state.Load().byName["a"].member.queue
	u.Next(gatetest.Step{Fault: gatetest.Stall})
	first, end := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() { handle(first, g, "flood", "first", "[]") })
	u.Await(1)
	full := 0
	var mu sync.Mutex
	for range 300 {
		calls.Go(func() {
			if got := handle(t.Context(), g, "flood", "flood", "[]"); strings.Contains(got, "Busy") {
				mu.Lock()
				defer mu.Unlock()
				full++
			}
		})
	}
	await(t, "the queue is full", func() bool { mu.Lock(); defer mu.Unlock(); return full == 200 && queue.status().Waiting == 100 })
	for i := range 50 {
		calls.Go(func() {
			if got := handle(t.Context(), g, fmt.Sprint("p", i), "other", "[]"); got != `["a","other",[]]` {
				t.Errorf("principal %d: %s", i, got)
			}
		})
	}
	await(t, "all wait", func() bool { return queue.status().Principals == 51 })
	end()
	calls.Wait()
	floods := 0
	for _, p := range u.Payloads()[1:52] { // the first round has one of each
		if p.Messages[0].Method == "flood" {
			floods++
		}
	}
	if u.Count("other") != 50 || floods > 1 {
		t.Errorf("%d of 50 arrived; of the first 51 calls %d are of the flood", u.Count("other"), floods)
	}
}

// TestReloadKeepsGroups: a group whose members are the same keeps its budgets and latencies, and
// its members their breakers.
func TestReloadKeepsGroups(t *testing.T) {
	const text = `
servers:
  a: {url: "http://127.0.0.1:1/", protocol: jsonrpc, group: both, health: off}
  b: {url: "http://127.0.0.1:2/", protocol: jsonrpc, group: both, health: off}
gateway:
  routes: [{method: "*", to: both}]
`
	g := newGateway(t, text, nil)
	before := g.state.Load()
	before.byName["a"].member.breaker.cordon(true)
	if _, err := g.Reload(readConfig(t, strings.Replace(text, `"*"`, `"x.*"`, 1), nil), true); err != nil {
		t.Fatal(err)
	}
	after := g.state.Load()
	if after == before || after.groups["both"] != before.groups["both"] || after.routes[0].to != before.groups["both"] {
		t.Error("the group was made again")
	}
	if _, err := g.Reload(readConfig(t, strings.Replace(text, ":2/", ":3/", 1), nil), true); err != nil {
		t.Fatal(err)
	}
	last := g.state.Load()
	if last.groups["both"] == before.groups["both"] || last.byName["b"] == before.byName["b"] {
		t.Error("the group has a member that was replaced")
	}
	if a := last.byName["a"].member; a != before.byName["a"].member || a.status().State != "cordoned" {
		t.Errorf("the member that did not change is %s", a.status().State)
	}
}

// TestLongBatchDoesNotDelayOthers: a batch of 10,000 is sent in arrays of up to 128, and the call
// of another principal does not wait for all of them.
func TestLongBatchDoesNotDelayOthers(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	g := newGateway(t, strings.Replace(oneSlow, "inflight: 1,", "inflight: 256,", 1), map[string]string{"a": u.URL()})
	stop := make(chan struct{})
	u.By(func(p *gatetest.Payload) gatetest.Step {
		if len(p.Messages) > 1 {
			<-stop // this also delays what arrives at the same time
		}
		return gatetest.Step{}
	})
	const long = 10_000
	var batch strings.Builder
	for i := range long {
		fmt.Fprintf(&batch, `,{"jsonrpc":"2.0","method":"long","params":[%d],"id":%d}`, i, i)
	}
	answerer := &jsonrpc.Answerer{Handler: router{gateway: g}, Mode: anyMode}
	var calls sync.WaitGroup
	calls.Go(func() {
		out, _ := answerer.Answer(principal.With(t.Context(), "long"), nil, []byte("["+batch.String()[1:]+"]"), new(jsonrpc.Exchange))
		var all []struct {
			ID     int           `json:"id"`
			Result []jsonrpc.Raw `json:"result"`
		}
		if err := jsonrpc.Raw(out).Decode(&all); err != nil || len(all) != long {
			t.Errorf("%d responses, %v: %.200s", len(all), err, out)
			return
		}
		for i, r := range all {
			if r.ID != i || len(r.Result) != 3 || string(r.Result[2]) != fmt.Sprint("[", i, "]") {
				t.Errorf("response %d: %+v", i, r)
				return
			}
		}
	})
	queue := g.state.Load().byName["a"].member.queue
	await(t, "arrays wait", func() bool { return queue.status().Waiting > 50 })
	calls.Go(func() {
		if got := handle(t.Context(), g, "other", "other", "[]"); got != `["a","other",[]]` {
			t.Error(got)
		}
	})
	await(t, "the other waits", func() bool { return queue.status().Principals == 2 })
	close(stop)
	calls.Wait()
	before := 0
	for _, p := range u.Payloads() {
		if len(p.Messages) > mostInArray {
			t.Errorf("an array of %d", len(p.Messages))
		}
		if p.Messages[0].Method == "other" {
			break
		}
		before++
	}
	if before > 10 || u.Count("long") != long {
		t.Errorf("%d arrays arrived before the other's call; %d members", before, u.Count("long"))
	}
}

// TestRecoveredServerGetsCallsAtOnce: when the active checks find a server up again, its breaker
// does not stay open.
func TestRecoveredServerGetsCallsAtOnce(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	g := newGateway(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, health: {every: 100ms}, breaker: {open: 10m, max: 10m}}
gateway:
  routes: [{method: "*", to: a}]
`, map[string]string{"a": u.URL()})
	g.state.Load().startChecks()
	m := g.state.Load().byName["a"].member
	u.Refuse()
	await(t, "the breaker is open", func() bool {
		handle(t.Context(), g, "p", "pay", "[]")
		return m.breaker.status(time.Now()).State == breakerOpen
	})
	await(t, "the server is down", func() bool { return !m.health.up() })
	u.Accept()
	await(t, "the breaker is closed", func() bool {
		handle(t.Context(), g, "p", "pay", "[]")
		return m.breaker.status(time.Now()).State == breakerClosed
	})
	if s := m.status(); s.State != "healthy" {
		t.Errorf("%+v", s)
	}
}

// TestReloadKeepsTheCache: stored results are used after a reload, but not those of servers that
// were replaced.
func TestReloadKeepsTheCache(t *testing.T) {
	const text = `
servers:
  a: {url: "{a}", protocol: jsonrpc, health: off}
gateway:
  routes: [{method: "*", to: a, timeout: 30s, cache: {methods: ["*"], ttl: 10m}}]
`
	one, two := gatetest.HTTP(t, "one"), gatetest.HTTP(t, "two")
	g := newGateway(t, text, map[string]string{"a": one.URL()})
	for _, c := range []struct {
		text string
		u    *gatetest.Upstream
		want string
	}{
		{text, one, `["one","get",[1]]`},
		{strings.Replace(text, "30s", "40s", 1), one, `["one","get",[1]]`},
		{text, two, `["two","get",[1]]`},
	} {
		if _, err := g.Reload(readConfig(t, c.text, map[string]string{"a": c.u.URL()}), true); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := handle(t.Context(), g, "p", "get", "[1]"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		}
	}
	if one.Count("") != 1 || two.Count("") != 1 {
		t.Errorf("%d and %d calls arrived, want 1 each", one.Count(""), two.Count(""))
	}
}

// TestReloadsInARow checks that the second of two reloads leaves a server that it removes connected
// while a request that began before both of them uses it.
func TestReloadsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `
servers:
  a: {url: "http://127.0.0.1:1/", protocol: jsonrpc, health: off}
gateway:
  routes: [{method: "*", to: a}]
`
		g := newGateway(t, text, nil)
		s := g.enter() // a request
		used := s.byName["a"]
		for _, change := range []string{"to: a, timeout: 40s}", "to: a, timeout: 50s}"} {
			next := strings.Replace(text, "to: a}", change, 1)
			if strings.Contains(change, "50s") {
				next = strings.Replace(next, ":1/", ":2/", 1)
			}
			if _, err := g.Reload(readConfig(t, next, nil), true); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if used.member.retired.Load() {
			t.Error("the server is closed while a request uses it")
		}
		s.leave()
		synctest.Wait()
		if !used.member.retired.Load() {
			t.Error("the server is not closed after its last request")
		}

		// A request that does not end delays it by 30 s.
		s = g.enter()
		used = s.byName["a"]
		for _, port := range []string{":3/", ":4/"} {
			if _, err := g.Reload(readConfig(t, strings.Replace(text, ":1/", port, 1), nil), true); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(retireTime - time.Second)
		if used.member.retired.Load() {
			t.Error("the server is closed before its time is over")
		}
		time.Sleep(2 * time.Second)
		if !used.member.retired.Load() {
			t.Error("the server is not closed after 30 s")
		}
		s.leave()
	})
}

// TestVerdictOnPassedRequests checks what a request at /s/NAME says about its upstream: nothing if
// its client leaves, and a failure if the response breaks off.
func TestVerdictOnPassedRequests(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	g := newGateway(t, `
servers:
  a: {url: "{a}", protocol: mcp, health: off}
gateway: {}
`, map[string]string{"a": u.URL()})
	one := g.state.Load().byName["a"]
	p, err := newPass(g, one, "/s/a")
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	defer web.Close()
	post := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/s/a", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return err
	}
	check := func(what string, calls, failures uint64) {
		t.Helper()
		await(t, what, func() bool { return one.member.status().Pending == 0 })
		if s := one.member.status(); s.Calls != calls || s.Failures != failures {
			t.Errorf("after %s: %d calls, %d failed; want %d, %d", what, s.Calls, s.Failures, calls, failures)
		}
	}
	u.Next(gatetest.Step{Fault: gatetest.Stall})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- post(ctx) }()
	u.Await(1)
	cancel()
	if err := <-left; err == nil {
		t.Error("a response")
	}
	check("the client has left", 0, 0)

	if err := post(t.Context()); err != nil {
		t.Error(err)
	}
	check("a response", 1, 0)

	u.Next(gatetest.Step{Fault: gatetest.CutHalf})
	if err := post(t.Context()); err == nil {
		t.Error("half a response is whole")
	}
	check("half a response", 2, 1)
}
