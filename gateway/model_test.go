package gateway_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/gateway/gatetest"
)

// A modelMember is one member of a random batch, and what may come of it.
type modelMember struct {
	text       string
	id         string // JSON text, "" for a notification
	number     int    // in its params; every member has another
	servers    string // the names of the servers that it may reach, one letter each
	method     string // as the server gets it
	idempotent bool
	code       int // of the error without a server, 0 for none
}

// modelBatch returns a random batch whose members have numbers from first on.
func modelBatch(r *rand.Rand, first int) (list []modelMember) {
	ids := []string{"1", "1.0", `"1"`, "null", `"\u00fc"`, "9007199254740993", "-0"}
	for i := range 1 + r.IntN(12) {
		m := modelMember{number: first + i, id: ids[r.IntN(len(ids))]}
		route := []struct{ prefix, servers string }{{"array", "a"}, {"single", "b"}, {"tcp", "c"}, {"group", "de"}, {"none", ""}}[r.IntN(5)]
		m.servers = route.servers
		verb := "pay"
		if m.idempotent = r.IntN(2) == 0; m.idempotent {
			verb = "get"
		}
		m.method = route.prefix + "." + verb
		switch r.IntN(12) {
		case 0: // a notification
			m.id, m.idempotent = "", false
			m.text = fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":[%d]}`, m.method, m.number)
		case 1: // not valid
			m.text, m.id, m.code, m.servers = []string{"1", "[]", `{"jsonrpc":"2.0","method":1}`, `{"method":"x"}`}[r.IntN(4)], "null", -32600, ""
		default:
			m.text = fmt.Sprintf(`{"params":[%d],"id":%s,"method":%q,"jsonrpc":"2.0"}`, m.number, m.id, m.method)
		}
		if m.servers == "" && m.code == 0 {
			m.code = -32601
		}
		list = append(list, m)
	}
	return list
}

// TestRandomBatchesAgainstAModel sends random batches over servers with random faults. Each member
// must get exactly one response with its own ID, at its place, and with its own result or an error
// of its own server; nothing that is not idempotent may run twice.
func TestRandomBatchesAgainstAModel(t *testing.T) {
	servers := map[string]*gatetest.Upstream{
		"a": gatetest.HTTP(t, "a"), "b": gatetest.HTTP(t, "b"), "c": gatetest.TCP(t, "c"), "d": gatetest.HTTP(t, "d"), "e": gatetest.HTTP(t, "e"),
	}
	urls := map[string]string{}
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(1, 2))
	ran := map[string]int{} // by the text of the params: how often it may have run
	for name, u := range servers {
		urls[name] = u.URL()
		kinds := []gatetest.Fault{0, 0, 0, gatetest.Reversed, gatetest.Twice, gatetest.Missing, gatetest.Cut, gatetest.CutHalf, gatetest.Garbage, gatetest.Status, gatetest.Error, gatetest.WrongID}
		switch name {
		case "b":
			kinds = []gatetest.Fault{gatetest.NoArrays}
		case "c": // where an answer is missing, the call waits
			kinds = []gatetest.Fault{0, 0, 0, 0, gatetest.Twice, gatetest.Error, gatetest.Cut, gatetest.CutHalf}
		}
		u.By(func(p *gatetest.Payload) gatetest.Step {
			mu.Lock()
			defer mu.Unlock()
			s := gatetest.Step{Fault: kinds[faults.IntN(len(kinds))]}
			if s.Fault != gatetest.NoArrays || p.Text[0] != '[' {
				for _, m := range p.Messages {
					ran[m.Params]++
				}
			}
			return s
		})
	}
	_, gate := start(t, `
servers:
  a: {url: "{a}", protocol: jsonrpc, breaker: off, health: off}
  b: {url: "{b}", protocol: jsonrpc, breaker: off, health: off}
  c: {url: "{c}", protocol: jsonrpc, breaker: off, health: off}
  d: {url: "{d}", protocol: jsonrpc, breaker: off, health: off, group: both}
  e: {url: "{e}", protocol: jsonrpc, breaker: off, health: off, group: both}
gateway:
  routes:
    - {method: "array.*", to: a, idempotent: ["*.get"], retry: {attempts: 3, backoff: 1ms}}
    - {method: "single.*", to: b, idempotent: ["*.get"], retry: {attempts: 3, backoff: 1ms}}
    - {method: "tcp.*", to: c, idempotent: ["*.get"], retry: {attempts: 3, backoff: 1ms}}
    - {method: "group.*", to: both, idempotent: ["*.get"], retry: {attempts: 3, backoff: 1ms}}
`, urls)

	const clients, batches = 4, 60
	var sent [clients][]modelMember
	var work sync.WaitGroup
	for c := range clients {
		r := rand.New(rand.NewPCG(uint64(c), 7))
		work.Go(func() {
			for i := range batches {
				batch := modelBatch(r, 1_000_000*(c+1)+100*i)
				sent[c] = append(sent[c], batch...)
				texts := make([]string, len(batch))
				for i := range batch {
					texts[i] = batch[i].text
				}
				status, got := post(t, gate, "["+strings.Join(texts, ", ")+"]")
				compareBatch(t, batch, status, got)
			}
		})
	}
	work.Wait()
	results := 0
	for _, m := range append(append(append(sent[0], sent[1]...), sent[2]...), sent[3]...) {
		n := ran[fmt.Sprint("[", m.number, "]")]
		most := 1
		switch {
		case m.servers == "":
			most = 0
		case m.idempotent:
			most = 3
		}
		if n > most {
			t.Errorf("%s ran %d times, at most %d are permitted", m.text, n, most)
		}
		results += n
	}
	if results < clients*batches {
		t.Errorf("only %d members reached a server", results)
	}
}

// compareBatch compares the response to a batch with what is permitted.
func compareBatch(t *testing.T, batch []modelMember, status int, text string) {
	var want []modelMember // with a response
	for _, m := range batch {
		if m.id != "" {
			want = append(want, m)
		}
	}
	if len(want) == 0 {
		if status != 204 || text != "" {
			t.Errorf("notifications: HTTP %d %s", status, text)
		}
		return
	}
	var got []*response
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != len(want) {
		t.Errorf("%d responses, want %d: %v\n%s", len(got), len(want), err, text)
		return
	}
	for i, m := range want {
		g := got[i]
		if string(g.ID) != m.id {
			t.Errorf("response %d has the ID %s, want %s", i, g.ID, m.id)
		}
		if m.code != 0 {
			if g.Error == nil || g.Error.Code != m.code {
				t.Errorf("%s: %s, want %d", m.text, g, m.code)
			}
			continue
		}
		if g.Error == nil {
			fine := false
			for _, server := range m.servers {
				fine = fine || string(g.Result) == fmt.Sprintf(`[%q,%q,[%d]]`, string(server), m.method, m.number)
			}
			if !fine {
				t.Errorf("%s got the result %s", m.text, g.Result)
			}
			continue
		}
		switch reason := g.Error.Data.Reason; {
		case g.Error.Code == 7: // of the server
		case g.Error.Code != -31006 || reason != "unreachable" && reason != "bad_answer":
			t.Errorf("%s: %s", m.text, g)
		case !strings.Contains(m.servers, g.Error.Data.Upstream) || g.Error.Data.Upstream == "":
			t.Errorf("%s: error of %q", m.text, g.Error.Data.Upstream)
		}
	}
}
