package mcp_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// worker returns a server with tools that become tasks.
func worker(t testing.TB, o *mcp.ServerOptions, release <-chan struct{}, ended chan<- error) *mcp.Server {
	if o == nil {
		o = &mcp.ServerOptions{}
	}
	o.TaskPoll = 10 * time.Millisecond
	s := mcp.NewServer(mcp.Implementation{Name: "worker", Version: "1"}, o)
	mcp.AddTool(s, mcp.Tool{Name: "slow", Task: mcp.TaskOptional}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		if err := r.Progress(ctx, 1, 2, "not for tasks"); err != nil && ctx.Err() == nil {
			return "", err
		} // a task may be cancelled before its function starts
		select {
		case <-release:
			return "done", nil
		case <-ctx.Done():
			ended <- context.Cause(ctx)
			return "", context.Cause(ctx)
		}
	})
	mcp.AddTool(s, mcp.Tool{Name: "failing", Task: mcp.TaskRequired}, func(context.Context, *mcp.Request, struct{}) (string, error) {
		return "", mcp.Errorf("no luck")
	})
	mcp.AddTool(s, mcp.Tool{Name: "broken", Task: mcp.TaskOptional}, func(context.Context, *mcp.Request, struct{}) (string, error) {
		return "", jsonrpc.NewError(-5, "broken")
	})
	mcp.AddTool(s, mcp.Tool{Name: "panics", Task: mcp.TaskOptional}, func(context.Context, *mcp.Request, struct{}) (string, error) {
		panic("secret")
	})
	mcp.AddTool(s, mcp.Tool{Name: "asks", Task: mcp.TaskOptional}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		for range 2 {
			if _, err := r.Roots(ctx, "where"); err != nil {
				return "", err
			}
		}
		a, err := r.Ask(ctx, mcp.Question{Key: "where", Roots: true}, mcp.Question{Key: "sure", Elicit: &mcp.Elicitation{Message: "Sure?"}})
		if err != nil {
			return "", err
		}
		return a["where"].Roots[0].URI + " " + a["sure"].Elicit.Action, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "later", Task: mcp.TaskOptional, TaskLate: true}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		roots, err := r.Roots(ctx, "where") // a question of the call itself
		if err != nil {
			return "", err
		}
		if err := r.StartTask(ctx); err != nil {
			return "", err
		}
		select {
		case <-release:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		return "later in " + roots[0].URI, nil
	})
	return s
}

var taskVersions = []mcp.Version{mcp.V20251125, mcp.V20260728}

func eachTasks(t *testing.T, f func(t *testing.T, v mcp.Version)) {
	for _, v := range taskVersions {
		t.Run(v.String(), func(t *testing.T) { f(t, v) })
	}
}

func TestTasks(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		release := make(chan struct{}, 2)
		s := worker(t, nil, release, make(chan error, 9))
		c := connect(t, s, answering(), v)
		var states []mcp.TaskStatus
		o := &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) {
			if states = append(states, task.Status); len(states) == 1 {
				release <- struct{}{}
			}
		}}
		for _, name := range []string{"slow", "later"} {
			states = nil
			got, err := c.CallTool(t.Context(), name, nil, o)
			if err != nil {
				t.Fatal(name, err)
			}
			if !strings.Contains("done later in file:///home", got.Text()) || got.Text() == "" || states == nil || states[0] != mcp.TaskWorking {
				t.Errorf("%s: %+v, %v", name, got, states)
			}
		}
		got, err := c.CallTool(t.Context(), "failing", nil, &mcp.CallOptions{TaskTTL: time.Minute})
		if err != nil || !got.IsError || got.Text() != "no luck" {
			t.Errorf("failing: %+v, %v", got, err)
		}
		for name, code := range map[string]int64{"broken": -5, "panics": jsonrpc.CodeInternalError} {
			_, err := c.CallTool(t.Context(), name, nil, &mcp.CallOptions{TaskTTL: time.Minute})
			var e *jsonrpc.Error
			if !errors.As(err, &e) || e.Code != code || strings.Contains(e.Message, "secret") {
				t.Errorf("%s: %v", name, err)
			}
		}
		got, err = c.CallTool(t.Context(), "asks", nil, &mcp.CallOptions{TaskTTL: time.Minute})
		if err != nil || got.Text() != "file:///home accept" {
			t.Errorf("asks: %+v, %v", got, err)
		}
	})
}

func TestTaskIsNotForced(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		release := make(chan struct{}, 1)
		release <- struct{}{}
		c := connect(t, worker(t, nil, release, make(chan error, 9)), mcp.ClientOptions{NoTasks: true}, v)
		got, err := c.CallTool(t.Context(), "slow", nil, nil)
		if err != nil || got.Text() != "done" {
			t.Errorf("an optional task: %+v, %v", got, err)
		}
		_, err = c.CallTool(t.Context(), "failing", nil, nil)
		want := jsonrpc.ErrMethodNotFound
		if v.Modern() {
			want = mcp.ErrMissingCapability
		}
		if !errors.Is(err, want) {
			t.Errorf("a required task: %v, want %v", err, want)
		}
	})
}

func TestTaskEndsWithItsCaller(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		ended := make(chan error, 1)
		c := connect(t, worker(t, nil, make(chan struct{}), ended), answering(), v)
		ctx, cancel := context.WithCancel(t.Context())
		var id string
		_, err := c.CallTool(ctx, "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) { id = task.ID; cancel() }})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		_ = eventually(t, ended) // any cause
		task, err := c.GetTask(t.Context(), id)
		if err != nil || task.Status != mcp.TaskCancelled {
			t.Errorf("task %+v, %v", task, err)
		}
		err = c.CancelTask(t.Context(), id)
		if v.Modern() != (err == nil) { // idempotent in the extension, an error in the core
			t.Errorf("cancelled again: %v", err)
		}
		if _, err := c.GetTask(t.Context(), "nobody"); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("an unknown task: %v", err)
		}
	})
}

func TestTaskBelongsToItsCaller(t *testing.T) {
	who := "ada"
	s := worker(t, &mcp.ServerOptions{Principal: func(context.Context) string { return who }}, make(chan struct{}), make(chan error, 1))
	c := connect(t, s, mcp.ClientOptions{}, mcp.V20260728)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.CallTool(ctx, "slow", nil, &mcp.CallOptions{OnTask: func(task *mcp.Task) {
		who = "bob"
		if _, err := c.GetTask(t.Context(), task.ID); !errors.Is(err, jsonrpc.ErrInvalidParams) {
			t.Errorf("another's task: %v", err)
		}
		who = "ada"
		cancel()
	}})
	if err == nil {
		t.Error("no error")
	}
}

func TestTaskStatusIsTold(t *testing.T) {
	release := make(chan struct{}, 1)
	s := worker(t, nil, release, make(chan error, 1))
	c := connect(t, s, mcp.ClientOptions{}, mcp.V20260728)
	heard := make(chan *mcp.Task, 1)
	_, err := c.CallTool(t.Context(), "slow", nil, &mcp.CallOptions{OnTask: func(task *mcp.Task) {
		if task.Status != mcp.TaskWorking {
			return
		}
		err := c.Listen(t.Context(), mcp.Filter{TaskIDs: []string{task.ID, "nobody"}}, func(ch mcp.Change) error {
			if ch.Method == mcp.NotifyAcknowledged {
				release <- struct{}{}
				return nil
			}
			if ch.Task.Status == mcp.TaskWorking { // its progress may arrive first
				return nil
			}
			heard <- ch.Task
			return errEnough
		})
		if !errors.Is(err, errEnough) {
			t.Error(err)
		}
	}})
	must(t, err)
	if task := eventually(t, heard); task.Status != mcp.TaskCompleted || task.Result == nil {
		t.Errorf("heard %+v", task)
	}
}

// TestStateIsSealed checks that encrypted state is rejected if it was changed, belongs to another
// request, or has expired.
func TestStateIsSealed(t *testing.T) {
	s := calculator(nil)
	mcp.AddTool(s, mcp.Tool{Name: "confirm"}, func(ctx context.Context, r *mcp.Request, _ struct {
		What string `json:"what"`
	}) (string, error) {
		n, err := mcp.Once(ctx, r, "n", func(context.Context) (int, error) { return 42, nil })
		if err != nil {
			return "", err
		}
		if _, err := r.Roots(ctx, "where"); err != nil {
			return "", err
		}
		if n != 42 {
			return "", mcp.Errorf("n is %d", n)
		}
		return "ok", nil
	})
	var a jsonrpc.Answerer
	s.Configure(&a, s)
	t.Cleanup(s.Close)
	call := func(what, more string) string {
		out, _ := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"confirm","arguments":{"what":"`+what+`"},`+more+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}`), &jsonrpc.Exchange{})
		return string(out)
	}
	first := call("a", "")
	_, rest, ok := strings.Cut(first, `"requestState":"`)
	state, _, _ := strings.Cut(rest, `"`)
	if !ok || !strings.Contains(first, `"resultType":"input_required"`) {
		t.Fatal(first)
	}
	answers := `"inputResponses":{"where":{"roots":[]},"more":{}},`
	with := func(state string) string { return answers + `"requestState":"` + state + `",` }
	if got := call("a", with(state)); !strings.Contains(got, `"text":"ok"`) {
		t.Errorf("the right state: %s", got)
	}
	flipped := []byte(state)
	flipped[len(flipped)/2] ^= 1
	for what, got := range map[string]string{
		"a changed state":      call("a", with(string(flipped))),
		"a cut state":          call("a", with(state[:20])),
		"an invented state":    call("a", with("xyz")),
		"an empty state":       call("a", with("")),
		"another call's state": call("b", with(state)),
		"a number":             call("a", answers+`"requestState":7,`),
	} {
		if !strings.Contains(got, `"code":-32602`) {
			t.Errorf("%s: %s", what, got)
		}
	}
	for what, got := range map[string]string{
		"no answer":         call("a", `"inputResponses":{},"requestState":"`+state+`",`),
		"a wrong key":       call("a", `"inputResponses":{"whither":{"roots":[]}},"requestState":"`+state+`",`),
		"a wrong answer":    call("a", `"inputResponses":{"where":{"paths":[]}},"requestState":"`+state+`",`),
		"answers, no state": call("a", `"inputResponses":{"where":3},`),
	} {
		if !strings.Contains(got, `"resultType":"input_required"`) {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// TestTasksEndWithTheirSession checks that the tasks of a session without a principal are cancelled
// when the session is closed, because no one could access them.
func TestTasksEndWithTheirSession(t *testing.T) {
	ended := make(chan error, 1)
	s := worker(t, nil, make(chan struct{}), ended)
	here, stop := pipe(t, s)
	c, err := mcp.Connect(t.Context(), here, mcp.Implementation{Name: "t", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}})
	must(t, err)
	defer c.Close()
	_, err = c.CallTool(t.Context(), "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(*mcp.Task) { go here.Close() }})
	if err == nil {
		t.Error("no error")
	}
	if err := eventually(t, ended); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("cause %v", err)
	}
	stop()
}

// TestAbandonedQuestion checks that a question that a task no longer waits for is taken back: the
// client must not ask its user, and the task works again.
func TestAbandonedQuestion(t *testing.T) {
	release, gaveUp := make(chan struct{}), make(chan error, 1)
	s := worker(t, nil, release, make(chan error, 9))
	mcp.AddTool(s, mcp.Tool{Name: "impatient", Task: mcp.TaskRequired}, func(ctx context.Context, r *mcp.Request, _ struct{}) (string, error) {
		own, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, err := r.Elicit(own, "sure", &mcp.Elicitation{Message: "Sure?"})
		gaveUp <- err
		<-release
		return "done without an answer", nil
	})
	o := answering()
	o.Elicit = func(ctx context.Context, _ *mcp.Elicitation) (*mcp.ElicitResult, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return &mcp.ElicitResult{Action: mcp.ActionCancel}, nil
	}
	c := connect(t, s, o, mcp.V20260728)
	ids, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		got, err := c.CallTool(t.Context(), "impatient", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) {
			select {
			case ids <- task.ID:
			default:
			}
		}})
		if err == nil && got.Text() != "done without an answer" {
			err = errors.New(got.Text())
		}
		ended <- err
	}()
	if err := eventually(t, gaveUp); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the question ended with %v", err)
	}
	task, err := c.GetTask(t.Context(), eventually(t, ids))
	if err != nil || task.Status != mcp.TaskWorking || len(task.InputRequests) != 0 {
		t.Errorf("the task is %+v, %v; want working, without a question", task, err)
	}
	close(release)
	if err := eventually(t, ended); err != nil {
		t.Error(err)
	}
}

// A brittleTasks is a store of tasks that panics while it is broken.
type brittleTasks struct {
	mcp.TaskStore
	broken atomic.Bool
}

func (s *brittleTasks) Put(ctx context.Context, owner string, task *mcp.Task) error {
	if s.broken.Load() {
		panic("in a store")
	}
	return s.TaskStore.Put(ctx, owner, task)
}

// TestATaskStoreThatPanics checks that a task ends if its store panics, and that requests about it
// get a response.
func TestATaskStoreThatPanics(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		release := make(chan struct{}, 1)
		kept := &brittleTasks{TaskStore: mcp.NewTaskMemory(100)}
		s := worker(t, &mcp.ServerOptions{Tasks: kept, Report: func(string, error) {}}, release, make(chan error, 9))
		c := connect(t, s, answering(), v)
		id := ""
		got, err := c.CallTool(t.Context(), "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) {
			if id == "" {
				id = task.ID
				kept.broken.Store(true)
				release <- struct{}{}
			}
		}})
		if err == nil {
			t.Errorf("a result that could not be stored: %+v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _ = c.CancelTask(ctx, id); ctx.Err() != nil { // the task is over
			t.Error("tasks/cancel gets no response")
		}
		if _, err := c.CallTool(ctx, "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute}); err == nil {
			t.Error("a task that could not be stored began")
		}
		kept.broken.Store(false)
		release <- struct{}{}
		if got, err := c.CallTool(ctx, "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute}); err != nil || got.Text() != "done" {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
	})
}
