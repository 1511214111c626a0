package gateway_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/gateway/gatetest"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A response is what a client gets, as tests compare it.
type response struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    struct {
			Reason       string
			Upstream     string
			Retryable    bool
			RetryAfterMs int64
		}
	}
	ID json.RawMessage
}

// String returns the result, or the code, reason and upstream of the error.
func (r *response) String() string {
	if r.Error != nil {
		return strings.TrimSpace(fmt.Sprintf("%d %s %s", r.Error.Code, r.Error.Data.Reason, r.Error.Data.Upstream))
	}
	return string(r.Result)
}

// call posts one call and returns its response.
func call(t testing.TB, to parley.Target, method, params string) *response {
	t.Helper()
	_, text := post(t, to, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s,"id":"the ID"}`, method, params))
	r := new(response)
	if err := json.Unmarshal([]byte(text), r); err != nil || string(r.ID) != `"the ID"` {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// callAll posts a batch and returns the responses by ID.
func callAll(t testing.TB, to parley.Target, batch string) map[string]*response {
	t.Helper()
	_, text := post(t, to, batch)
	var list []*response
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	byID := make(map[string]*response)
	for _, r := range list {
		if byID[string(r.ID)] != nil {
			t.Errorf("two responses with the ID %s: %s", r.ID, text)
		}
		byID[string(r.ID)] = r
	}
	return byID
}

// TestFaultsAreRetriedWhereItIsSafe counts at the upstream what each fault causes.
func TestFaultsAreRetriedWhereItIsSafe(t *testing.T) {
	const once, thrice = 1, 3
	for _, c := range []struct {
		step       gatetest.Step
		want       string // of a single call
		pay, get   int    // attempts of a call that is not idempotent, and of one that is
		tcp        string // if it differs over TCP; "-" for none
		payT, getT int
	}{
		{gatetest.Step{}, `["a","pay",[1]]`, once, once, "", once, once},
		{gatetest.Step{Fault: gatetest.Error}, `7  `, once, once, "", once, once},
		{gatetest.Step{Fault: gatetest.Cut}, "-31006 unreachable a", once, thrice, "", once, thrice},
		{gatetest.Step{Fault: gatetest.CutHalf}, "-31006 unreachable a", once, thrice, "", once, thrice},
		{gatetest.Step{Fault: gatetest.Garbage}, "-31006 bad_answer a", once, thrice, "-31002 timeout a", once, once},
		{gatetest.Step{Fault: gatetest.WrongID}, "-31006 bad_answer a", once, thrice, "-31002 timeout a", once, once},
		{gatetest.Step{Fault: gatetest.Missing}, "-31006 bad_answer a", once, thrice, "-31002 timeout a", once, once},
		{gatetest.Step{Fault: gatetest.Twice}, "-31006 bad_answer a", once, thrice, `["a","pay",[1]]`, once, once},
		{gatetest.Step{Fault: gatetest.Status, Status: 500}, "-31006 bad_answer a", once, thrice, "-", 0, 0},
		{gatetest.Step{Fault: gatetest.Status, Status: 503}, "-31006 unreachable a", once, thrice, "-", 0, 0},
		{gatetest.Step{Fault: gatetest.Status, Status: 404}, "-31006 bad_answer a", once, thrice, "-", 0, 0},
		{gatetest.Step{Fault: gatetest.Status, Status: 413}, "-31006 bad_answer a", once, once, "-", 0, 0},
		{gatetest.Step{Fault: gatetest.Status, Status: 429, RetryAfter: "30"}, "-31001 rate_limited a", once, once, "-", 0, 0},
		{gatetest.Step{Fault: gatetest.Stall}, "-31002 timeout a", once, once, "", once, once},
	} {
		for _, tcp := range []bool{false, true} {
			want, pay, get := c.want, c.pay, c.get
			if tcp {
				if c.tcp == "-" {
					continue
				}
				if c.tcp != "" {
					want = c.tcp
				}
				pay, get = c.payT, c.getT
			}
			t.Run(fmt.Sprint(c.step, " over TCP: ", tcp), func(t *testing.T) {
				t.Parallel()
				u := gatetest.HTTP(t, "a")
				if tcp {
					u = gatetest.TCP(t, "a")
				}
				timeout := "60s"
				if strings.Contains(want, "timeout") {
					timeout = "1s"
				}
				_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, breaker: off, health: off}
gateway:
  routes:
    - {method: "*", to: a, idempotent: ["get*"], timeout: `+timeout+`, retry: {attempts: 3, backoff: 1ms}}
`, map[string]string{"a": u.URL()})
				u.Always(c.step)
				if got := call(t, g, "get", "[1]"); got.String() != strings.Replace(want, "pay", "get", 1) && got.String() != strings.TrimSpace(want) || u.Count("get") != get {
					t.Errorf("idempotent: %s with %d attempts, want %s with %d", got, u.Count("get"), want, get)
				}
				if strings.Contains(want, "rate_limited") {
					if got := call(t, g, "get", "[1]"); got.String() != want || got.Error.Data.RetryAfterMs < 20_000 || got.Error.Data.RetryAfterMs > 30_000 {
						t.Errorf("paused: %s, %+v", got, got.Error.Data)
					}
					if u.Count("") != 1 {
						t.Errorf("%d calls reached an upstream that had asked for a pause", u.Count(""))
					}
					return
				}
				if got := call(t, g, "pay", "[1]"); got.String() != strings.TrimSpace(want) || u.Count("pay") != pay {
					t.Errorf("not idempotent: %s with %d attempts, want %s with %d", got, u.Count("pay"), want, pay)
				}
			})
		}
	}
}

// TestRefusedConnectionsGoElsewhere: no byte was sent, so a call that is not idempotent may go to
// the other member, which gets it once.
func TestRefusedConnectionsGoElsewhere(t *testing.T) {
	for _, begin := range []func(testing.TB, string) *gatetest.Upstream{gatetest.HTTP, gatetest.TCP} {
		a, b := begin(t, "a"), begin(t, "b")
		t.Run(a.URL()[:4], func(t *testing.T) {
			_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, group: both, health: off}
  b: {url: "{b}", protocol: jsonrpc, group: both, health: off}
gateway:
  routes: [{method: "*", to: both}]
`, map[string]string{"a": a.URL(), "b": b.URL()})
			a.Refuse()
			for i := range 20 {
				if got := call(t, g, "pay", fmt.Sprint("[", i, "]")).String(); got != fmt.Sprintf(`["b","pay",[%d]]`, i) {
					t.Fatalf("call %d: %s", i, got)
				}
			}
			if a.Count("") != 0 || b.Count("pay") != 20 {
				t.Errorf("%d and %d calls arrived", a.Count(""), b.Count("pay"))
			}
			b.Refuse()
			a.Accept()
		})
	}
}

// TestBreakerFailsFast: five failures open the breaker; then nothing reaches the upstream.
func TestBreakerFailsFast(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, health: off, breaker: {open: 10m, max: 10m}}
gateway:
  routes: [{method: "*", to: a}]
`, map[string]string{"a": u.URL()})
	u.Always(gatetest.Step{Fault: gatetest.Error})
	for range 20 { // errors of the upstream are responses
		if got := call(t, g, "pay", "[]").String(); got != "7" {
			t.Fatal(got)
		}
	}
	u.Always(gatetest.Step{Fault: gatetest.Status, Status: 413})
	for range 20 { // one client's request must not close the upstream to the others
		if got := call(t, g, "pay", "[]").String(); got != "-31006 bad_answer a" {
			t.Fatal(got)
		}
	}
	u.Always(gatetest.Step{Fault: gatetest.Cut})
	before := u.Count("")
	for range 5 {
		if got := call(t, g, "pay", "[]").String(); got != "-31006 unreachable a" {
			t.Fatal(got)
		}
	}
	for range 20 {
		got := call(t, g, "pay", "[]")
		if got.String() != "-31006 breaker_open a" || !got.Error.Data.Retryable || got.Error.Data.RetryAfterMs < 1000 {
			t.Fatalf("%s %+v", got, got.Error.Data)
		}
	}
	if n := u.Count("") - before; n != 5 {
		t.Errorf("%d calls reached the upstream, want 5", n)
	}
}

// TestBatchFaults checks that members of an array fail alone, that only idempotent ones are sent
// again, and how often each arrives.
func TestBatchFaults(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","method":"get1","id":1},{"jsonrpc":"2.0","method":"pay1","id":2},{"jsonrpc":"2.0","method":"note"},` +
		`{"jsonrpc":"2.0","method":"get2","id":3},{"jsonrpc":"2.0","method":"pay2","id":4}]`
	all := func(get, pay string) map[string]string {
		return map[string]string{"1": strings.ReplaceAll(get, "M", "get1"), "3": strings.ReplaceAll(get, "M", "get2"),
			"2": strings.ReplaceAll(pay, "M", "pay1"), "4": strings.ReplaceAll(pay, "M", "pay2")}
	}
	const good, lost, bad = `["a","M",null]`, "-31006 unreachable a", "-31006 bad_answer a"
	with := func(m map[string]string, id, text string) map[string]string { m[id] = text; return m }
	for _, c := range []struct {
		name  string
		steps []gatetest.Step
		want  map[string]string
		get   int // attempts of get1
		pay   int
		posts int
	}{
		{"none", nil, all(good, good), 1, 1, 1},
		{"reversed", []gatetest.Step{{Fault: gatetest.Reversed}}, all(good, good), 1, 1, 1},
		{"twice", []gatetest.Step{{Fault: gatetest.Twice}}, all(good, good), 1, 1, 1},
		{"an answer is missing", []gatetest.Step{{Fault: gatetest.Missing}}, with(all(good, good), "4", bad), 1, 1, 1},
		{"cut once", []gatetest.Step{{Fault: gatetest.Cut}}, all(good, lost), 2, 1, 2},
		{"cut twice", []gatetest.Step{{Fault: gatetest.Cut}, {Fault: gatetest.Cut}}, all(good, lost), 3, 1, 3},
		{"cut", []gatetest.Step{{Fault: gatetest.Cut}, {Fault: gatetest.Cut}, {Fault: gatetest.Cut}, {Fault: gatetest.Cut}}, all(lost, lost), 3, 1, 3},
		{"500", []gatetest.Step{{Fault: gatetest.Status}}, all(good, bad), 2, 1, 2},
		{"takes no arrays", []gatetest.Step{{Fault: gatetest.NoArrays}}, all(good, good), 2, 2, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := gatetest.HTTP(t, "a")
			_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, breaker: off, health: off}
gateway:
  routes: [{method: "*", to: a, idempotent: ["get*"], retry: {attempts: 3, backoff: 1ms}}]
`, map[string]string{"a": u.URL()})
			u.Next(c.steps...)
			got := callAll(t, g, batch)
			for id, want := range c.want {
				if got[id] == nil || got[id].String() != want {
					t.Errorf("ID %s: %v, want %s", id, got[id], want)
				}
			}
			if len(got) != len(c.want) || u.Count("get1") != c.get || u.Count("pay1") != c.pay || u.Count("note") != c.pay || len(u.Payloads()) != c.posts {
				t.Errorf("%d responses; get1 arrived %d times, want %d; pay1 %d, note %d, want %d; %d POSTs, want %d",
					len(got), u.Count("get1"), c.get, u.Count("pay1"), u.Count("note"), c.pay, len(u.Payloads()), c.posts)
			}
			if c.name == "takes no arrays" {
				before := len(u.Payloads())
				callAll(t, g, batch)
				for _, p := range u.Payloads()[before:] {
					if p.Text[0] == '[' {
						t.Error("an array was sent again")
					}
				}
			}
		})
	}
}

// TestHedgedCall: a member that stalls does not delay a hedged call.
func TestHedgedCall(t *testing.T) {
	a, b := gatetest.HTTP(t, "a"), gatetest.HTTP(t, "b")
	_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, group: both, health: off}
  b: {url: "{b}", protocol: jsonrpc, group: both, health: off}
gateway:
  routes:
    - {method: "get*", to: both, idempotent: true, timeout: 60s, hedge: {after: 5ms}}
    - {method: "*", to: both}
`, map[string]string{"a": a.URL(), "b": b.URL()})
	a.Always(gatetest.Step{Fault: gatetest.Stall})
	for i := range 20 {
		if got := call(t, g, "get", fmt.Sprint("[", i, "]")).String(); got != fmt.Sprintf(`["b","get",[%d]]`, i) {
			t.Fatalf("call %d: %s", i, got)
		}
	}
	if n := b.Count("get"); n != 20 {
		t.Errorf("b got %d calls, want 20", n)
	}
}

// TestCacheAndCoalescing counts at the upstream.
func TestCacheAndCoalescing(t *testing.T) {
	u := gatetest.HTTP(t, "a")
	_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, health: off}
gateway:
  routes: [{method: "*", to: a, cache: {methods: ["plan.*"], ttl: 10m, coalesce: true}}]
`, map[string]string{"a": u.URL()})
	u.Always(gatetest.Step{After: 100 * time.Millisecond})
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if got := call(t, g, "plan.get", `{"b":1,"a":[2]}`).String(); got != `["a","plan.get",{"b":1,"a":[2]}]` {
				t.Error(got)
			}
		})
	}
	calls.Wait()
	if n := u.Count("plan.get"); n != 1 {
		t.Errorf("20 equal calls at once arrived %d times", n)
	}
	u.Always(gatetest.Step{})
	call(t, g, "plan.get", ` { "a":[2], "b":1 } `)
	got := callAll(t, g, `[{"jsonrpc":"2.0","method":"plan.get","params":{"a":[2],"b":1},"id":1},{"jsonrpc":"2.0","method":"plan.get","params":[9],"id":2},{"jsonrpc":"2.0","method":"other","id":3}]`)
	if n := u.Count("plan.get"); n != 2 || got["1"].String() != `["a","plan.get",{"b":1,"a":[2]}]` || got["2"].String() != `["a","plan.get",[9]]` {
		t.Errorf("a stored result was requested again by a batch: %d, %v", n, got)
	}
	call(t, g, "plan.get", "[9]")
	if n := u.Count("plan.get"); n != 2 {
		t.Errorf("the result of a batch was not stored: %d", n)
	}
	u.Always(gatetest.Step{Fault: gatetest.Error})
	for range 3 {
		if got := call(t, g, "plan.get", `[404]`).String(); got != "7" {
			t.Error(got)
		}
	}
	if n := u.Count("plan.get"); n != 5 {
		t.Errorf("an error was stored: %d", n)
	}
	call(t, g, "other", "[1]")
	call(t, g, "other", "[1]")
	if n := u.Count("other"); n != 3 {
		t.Errorf("a method that is not in the list was stored: %d", n)
	}
}

// TestNotificationsKeepTheirOrder sends notifications over one connection, alone and in batches,
// and checks the order in which they arrive at an HTTP and at a TCP upstream.
func TestNotificationsKeepTheirOrder(t *testing.T) {
	for _, begin := range []func(testing.TB, string) *gatetest.Upstream{gatetest.HTTP, gatetest.TCP} {
		u := begin(t, "a")
		t.Run(u.URL()[:4], func(t *testing.T) {
			gate, _ := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, health: off}
gateway:
  routes: [{method: "*", to: a}]
`, map[string]string{"a": u.URL()})
			u.By(func(p *gatetest.Payload) gatetest.Step {
				return gatetest.Step{After: time.Duration(len(p.Messages)%3) * time.Millisecond}
			})
			l := new(parley.Listener)
			gate.Listener(l)
			caller, err := new(parley.Dialer).Dial(t.Context(), serve(t, l, "tcp://127.0.0.1:0"))
			if err != nil {
				t.Fatal(err)
			}
			defer caller.Close()
			n := 0
			for range 50 {
				for range 3 {
					if err := caller.Notify(t.Context(), "note", []int{n}); err != nil {
						t.Fatal(err)
					}
					n++
				}
				items := make([]jsonrpc.Item, 4)
				for i := range items {
					items[i] = jsonrpc.Item{Method: "note", Params: []int{n}, Notify: true}
					n++
				}
				if err := caller.Batch(t.Context(), items); err != nil {
					t.Fatal(err)
				}
			}
			if err := caller.Call(t.Context(), "end", nil, nil); err != nil {
				t.Fatal(err)
			}
			u.Await(n + 1)
			var got []int
			for _, p := range u.Payloads() {
				for _, m := range p.Messages {
					var one []int
					if m.Method == "note" {
						if err := json.Unmarshal([]byte(m.Params), &one); err != nil {
							t.Fatal(err)
						}
						got = append(got, one...)
					}
				}
			}
			if len(got) != n || !slices.IsSorted(got) {
				t.Errorf("%d of %d arrived: %v", len(got), n, got)
			}
		})
	}
}

// TestServerThatComesBack: with the breaker alone, and with active checks, a server that was away
// gets calls again.
func TestServerThatComesBack(t *testing.T) {
	for _, settings := range []string{
		"health: off, breaker: {open: 20ms, max: 20ms}",
		"health: {every: 100ms, method: ping}, breaker: {open: 20ms, max: 20ms}",
		"health: {every: 100ms}, breaker: off",
	} {
		t.Run(settings, func(t *testing.T) {
			t.Parallel()
			u := gatetest.HTTP(t, "a")
			_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, `+settings+`}
gateway:
  routes: [{method: "*", to: a}]
`, map[string]string{"a": u.URL()})
			await := func(what string, f func(*response) bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); ; {
					r := call(t, g, "pay", "[]")
					if f(r) {
						return
					}
					if time.Now().After(end) {
						t.Fatalf("not %s within 30 s: %s", what, r)
					}
				}
			}
			ok := func(r *response) bool { return r.Error == nil }
			await("there", ok)
			for range 2 {
				u.Refuse()
				await("away", func(r *response) bool {
					return strings.HasPrefix(r.String(), "-31006") && r.Error.Data.Upstream == "a" && r.Error.Data.RetryAfterMs > 0
				})
				u.Accept()
				await("back", ok)
			}
			for range 10 {
				if r := call(t, g, "pay", "[]"); r.Error != nil {
					t.Errorf("after it came back: %s", r)
				}
			}
		})
	}
}

// TestPausedServer: after HTTP 429 the calls go to the other server until the pause has passed.
func TestPausedServer(t *testing.T) {
	a, b := gatetest.HTTP(t, "a"), gatetest.HTTP(t, "b")
	_, g := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, group: both, health: off}
  b: {url: "{b}", protocol: jsonrpc, group: both, health: off}
gateway:
  routes: [{method: "*", to: both, idempotent: ["get"], retry: {attempts: 3, backoff: 1ms}}]
`, map[string]string{"a": a.URL(), "b": b.URL()})
	a.Always(gatetest.Step{Fault: gatetest.Status, Status: 429, RetryAfter: "60"})
	for i := range 50 {
		if got := call(t, g, "get", fmt.Sprint("[", i, "]")).String(); got != fmt.Sprintf(`["b","get",[%d]]`, i) {
			t.Fatalf("call %d: %s", i, got)
		}
	}
	if n := a.Count(""); n > 1 {
		t.Errorf("%d calls reached a server that had asked for a pause", n)
	}
}
