package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/rpc"
	legacy "net/rpc/jsonrpc"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/jhttp"
	"github.com/da1ed7bb/parley/interop/harness"
	ethereum "github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"
)

var unicodeTexts = []string{"Grüße", "世界 🌍🏽", "\x00\x1f\"\\/", "\u2028\u2029", "e\u0301 \u202e", "<&>", ""}

// bigText is 64 KiB, with a four-byte character across every power of two.
var bigText = strings.Repeat("🌍", 16*1024-1) + "abc"

// A caller makes one call with a client of another project. Params are positional.
type caller func(ctx context.Context, result any, method string, params ...any) error

// atOnce makes n concurrent calls whose responses arrive out of order.
func atOnce(t *testing.T, n int, call caller) {
	t.Helper()
	var wait sync.WaitGroup
	for range n {
		ms := rand.IntN(200)
		wait.Go(func() {
			var slept int
			if err := call(t.Context(), &slept, "sleep", ms); err != nil || slept != ms {
				t.Errorf("sleep %d = %d, %v", ms, slept, err)
			}
			text := fmt.Sprint("echo of ", ms)
			var back []string
			if err := call(t.Context(), &back, "echo", text); err != nil || !slices.Equal(back, []string{text}) {
				t.Errorf("echo %q = %q, %v", text, back, err)
			}
		})
	}
	wait.Wait()
}

// plainCalls runs the checks that every client supports.
func plainCalls(t *testing.T, call caller) {
	t.Helper()
	var n int
	if err := call(t.Context(), &n, "subtract", 42, 23); err != nil || n != 19 {
		t.Errorf("subtract 42 23 = %d, %v", n, err)
	}
	if err := call(t.Context(), &n, "sum", 1, 2, 3, 4); err != nil || n != 10 {
		t.Errorf("sum = %d, %v", n, err)
	}
	var data []any
	if err := call(t.Context(), &data, "get_data"); err != nil || !cmp.Equal(data, []any{"hello", 5.0}) {
		t.Errorf("get_data = %v, %v", data, err)
	}
	var texts []string
	if err := call(t.Context(), &texts, "echo", unicodeTexts[0], unicodeTexts[1], unicodeTexts[2], unicodeTexts[3]); err != nil || !slices.Equal(texts, unicodeTexts[:4]) {
		t.Errorf("echo = %q, %v", texts, err)
	}
	if err := call(t.Context(), &texts, "echo", bigText); err != nil || len(texts) != 1 || texts[0] != bigText {
		t.Errorf("echo of 64 KiB: %d texts, %v", len(texts), err)
	}
	var numbers []json.Number
	if err := call(t.Context(), &numbers, "echo", json.Number("9007199254740993"), json.Number("1.0"), json.Number("1e400")); err != nil ||
		!slices.Equal(numbers, []json.Number{"9007199254740993", "1.0", "1e400"}) {
		t.Errorf("echo of numbers = %v, %v", numbers, err)
	}
	atOnce(t, 50, call)
}

func TestEthereumClient(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	a := harness.Demo(t, "http://127.0.0.1:0", "unix:"+path)
	for _, c := range []struct {
		name, address string
		duplex        bool
	}{
		{"http", a[0], false},
		{"websocket", webSocket(a[0]), true},
		{"ipc", path, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, err := ethereum.DialContext(t.Context(), c.address)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			plainCalls(t, client.CallContext)
			ethereumErrors(t, client)
			ethereumBatch(t, client)
			// over HTTP its Notify reports the empty body of any server as invalid JSON
			if c.duplex {
				ethereumDuplex(t, client)
			}
		})
	}
}

func ethereumErrors(t *testing.T, client *ethereum.Client) {
	t.Helper()
	err := client.CallContext(t.Context(), nil, "fail", 1234, "as asked 🌍", map[string]any{"why": []any{1, nil}})
	coded, ok := errors.AsType[ethereum.Error](err)
	if !ok || coded.ErrorCode() != 1234 || coded.Error() != "as asked 🌍" {
		t.Errorf("fail = %v", err)
	}
	detailed, ok := errors.AsType[ethereum.DataError](err)
	if want := map[string]any{"why": []any{1.0, nil}}; !ok || !cmp.Equal(detailed.ErrorData(), any(want)) {
		t.Errorf("the data of fail: %v, want %v", err, want)
	}
	for method, want := range map[string]int{"no_such_method": -32601, "subtract": -32602, "panic": -32603} {
		err := client.CallContext(t.Context(), nil, method)
		if coded, ok := errors.AsType[ethereum.Error](err); !ok || coded.ErrorCode() != want {
			t.Errorf("%s = %v, want the code %d", method, err, want)
		}
	}
}

func ethereumBatch(t *testing.T, client *ethereum.Client) {
	t.Helper()
	var slept, difference int
	var data []any
	batch := []ethereum.BatchElem{
		{Method: "sleep", Args: []any{100}, Result: &slept},
		{Method: "subtract", Args: []any{42, 23}, Result: &difference},
		{Method: "fail", Args: []any{7, "seven"}, Result: new(any)},
		{Method: "no_such_method", Result: new(any)},
		{Method: "get_data", Result: &data},
	}
	if err := client.BatchCallContext(t.Context(), batch); err != nil {
		t.Fatalf("batch: %v", err)
	}
	if slept != 100 || difference != 19 || len(data) != 2 {
		t.Errorf("batch: %d, %d, %v", slept, difference, data)
	}
	for i, want := range []int{0, 0, 7, -32601, 0} {
		coded, ok := errors.AsType[ethereum.Error](batch[i].Error)
		if ok != (want != 0) || ok && coded.ErrorCode() != want {
			t.Errorf("member %d of the batch: %v, want the code %d", i, batch[i].Error, want)
		}
	}
}

func ethereumDuplex(t *testing.T, client *ethereum.Client) {
	t.Helper()
	mark := fmt.Sprintf("mark %p", client)
	if err := client.Notify(t.Context(), "log_event", mark); err != nil {
		t.Fatalf("notify: %v", err)
	}
	var log []struct{ Event []string }
	if err := client.CallContext(t.Context(), &log, "get_log", 1000); err != nil {
		t.Fatalf("get_log: %v", err)
	}
	if !slices.ContainsFunc(log, func(e struct{ Event []string }) bool { return slices.Equal(e.Event, []string{mark}) }) {
		t.Errorf("the notification is not in the log: %v", log)
	}
	// It accepts calls only for methods with an underscore in their names, and ignores unknown
	// notifications.
	err := client.CallContext(t.Context(), nil, "ask", "who are you?")
	if coded, ok := errors.AsType[ethereum.Error](err); !ok || coded.ErrorCode() != 1001 {
		t.Errorf("ask = %v, want the code 1001", err)
	}
	if detailed, ok := errors.AsType[ethereum.DataError](err); !ok || !strings.Contains(fmt.Sprint(detailed.ErrorData()), "-32601") {
		t.Errorf("ask = %v, want data with the code -32601", err)
	}
	var end string
	if err := client.CallContext(t.Context(), &end, "countdown", 5); err != nil || end != "liftoff" {
		t.Errorf("countdown = %q, %v", end, err)
	}
}

// jrpc2Carriers returns the transports of jrpc2 to the demo. Its framing Line is ours, Header("")
// that of language servers.
func jrpc2Carriers(t *testing.T) map[string]channel.Channel {
	t.Helper()
	path := socketPath(t)
	a := harness.Demo(t, "tcp://127.0.0.1:0", "tcp://127.0.0.1:0?framing=header", "unix:"+path, "http://127.0.0.1:0")
	dial := func(network, address string) net.Conn {
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	lines := dial("tcp", hostPort(t, a[0]))
	headers := dial("tcp", hostPort(t, a[1]))
	unix := dial("unix", path)
	carriers := map[string]channel.Channel{
		"tcp":        channel.Line(lines, lines),
		"tcp header": channel.Header("")(headers, headers),
		"tcp typed":  nil,
		"unix":       channel.Line(unix, unix),
		"http":       jhttp.NewChannel(a[3], nil),
	}
	typed := dial("tcp", hostPort(t, a[1]))
	carriers["tcp typed"] = channel.Header("application/vscode-jsonrpc; charset=utf-8")(typed, typed)
	for name, framing := range map[string]channel.Framing{"line": channel.Line, "header": channel.LSP} {
		child := exec.Command(harness.Parley(t), "demo", "--stdio", "--framing", name)
		harness.KeepStderr(t, child)
		in, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			if err := child.Wait(); err != nil {
				t.Errorf("the child ended with %v", err)
			}
		})
		carriers["stdio "+name] = framing(out, in)
	}
	return carriers
}

func TestJRPC2Client(t *testing.T) {
	t.Parallel()
	for name, carrier := range jrpc2Carriers(t) {
		t.Run(name, func(t *testing.T) {
			ticks := make(chan int, 100)
			cancelled := make(chan error, 1)
			client := jrpc2.NewClient(carrier, &jrpc2.ClientOptions{
				OnNotify: func(r *jrpc2.Request) {
					var tick struct{ Left int }
					if err := r.UnmarshalParams(&tick); err != nil {
						t.Errorf("%s: %v", r.Method(), err)
					}
					ticks <- tick.Left
				},
				OnCallback: func(_ context.Context, r *jrpc2.Request) (any, error) {
					var in struct{ Question string }
					if err := r.UnmarshalParams(&in); err != nil {
						return nil, err
					}
					if in.Question == "fail" {
						return nil, jrpc2.Errorf(77, "no comment")
					}
					return map[string]string{"heard": in.Question}, nil
				},
				OnCancel: func(client *jrpc2.Client, r *jrpc2.Response) {
					cancelled <- client.Notify(context.Background(), "$/cancelRequest", map[string]any{"id": json.RawMessage(r.ID())})
				},
			})
			defer func() {
				if err := client.Close(); err != nil && name != "http" {
					t.Errorf("close: %v", err)
				}
			}()
			call := func(ctx context.Context, result any, method string, params ...any) error {
				var p any
				if len(params) > 0 {
					p = params
				}
				return client.CallResult(ctx, method, p, result)
			}
			plainCalls(t, call)
			jrpc2Calls(t, client)
			if name != "http" {
				jrpc2Duplex(t, client)
				if err := await(t.Context(), t, cancelled, "cancel"); err != nil {
					t.Errorf("cancel: %v", err)
				}
				jrpc2Countdown(t, client, ticks)
			}
		})
	}
}

func jrpc2Countdown(t *testing.T, client *jrpc2.Client, ticks <-chan int) {
	t.Helper()
	var end string
	if err := client.CallResult(t.Context(), "countdown", map[string]int{"from": 20}, &end); err != nil || end != "liftoff" {
		t.Errorf("countdown = %q, %v", end, err)
	}
	// It runs each notification on a separate goroutine, so the order cannot be observed here.
	var got []int
	for range 20 {
		got = append(got, await(t.Context(), t, ticks, "tick"))
	}
	slices.Sort(got)
	for i, left := range got {
		if left != i+1 {
			t.Fatalf("ticks %v, want 1 to 20", got)
		}
	}
}

func jrpc2Calls(t *testing.T, client *jrpc2.Client) {
	t.Helper()
	var n int
	if err := client.CallResult(t.Context(), "subtract", map[string]int{"subtrahend": 23, "minuend": 42}, &n); err != nil || n != 19 {
		t.Errorf("subtract by name = %d, %v", n, err)
	}
	err := client.CallResult(t.Context(), "fail", map[string]any{"code": 1234, "message": "as asked", "data": []int{1}}, nil)
	if e, ok := errors.AsType[*jrpc2.Error](err); !ok || e.Code != 1234 || e.Message != "as asked" || string(e.Data) != "[1]" {
		t.Errorf("fail = %v", err)
	}
	err = client.CallResult(t.Context(), "subtract", []string{"x", "y"}, nil)
	if jrpc2.ErrorCode(err) != jrpc2.InvalidParams {
		t.Errorf("subtract of texts = %v", err)
	}
	mark := fmt.Sprintf("mark %p", client)
	if err := client.Notify(t.Context(), "log_event", []string{mark}); err != nil {
		t.Errorf("notify: %v", err)
	}
	for range 100 {
		var log []struct{ Event json.RawMessage }
		if err := client.CallResult(t.Context(), "get_log", nil, &log); err != nil {
			t.Fatalf("get_log: %v", err)
		}
		if slices.ContainsFunc(log, func(e struct{ Event json.RawMessage }) bool { return strings.Contains(string(e.Event), mark) }) {
			mark = ""
			break
		}
	}
	if mark != "" {
		t.Error("the notification did not arrive")
	}
	answers, err := client.Batch(t.Context(), []jrpc2.Spec{
		{Method: "sleep", Params: []int{50}},
		{Method: "update", Params: []int{1}, Notify: true},
		{Method: "subtract", Params: []int{42, 23}},
		{Method: "fail", Params: []any{7, "seven"}},
		{Method: "no_such_method"},
	})
	if err != nil || len(answers) != 4 {
		t.Fatalf("batch: %d answers, %v", len(answers), err)
	}
	for i, want := range []string{"50", "19", "7", "-32601"} {
		got := answers[i].ResultString()
		if e := answers[i].Error(); e != nil {
			got = fmt.Sprint(int(e.Code))
		}
		if got != want {
			t.Errorf("member %d of the batch: %s, want %s", i, got, want)
		}
	}
}

func jrpc2Duplex(t *testing.T, client *jrpc2.Client) {
	t.Helper()
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			question := fmt.Sprintf("question %d 🌍", i)
			var said struct{ Heard string }
			if err := client.CallResult(t.Context(), "ask", map[string]string{"question": question}, &said); err != nil || said.Heard != question {
				t.Errorf("ask %q = %q, %v", question, said.Heard, err)
			}
		})
	}
	wait.Wait()
	err := client.CallResult(t.Context(), "ask", []string{"fail"}, nil)
	if e, ok := errors.AsType[*jrpc2.Error](err); !ok || e.Code != 1001 || !strings.Contains(string(e.Data), "77") {
		t.Errorf("ask for a failure = %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.CallResult(ctx, "sleep", []int{60_000}, nil); !errors.Is(err, context.DeadlineExceeded) && jrpc2.ErrorCode(err) != jrpc2.DeadlineExceeded {
		t.Errorf("sleep with a deadline = %v", err)
	}
}

// TestStandardLibraryClient uses the standard library, which supports JSON-RPC 1.0 with one
// parameter per call.
func TestStandardLibraryClient(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	a := harness.Demo(t, "tcp://127.0.0.1:0?jsonrpc=1.0", "unix:"+path+"?jsonrpc=1.0")
	for network, address := range map[string]string{"tcp": hostPort(t, a[0]), "unix": path} {
		t.Run(network, func(t *testing.T) {
			client, err := legacy.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var back []string
			for _, text := range []string{"Grüße 🌍", bigText} {
				if err := client.Call("echo", text, &back); err != nil || len(back) != 1 || back[0] != text {
					t.Errorf("echo = %.40q, %v", back, err)
				}
			}
			var total int
			if err := client.Call("sum", 5, &total); err != nil || total != 5 {
				t.Errorf("sum = %d, %v", total, err)
			}
			calls := make(chan *rpc.Call, 50)
			for i := range 50 {
				client.Go("sleep", 200-4*i, new(int), calls)
			}
			for range 50 {
				if c := <-calls; c.Error != nil || *c.Reply.(*int) != c.Args {
					t.Errorf("sleep %v = %v, %v", c.Args, *c.Reply.(*int), c.Error)
				}
			}
			// It supports errors that are texts only: for an object, as 1.0 requires, it
			// disconnects and prints it.
			err = client.Call("no_such_method", 1, nil)
			if err == nil || !strings.Contains(err.Error(), "-32601") {
				t.Errorf("no_such_method = %v", err)
			}
		})
	}
}
