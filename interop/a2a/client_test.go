package a2a_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A hook is a webhook on this machine.
type hook struct {
	mu     sync.Mutex
	bodies []map[string]jsonrpc.Raw
	heads  []http.Header
	came   chan struct{}
	url    string
}

func newHook(t *testing.T) *hook {
	h := &hook{came: make(chan struct{}, 100)}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("webhook: %v", err)
		}
		got := map[string]jsonrpc.Raw{}
		for name, raw := range body {
			got[name] = jsonrpc.Raw(raw)
		}
		h.mu.Lock()
		h.bodies, h.heads = append(h.bodies, got), append(h.heads, r.Header.Clone())
		h.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		h.came <- struct{}{}
	}))
	t.Cleanup(web.Close)
	h.url = web.URL
	return h
}

// wait waits for n notifications.
func (h *hook) wait(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-h.came:
		case <-time.After(time.Minute):
			t.Fatalf("%d notifications came, want %d", len(h.bodies), n)
		}
	}
}

func ask(words string) *a2a.SendRequest {
	return &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text(words))}
}

// drive runs the complete conversation with a server of another project.
func drive(t *testing.T, base string, o *a2ahttp.Options, v a2a.Version) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, _, err := a2ahttp.Dial(ctx, base, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	done, err := c.Send(ctx, ask("hello"))
	if err != nil || done.Task == nil || done.Task.Status.State != a2a.StateCompleted || done.Task.Text() != "echo: hello" {
		t.Fatalf("Send = %+v, %v", done, err)
	}
	if got := c.Version(); got != v {
		t.Errorf("the version is %v, want %v", got, v)
	}
	if got, err := c.Send(ctx, ask("say")); err != nil || got.Message == nil || got.Message.Text() != "Hi!" {
		t.Errorf("Send(say) = %+v, %v", got, err)
	}

	var task a2a.Task
	events := 0
	for e, err := range c.Stream(ctx, ask("stream me")) {
		if err != nil {
			t.Fatalf("Stream: %v", err)
		}
		events++
		task.Apply(e)
	}
	if events < 4 || task.Status.State != a2a.StateCompleted || task.Text() != "echo: stream me" {
		t.Errorf("Stream: %d events, %+v", events, task)
	}
	if got, err := c.Task(ctx, &a2a.GetTaskRequest{ID: task.ID}); err != nil || got.Text() != "echo: stream me" {
		t.Errorf("Task = %+v, %v", got, err)
	}
	found := 0
	for _, err := range c.Tasks(ctx, &a2a.ListTasksRequest{PageSize: new(1)}) {
		if err != nil {
			if v == a2a.V10 || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Tasks: %v", err)
			}
			break
		}
		found++
	}
	if v == a2a.V10 && found < 2 {
		t.Errorf("%d tasks in the list", found)
	}

	asked, err := c.Send(ctx, ask("ask"))
	if err != nil || asked.Task.Status.State != a2a.StateInputRequired || asked.Task.Status.Message.Text() != "Which one?" {
		t.Fatalf("Send(ask) = %+v, %v", asked.Task, err)
	}
	more := ask("the blue one")
	more.Message.TaskID, more.Message.ContextID = asked.Task.ID, asked.Task.ContextID
	if got, err := c.Send(ctx, more); err != nil || got.Task.ID != asked.Task.ID || got.Task.Text() != "You said: the blue one" {
		t.Errorf("Send(answer) = %+v, %v", got.Task, err)
	}

	long := ask("wait")
	long.Configuration = &a2a.Configuration{ReturnImmediately: true}
	running, err := c.Send(ctx, long)
	if err != nil || running.Task.Status.State.Rests() {
		t.Fatalf("Send(wait) = %+v, %v", running, err)
	}
	var last a2a.TaskState
	first := true
	for e, err := range c.Subscribe(ctx, running.Task.ID, 0) {
		if err != nil {
			t.Fatalf("Subscribe: %v", err)
		}
		if first {
			first = false
			go func() { _, _ = c.Cancel(ctx, running.Task.ID) }() // the stream reports the result
		}
		if s := e.State(); s != "" {
			last = s
		}
	}
	if last != a2a.StateCanceled {
		t.Errorf("the stream ended with %s", last)
	}

	if _, err := c.Task(ctx, &a2a.GetTaskRequest{ID: "nope"}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Task(nope): %v", err)
	}
	if _, err := c.Cancel(ctx, task.ID); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("Cancel of what is over: %v", err)
	}

	// Both SDKs respond to an array with one error; the client then sends single calls.
	calls := make([]a2a.BatchCall, 3)
	tasks := make([]a2a.Task, len(calls))
	for round := range 2 {
		for i := range calls {
			calls[i] = a2a.BatchCall{Method: a2a.MethodGetTask, Params: &a2a.GetTaskRequest{ID: task.ID}, Result: &tasks[i]}
		}
		if err := c.Batch(ctx, calls); err != nil {
			t.Errorf("Batch %d: %v", round, err)
		}
		for i := range calls {
			if calls[i].Err != nil || tasks[i].ID != task.ID {
				t.Errorf("Batch %d, call %d: %v", round, i, calls[i].Err)
			}
		}
	}

	h := newHook(t)
	push := ask("push me")
	push.Configuration = &a2a.Configuration{Push: &a2a.PushConfig{ID: "c1", URL: h.url, Token: "tok"}}
	if _, err := c.Send(ctx, push); err != nil {
		t.Fatalf("Send with a webhook: %v", err)
	}
	h.wait(t, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.heads[0].Get(a2ahttp.HeaderToken) != "tok" && h.heads[0].Get(a2ahttp.HeaderToken1) != "tok" {
		t.Errorf("no token: %v", h.heads[0])
	}
	if _, old := h.bodies[0]["kind"]; old != (v == a2a.V03) {
		t.Errorf("the webhook of %v got %s", v, h.bodies[0])
	}
}

func TestJavaScriptServer(t *testing.T) {
	t.Run("JSONRPC", func(t *testing.T) {
		t.Parallel()
		drive(t, harness.Server(t, harness.Node(t, "server.mjs"))["url"], nil, a2a.V10)
	})
	t.Run("HTTP+JSON", func(t *testing.T) {
		t.Parallel()
		drive(t, harness.Server(t, harness.Node(t, "server.mjs"))["url"], &a2ahttp.Options{Bindings: []string{a2a.BindingREST}}, a2a.V10)
	})
	t.Run("with 0.3 beside", func(t *testing.T) {
		t.Parallel()
		base := harness.Server(t, harness.Node(t, "server.mjs", "legacy"))["url"]
		drive(t, base, nil, a2a.V10)
		drive(t, base, &a2ahttp.Options{ClientOptions: a2a.ClientOptions{Version: a2a.V03}}, a2a.V03)
	})
}

// goServer starts the program as a server and returns its address.
func goServer(t *testing.T, flags ...string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	// It does not support port 0: another process may take the port, which fails visibly.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := harness.Command(ctx, t, append([]string{harness.GoTool(t, "a2a"), "serve", "--port", port}, flags...))
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	log := new(harness.Output)
	log.ShowIfFailed(t, "a2a serve")
	listening, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		ready := sync.OnceFunc(func() { close(listening) })
		lines := bufio.NewScanner(io.TeeReader(stderr, log))
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "Listening on ") {
				ready()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait() // the test ends it
	})
	select {
	case <-listening:
	case <-read:
		t.Fatal("the server ended")
	case <-time.After(time.Minute):
		t.Fatal("the server did not start")
	}
	return "http://127.0.0.1:" + port
}

func TestGoServer(t *testing.T) {
	for _, one := range []struct {
		name  string
		flags []string
		v     a2a.Version
	}{
		{"JSONRPC", []string{"--transport", "jsonrpc", "--exec", "cat", "--chunk", " "}, a2a.V10},
		{"HTTP+JSON", []string{"--transport", "rest", "--exec", "cat", "--chunk", " "}, a2a.V10},
		{"0.3", []string{"--transport", "jsonrpc", "--exec", "cat", "--chunk", " ", "--protocol", "0.3"}, a2a.V03},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			base := goServer(t, one.flags...)
			c, card, err := a2ahttp.Dial(t.Context(), base, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if card.Name == "" {
				t.Errorf("card %+v", card)
			}
			got, err := c.Send(t.Context(), ask("hello"))
			if err != nil || got.Task == nil || strings.TrimSpace(got.Task.Text()) != "hello" {
				t.Fatalf("Send = %+v, %v", got, err)
			}
			if c.Version() != one.v {
				t.Errorf("the version is %v, want %v", c.Version(), one.v)
			}
			var task a2a.Task
			for e, err := range c.Stream(t.Context(), ask("again")) {
				if err != nil {
					t.Fatalf("Stream: %v", err)
				}
				task.Apply(e)
			}
			if task.Status.State != a2a.StateCompleted || strings.TrimSpace(task.Text()) != "again" {
				t.Errorf("Stream: %+v", task)
			}
			if got, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil || got.ID != task.ID {
				t.Errorf("Task = %+v, %v", got, err)
			}
			if _, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: "nope"}); !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Errorf("Task(nope): %v", err)
			}
			if _, err := c.Cancel(t.Context(), task.ID); !errors.Is(err, a2a.ErrTaskNotCancelable) {
				t.Errorf("Cancel of what is over: %v", err)
			}
			calls := []a2a.BatchCall{{Method: a2a.MethodGetTask, Params: &a2a.GetTaskRequest{ID: task.ID}, Result: new(a2a.Task)}}
			if err := c.Batch(t.Context(), calls); err != nil || calls[0].Err != nil {
				t.Errorf("Batch: %v, %v", err, calls[0].Err)
			}
		})
	}
}

func TestGoClient(t *testing.T) {
	cli := harness.GoTool(t, "a2a")
	for _, transport := range []string{"jsonrpc", "rest"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			site := ours(t)
			// A fixed transport does not fetch the card.
			base := site + map[string]string{"jsonrpc": "/rpc", "rest": "/rest"}[transport]
			run := func(args ...string) (string, error) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				out, err := harness.Command(ctx, t, append([]string{cli, "--transport", transport}, args...)).CombinedOutput()
				return string(out), err
			}
			must := func(args ...string) string {
				t.Helper()
				out, err := run(args...)
				if err != nil {
					t.Fatalf("a2a %s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return out
			}
			task := func(out string) (t0 a2a.Task) {
				t.Helper()
				raw, err := jsonrpc.ParseRaw([]byte(strings.TrimSpace(out)))
				if err == nil {
					err = raw.Decode(&t0)
				}
				if err != nil {
					t.Fatalf("%v in %s", err, out)
				}
				return t0
			}
			if out := must("discover", site); !strings.Contains(out, "parley interop") {
				t.Errorf("discover: %s", out)
			}
			done := task(must("send", "-o", "json", base, "hello"))
			if done.Status.State != a2a.StateCompleted || done.Text() != "echo: hello" {
				t.Errorf("send: %+v", done)
			}
			if out := must("send", base, "say"); !strings.Contains(out, "Hi!") {
				t.Errorf("send say: %s", out)
			}
			if out := must("send", "--stream", base, "stream me"); !strings.Contains(out, "stream me") || !strings.Contains(out, "completed") {
				t.Errorf("send --stream: %s", out)
			}
			if got := task(must("get", "task", "-o", "json", base, done.ID)); got.Text() != "echo: hello" {
				t.Errorf("get: %+v", got)
			}
			if out := must("list", "tasks", base); !strings.Contains(out, done.ID) {
				t.Errorf("list: %s", out)
			}
			asked := task(must("send", "-o", "json", base, "ask"))
			if asked.Status.State != a2a.StateInputRequired {
				t.Errorf("send ask: %+v", asked)
			}
			if got := task(must("send", "-o", "json", "--task", asked.ID, base, "the blue one")); got.Text() != "You said: the blue one" {
				t.Errorf("send --task: %+v", got)
			}
			running := task(must("send", "-o", "json", "--immediate", base, "wait"))
			if running.Status.State.Rests() {
				t.Errorf("send --immediate: %+v", running)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			watch := harness.Command(ctx, t, []string{cli, "--transport", transport, "subscribe", base, running.ID})
			harness.KeepStderr(t, watch)
			events, err := watch.StdoutPipe()
			if err == nil {
				err = watch.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(events)
			first, err := lines.ReadString('\n') // the task exists now
			if err != nil || !strings.Contains(first, running.ID) {
				t.Errorf("subscribe: %q, %v", first, err)
			}
			if got := must("cancel", base, running.ID); !strings.Contains(strings.ToLower(got), "cancel") {
				t.Errorf("cancel: %s", got)
			}
			rest, _ := io.ReadAll(lines)
			if err := watch.Wait(); err != nil || !strings.Contains(string(rest), "canceled") {
				t.Errorf("subscribe: %v, then %q", err, rest)
			}
			if out, err := run("get", "task", base, "nope"); err == nil || !strings.Contains(strings.ToLower(out), "not found") {
				t.Errorf("get nope: %v %s", err, out)
			}
			if out, err := run("cancel", base, done.ID); err == nil {
				t.Errorf("cancel of what is over: %s", out)
			}
		})
	}
}
