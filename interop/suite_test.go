package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/google/go-cmp/cmp"
)

// A peerServer describes another project's server of the demo methods for our client.
type peerServer struct {
	prefix     string // prefix of every method name
	positional bool   // it does not support named params
	noBatch    bool   // it does not support arrays, and reports no error
	rounds     bool   // its numbers are 64-bit floats
	sloppy     bool   // it does not check params
	duplex     bool   // it has ask and countdown
	cancels    bool   // it stops cancelled calls
	loose      bool   // notifications may be overtaken
}

// back is our side of a duplex connection: it handles "answer" and stores the ticks.
type back struct {
	jsonrpc.Mux

	ticks chan int
}

type question struct {
	Question string `json:"question"`
}

type heard struct {
	Heard string `json:"heard"`
}

type tick struct {
	Left      int        `json:"left"`
	RequestID jsonrpc.ID `json:"request_id,omitzero"`
}

func newBack() *back {
	b := &back{ticks: make(chan int, 1000)}
	b.Add("answer", jsonrpc.Func(func(_ context.Context, in question) (heard, error) {
		if in.Question == "fail" {
			return heard{}, jsonrpc.NewError(77, "no comment")
		}
		return heard{in.Question}, nil
	}))
	b.Add("countdown/tick", jsonrpc.Func(func(_ context.Context, in tick) (any, error) {
		b.ticks <- in.Left
		return nil, nil
	}))
	return b
}

// dial connects our client to target.
func dial(t *testing.T, target parley.Target, b *back) *parley.Client {
	t.Helper()
	d := parley.Dialer{Report: func(what string, err error) { t.Logf("%s: %s: %v", target, what, err) }}
	if b != nil {
		d.Back, d.Mode = b, b.Mux.Mode
	}
	// Ticks of these servers have no request_id; those with one are passed to b as well.
	d.Related = func(*jsonrpc.Request) (jsonrpc.ID, bool) { return jsonrpc.ID{}, false }
	stderr := new(harness.Output)
	d.Stderr = func(line string) { _, _ = fmt.Fprintln(stderr, line) }
	stderr.ShowIfFailed(t, target.String())
	client, err := d.Dial(t.Context(), target)
	if err != nil {
		t.Fatalf("dial %s: %v", target, err)
	}
	return client
}

// address parses a target.
func address(t *testing.T, text string) parley.Target {
	t.Helper()
	target, err := parley.ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// child is the target of a program on its stdio, with Content-Length framing.
func child(t *testing.T, argv []string) parley.Target {
	t.Helper()
	target := parley.Command(argv...)
	if err := target.Set("header", ""); err != nil {
		t.Fatal(err)
	}
	return target
}

// ourClient tests our client with a server at target.
func ourClient(t *testing.T, target parley.Target, s peerServer) {
	t.Helper()
	b := newBack()
	client := dial(t, target, b)
	defer func() {
		if err := client.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	for _, part := range []struct {
		name string
		run  func(*testing.T, *parley.Client, peerServer)
		skip bool
	}{
		{"calls", ourCalls, false},
		{"errors", ourErrors, false},
		{"notification", ourNotification, false},
		{"ids", ourIDs, false},
		{"at once", ourCallsAtOnce, false},
		{"batch", ourBatch, s.noBatch},
		{"cancel", ourCancel, false},
		{"both ways", func(t *testing.T, c *parley.Client, s peerServer) { ourAnswers(t, c, b) }, !s.duplex},
	} {
		if !part.skip {
			t.Run(part.name, func(t *testing.T) { part.run(t, client, s) })
		}
	}
}

func ourCalls(t *testing.T, c *parley.Client, s peerServer) {
	ctx := t.Context()
	if n, err := jsonrpc.Call[int](ctx, c, s.prefix+"subtract", []int{42, 23}); err != nil || n != 19 {
		t.Errorf("subtract by position = %d, %v", n, err)
	}
	if !s.positional {
		type operands struct {
			Minuend    int `json:"minuend"`
			Subtrahend int `json:"subtrahend"`
		}
		if n, err := jsonrpc.Call[int](ctx, c, s.prefix+"subtract", operands{Minuend: 42, Subtrahend: 23}); err != nil || n != 19 {
			t.Errorf("subtract by name = %d, %v", n, err)
		}
	}
	var none any
	if s.positional {
		none = []int{}
	}
	if data, err := jsonrpc.Call[[]any](ctx, c, s.prefix+"get_data", none); err != nil || !cmp.Equal(data, []any{"hello", 5.0}) {
		t.Errorf("get_data = %v, %v", data, err)
	}
	for _, text := range append(slices.Clone(unicodeTexts), bigText) {
		back, err := jsonrpc.Call[[]string](ctx, c, s.prefix+"echo", []string{text})
		if err != nil || len(back) != 1 || back[0] != text {
			t.Errorf("echo %.40q = %.40q, %v", text, back, err)
		}
	}
	value := `[[0,-1,1.5,true,null,{"a":[{}]},"\u0041"]]`
	if !s.rounds {
		value = `[[9007199254740993,-1152921504606846976,1.5,true,null,{"a":[{}]}]]`
	}
	raw, err := jsonrpc.Call[jsonrpc.Raw](ctx, c, s.prefix+"echo", jsonrpc.Raw(value))
	if err != nil || !sameJSON(t, raw, []byte(value)) {
		t.Errorf("echo %s = %s, %v", value, raw, err)
	}
}

// sameJSON compares two texts, ignoring white space and escapes.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	read := func(text []byte) (v any) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%.100s: %v", text, err)
		}
		return v
	}
	return cmp.Equal(read(a), read(b))
}

func ourErrors(t *testing.T, c *parley.Client, s peerServer) {
	ctx := t.Context()
	err := c.Call(ctx, s.prefix+"fail", []any{1234, "as asked 🌍", map[string]any{"why": []any{1, nil}}}, nil)
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != 1234 || e.Message != "as asked 🌍" || !sameJSON(t, e.Data, []byte(`{"why":[1,null]}`)) {
		t.Errorf("fail = %v", err)
	}
	if err := c.Call(ctx, s.prefix+"no_such_method", []int{1}, nil); !errors.Is(err, jsonrpc.ErrMethodNotFound) {
		t.Errorf("no_such_method = %v", err)
	}
	if !s.sloppy {
		if err := c.Call(ctx, s.prefix+"subtract", []string{"x", "y"}, nil); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("subtract of texts = %v", err)
		}
	}
	// A result of another type is an error of our side, not of the peer.
	_, err = jsonrpc.Call[int](ctx, c, s.prefix+"get_data", []int{})
	if _, theirs := errors.AsType[*jsonrpc.Error](err); err == nil || theirs {
		t.Errorf("get_data as a number = %v", err)
	}
}

func ourNotification(t *testing.T, c *parley.Client, s peerServer) {
	mark := fmt.Sprintf("mark %p %d", c, time.Now().UnixNano())
	if err := c.Notify(t.Context(), s.prefix+"log_event", []string{mark}); err != nil {
		t.Fatalf("notify: %v", err)
	}
	for range 200 {
		log, err := jsonrpc.Call[jsonrpc.Raw](t.Context(), c, s.prefix+"get_log", []int{})
		if err != nil {
			t.Fatalf("get_log: %v", err)
		}
		if strings.Contains(string(log), mark) {
			return
		}
		if !s.loose {
			break
		}
	}
	t.Errorf("%q is not in the log", mark)
}

func ourIDs(t *testing.T, c *parley.Client, s peerServer) {
	// Python's servers encode the last one differently: "\u00e4\ud83c\udf0d".
	for _, id := range []jsonrpc.ID{jsonrpc.IntID(-7), jsonrpc.IntID(4_000_000_000), jsonrpc.StringID("x"), jsonrpc.StringID("1"), jsonrpc.StringID("ä🌍")} {
		var sum int
		item := jsonrpc.Item{ID: id, Method: s.prefix + "add", Params: []int{1, 2}, Result: &sum}
		if err := c.Do(t.Context(), &item); err != nil || item.Err != nil || sum != 3 {
			t.Errorf("the id %s: %d, %v, %v", id, sum, err, item.Err)
		}
	}
}

func ourCallsAtOnce(t *testing.T, c *parley.Client, s peerServer) {
	atOnce(t, 50, func(ctx context.Context, result any, method string, params ...any) error {
		return c.Call(ctx, s.prefix+method, params, result)
	})
}

func ourBatch(t *testing.T, c *parley.Client, s peerServer) {
	var slept, difference int
	var data []any
	items := []jsonrpc.Item{
		{Method: s.prefix + "sleep", Params: []int{50}, Result: &slept},
		{Method: s.prefix + "update", Params: []int{1}, Notify: true},
		{Method: s.prefix + "subtract", Params: []int{42, 23}, Result: &difference},
		{Method: s.prefix + "fail", Params: []any{7, "seven", nil}},
		{Method: s.prefix + "no_such_method", Params: []int{}},
		{Method: s.prefix + "get_data", Params: []int{}, Result: &data},
	}
	if err := c.Batch(t.Context(), items); err != nil {
		t.Fatalf("batch: %v", err)
	}
	if slept != 50 || difference != 19 || len(data) != 2 {
		t.Errorf("batch: %d, %d, %v", slept, difference, data)
	}
	for i, want := range []int64{0, 0, 0, 7, jsonrpc.CodeMethodNotFound, 0} {
		e, ok := errors.AsType[*jsonrpc.Error](items[i].Err)
		if ok != (want != 0) || ok && e.Code != want || !ok && items[i].Err != nil {
			t.Errorf("member %d of the batch: %v, want the code %d", i, items[i].Err, want)
		}
	}
	only := []jsonrpc.Item{{Method: s.prefix + "update", Params: []int{1}, Notify: true}, {Method: s.prefix + "notify_sum", Params: []int{2}, Notify: true}}
	if err := c.Batch(t.Context(), only); err != nil || only[0].Err != nil || only[1].Err != nil {
		t.Errorf("a batch of notifications: %v, %v, %v", err, only[0].Err, only[1].Err)
	}
}

func ourCancel(t *testing.T, c *parley.Client, s peerServer) {
	ms := 60_000
	if !s.cancels {
		ms = 5_000 // it sleeps to the end, and its response is ignored
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := c.Call(ctx, s.prefix+"sleep", []int{ms}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep with a deadline = %v", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("a call with a deadline of 50 ms took %v", took)
	}
	if n, err := jsonrpc.Call[int](t.Context(), c, s.prefix+"add", []int{5, 3}); err != nil || n != 8 {
		t.Errorf("the call after it = %d, %v", n, err)
	}
}

func ourAnswers(t *testing.T, c *parley.Client, b *back) {
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			in := question{fmt.Sprintf("question %d 🌍", i)}
			out, err := jsonrpc.Call[heard](t.Context(), c, "ask", in)
			if err != nil || out.Heard != in.Question {
				t.Errorf("ask %q = %q, %v", in.Question, out.Heard, err)
			}
		})
	}
	wait.Wait()
	if _, err := jsonrpc.Call[heard](t.Context(), c, "ask", question{"fail"}); err == nil {
		t.Error("ask for a failure succeeded")
	}
	end, err := jsonrpc.Call[string](t.Context(), c, "countdown", map[string]int{"from": 20})
	if err != nil || end != "liftoff" {
		t.Errorf("countdown = %q, %v", end, err)
	}
	// All ticks were delivered before the response; the last may still be in the handler.
	for want := 20; want > 0; want-- {
		if got := await(t.Context(), t, b.ticks, "tick"); got != want {
			t.Errorf("tick %d, want %d", got, want)
		}
	}
}
