package jsonrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/race"
	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestAskingAgainstAModel has a Conn call a peer with random responses: correct, repeated, late,
// errors without an id, in arrays, or none. After each step, the result of every call must match a
// simple model of the rules: each call ends once, with the response that has its id, and nothing is
// sent twice unless it was rejected and the rejection could be about nothing else. PARLEY_SEED
// repeats a run.
func TestAskingAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	runs := 300
	if race.Enabled {
		runs = 30
	}
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		runs = 1
	}
	for range runs {
		synctest.Test(t, func(t *testing.T) { newModel(t, seed).run(60) })
		if t.Failed() {
			t.Fatalf("PARLEY_SEED=%d", seed)
		}
		seed++
	}
}

// A modelCall is one item: what was sent, and how it must end.
type modelCall struct {
	token  string
	notify bool
	id     string      // on the wire; "" before it was sent
	place  int         // on the wire
	batch  *modelBatch // the array it is in; nil for a single message
	twice  bool        // may be on the wire a second time
	want   string      // how it must end; "" while it waits
	got    string      // how it ended
}

// A modelBatch is one call of Conn.Batch.
type modelBatch struct {
	items    []*modelCall
	answered bool // one of its calls has its response
	over     bool // the array was rejected or has ended; its items are single calls now
	done     bool // Batch has returned
	cancel   context.CancelFunc
}

type model struct {
	t    *testing.T
	r    *rand.Rand
	c    *Conn
	peer *memoryConn
	log  []string

	calls   []*modelCall
	batches []*modelBatch
	cancels map[*modelCall]context.CancelFunc
	results chan func() // the results of calls, to be run by the test

	place  int // messages that were sent
	others int // the place of the last message that is not our call
	proved int // the place of the last call that got its response
	// the place up to which the order is unknown: single calls and notifications of a batch were
	// sent concurrently
	unclear int
	singles bool
	lost    map[string]*modelCall // given up, without a response since
	tokens  int
	closed  bool
}

func newModel(t *testing.T, seed uint64) *model {
	a, b := memoryPipe()
	m := &model{t: t, r: rand.New(rand.NewPCG(seed, 0)), peer: a.(*memoryConn), cancels: map[*modelCall]context.CancelFunc{},
		results: make(chan func(), 1000), lost: map[string]*modelCall{}}
	m.c = NewConn(newLine(b))
	if m.r.IntN(2) == 0 {
		m.c.Cancellation = CancelRequest
	}
	m.c.Handler = HandlerFunc(func(context.Context, *Request) (any, error) { return "echo", nil })
	m.c.Start(context.Background())
	return m
}

func (m *model) run(steps int) {
	defer func() {
		if m.t.Failed() {
			m.t.Logf("%s", strings.Join(m.log, "\n"))
		}
	}()
	for range steps {
		m.step()
		m.check()
		if m.t.Failed() {
			break
		}
	}
	m.closed = true
	_ = m.c.Close() // ends everything that waits
	for _, k := range m.waiting() {
		k.want = "closed"
	}
	m.check()
	_ = m.peer.Close() // an error is not relevant any more
}

func (m *model) note(format string, a ...any) { m.log = append(m.log, fmt.Sprintf(format, a...)) }

// waiting returns the calls that have not ended, oldest first.
func (m *model) waiting() []*modelCall {
	var all []*modelCall
	for _, k := range m.calls {
		if k.want == "" && !k.notify && k.id != "" {
			all = append(all, k)
		}
	}
	return all
}

func (m *model) step() {
	waiting := m.waiting()
	some := func() *modelCall { return waiting[m.r.IntN(len(waiting))] }
	switch n := m.r.IntN(100); {
	case n < 20:
		for range 1 + m.r.IntN(3) {
			m.call()
		}
	case n < 32:
		m.batch()
	case n < 36:
		m.note("notify")
		if err := m.c.Notify(context.Background(), "note", nil); err != nil {
			m.t.Error(err)
		}
	case n < 56 && len(waiting) > 0:
		m.answer(some())
	case n < 64 && len(waiting) > 0: // several responses at once
		m.r.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		var parts []string
		for _, k := range waiting[:1+m.r.IntN(len(waiting))] {
			parts = append(parts, m.response(k))
		}
		if m.r.IntN(4) == 0 {
			// about no batch, because the array also has responses
			parts = append(parts, m.null(-32600))
		}
		m.send("[" + strings.Join(parts, ",") + "]")
	case n < 68 && len(m.calls) > 0: // a response that is repeated or late
		if k := m.calls[m.r.IntN(len(m.calls))]; k.want != "" && k.id != "" {
			m.send(m.result(k))
			delete(m.lost, k.id)
		}
	case n < 82:
		m.refuse()
	case n < 85:
		m.send(m.null([]int64{-32700, -31001, -31004, -32603}[m.r.IntN(4)]))
	case n < 87:
		m.send("[" + m.null(-32600) + "]")
	case n < 89:
		m.send(`{"jsonrpc":"2.0","result":1,"id":"nobody"}`)
	case n < 91 && len(waiting) > 0: // neither result nor error, or both
		k := some()
		m.settled(k, "bad")
		m.send(fmt.Sprintf(`{"jsonrpc":"2.0","result":1,"error":{"code":1,"message":"x"},"id":%s}`, k.id))
	case n < 94:
		// our response is one more message that the peer may reject
		m.send(`{"jsonrpc":"2.0","method":"ask","id":"theirs"}`)
	case n < 98 && len(waiting) > 0:
		m.cancel(some())
	case n < 99:
		m.note("time passes")
		for _, k := range waiting {
			m.giveUp(k, "timeout")
		}
		time.Sleep(63 * time.Second) // in a synctest bubble
	default:
		m.send("no JSON")
	}
}

func (m *model) token() string { m.tokens++; return fmt.Sprintf("t%d", m.tokens) }

func (m *model) call() {
	k := &modelCall{token: m.token()}
	m.calls = append(m.calls, k)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancels[k] = cancel
	m.note("call %s", k.token)
	go func() {
		var got string
		err := m.c.Call(ctx, "do", []string{k.token}, &got)
		m.results <- func() { m.ended(k, got, err) }
	}()
}

func (m *model) batch() {
	b := &modelBatch{}
	items := make([]Item, 1+m.r.IntN(4))
	for i := range items {
		k := &modelCall{token: m.token(), batch: b, notify: m.r.IntN(5) == 0}
		b.items = append(b.items, k)
		m.calls = append(m.calls, k)
		items[i] = Item{Method: "do", Params: []string{k.token}, Result: new(string), Notify: k.notify}
	}
	m.batches = append(m.batches, b)
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(context.Background())
	m.note("batch of %d, first %s", len(items), b.items[0].token)
	go func() {
		_ = m.c.Batch(ctx, items) // the items hold the error
		m.results <- func() {
			b.done = true
			for i, k := range b.items {
				m.ended(k, *items[i].Result.(*string), items[i].Err)
			}
		}
	}()
}

// cancel ends the context of a call, and the context of its batch.
func (m *model) cancel(k *modelCall) {
	m.note("cancel %s", k.token)
	if k.batch == nil {
		m.giveUp(k, "cancelled")
		m.cancels[k]()
		return
	}
	for _, k := range k.batch.items {
		if k.want == "" && !k.notify {
			m.giveUp(k, "cancelled")
		}
	}
	k.batch.cancel()
}

func (m *model) giveUp(k *modelCall, want string) {
	k.want = want
	m.lost[k.id] = k
}

// settled applies a response with the id of a call.
func (m *model) settled(k *modelCall, want string) {
	k.want = want
	m.proved = max(m.proved, k.place)
	if k.batch != nil {
		k.batch.answered = true
	}
}

func (m *model) result(k *modelCall) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","result":"for %s","id":%s}`, k.token, k.id)
}

func (m *model) response(k *modelCall) string {
	if m.r.IntN(4) == 0 {
		m.settled(k, "error "+k.token)
		return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32600,"message":%q},"id":%s}`, k.token, k.id)
	}
	m.settled(k, "ok for "+k.token)
	return m.result(k)
}

func (m *model) answer(k *modelCall) { m.send(m.response(k)) }

func (m *model) null(code int64) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":%d,"message":"null"},"id":null}`, code)
}

// refuse applies the rule for rejections, which this test is about.
func (m *model) refuse() {
	waiting := m.waiting()
	if m.unclear > m.proved {
		return
	}
	alone := len(m.lost) == 0 && m.others <= m.proved
	switch {
	case !alone || len(waiting) == 0:
	case len(waiting) == 1 && (waiting[0].batch == nil || waiting[0].batch.over):
		if !slices.ContainsFunc(m.batches, m.onWire) {
			waiting[0].want = "error null"
		}
	default:
		b := waiting[0].batch
		if b == nil || b.over || b.answered {
			break
		}
		calls := slices.DeleteFunc(slices.Clone(b.items), func(k *modelCall) bool { return k.notify })
		if len(calls) != len(waiting) || slices.ContainsFunc(waiting, func(k *modelCall) bool { return k.batch != b }) {
			break
		}
		b.over, m.singles = true, true
		for _, k := range b.items {
			k.id, k.twice = "", true
		}
	}
	m.send(m.null(-32600))
}

// onWire reports whether the calls of a batch wait as an array.
func (m *model) onWire(b *modelBatch) bool { return !b.over && !b.done }

func (m *model) send(text string) {
	m.note("> %s", text)
	if _, err := m.peer.Write([]byte(text + "\n")); err != nil {
		m.t.Error(err)
	}
}

// ended records the result of a call.
func (m *model) ended(k *modelCall, got string, err error) {
	if k.got != "" {
		m.t.Errorf("%s ended twice", k.token)
	}
	e, own := errors.AsType[*Error](err)
	switch {
	case err == nil:
		k.got = "ok " + got
	case errors.Is(err, context.Canceled):
		k.got = "cancelled"
	case errors.Is(err, ErrTimeout):
		k.got = "timeout"
	case errors.Is(err, ErrClosed):
		k.got = "closed"
	case errors.Is(err, ErrBadResponse):
		k.got = "bad"
	case own:
		k.got = "error " + e.Message
	default:
		k.got = err.Error()
	}
}

// check waits until everything is idle, and compares.
func (m *model) check() {
	synctest.Wait()
	m.read()
	for {
		select {
		case f := <-m.results:
			f()
			continue
		default:
		}
		break
	}
	for _, k := range m.calls {
		switch {
		case k.notify:
		case k.batch != nil && !k.batch.done:
			if !slices.ContainsFunc(k.batch.items, func(k *modelCall) bool { return k.want == "" && !k.notify }) {
				m.t.Errorf("the batch of %s has not ended", k.token)
			}
		case k.got != k.want:
			m.t.Errorf("%s ended with %q, want %q", k.token, k.got, k.want)
		}
	}
}

// read reads what the Conn has sent.
func (m *model) read() {
	m.peer.in.mu.Lock()
	lines := strings.Split(strings.TrimSuffix(string(m.peer.in.buf), "\n"), "\n")
	m.peer.in.buf = nil
	m.peer.in.mu.Unlock()
	others, single := 0, 0
	for _, line := range lines {
		if line == "" {
			continue
		}
		m.note("< %s", line)
		m.place++
		var all []json.RawMessage
		if line[0] != '[' {
			all = []json.RawMessage{json.RawMessage(line)}
		} else if err := json.Unmarshal([]byte(line), &all); err != nil {
			m.t.Fatal(err)
		}
		calls := 0
		for _, text := range all {
			calls += m.sent(text, line[0] == '[')
		}
		if calls == 0 {
			m.others = m.place
			others++
		} else if line[0] != '[' {
			single++
		}
	}
	if others > 0 && single > 0 {
		m.unclear = m.place
	}
}

// sent records one of our messages, and returns 1 for a call.
func (m *model) sent(text json.RawMessage, array bool) int {
	var msg struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	if err := json.Unmarshal(text, &msg); err != nil {
		m.t.Fatal(err)
	}
	var params []string
	if msg.Method != "do" || json.Unmarshal(msg.Params, &params) != nil {
		return 0 // a notification, a response or a cancel
	}
	if array && m.singles {
		m.t.Errorf("an array after one was refused: %s", text)
	}
	for _, k := range m.calls {
		if k.token != params[0] {
			continue
		}
		if k.place > 0 && !k.twice {
			m.t.Errorf("%s was sent twice", k.token)
		}
		if k.batch != nil && !array {
			k.batch.over = true
		}
		k.place, k.id, k.twice = m.place, string(msg.ID), false
		if k.notify {
			k.id = ""
			return 0
		}
		return 1
	}
	m.t.Errorf("nobody asked for %s", text)
	return 0
}
