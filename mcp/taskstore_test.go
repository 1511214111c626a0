package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// taskStores are all implementations, each with a limit of four tasks.
var taskStores = []struct {
	name string
	open func(t testing.TB) mcp.TaskStore
}{
	{"NewTaskMemory", func(testing.TB) mcp.TaskStore { return mcp.NewTaskMemory(4) }},
	{"NewTaskStore over memory", func(t testing.TB) mcp.TaskStore { return mcp.NewTaskStore(store.NewMemory(store.Limits{}), 4) }},
	{"NewTaskStore over sqlite", func(t testing.TB) mcp.TaskStore { return mcp.NewTaskStore(openSQLite(t, t.TempDir()), 4) }},
}

func openSQLite(t testing.TB, dir string) store.Store {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(dir, "state"), nil)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestTaskStore checks the contract of a TaskStore.
func TestTaskStore(t *testing.T) {
	for _, kind := range taskStores {
		t.Run(kind.name, func(t *testing.T) {
			s := kind.open(t)
			ctx := t.Context()
			now := time.Now().UTC()
			task := func(id string) *mcp.Task {
				return &mcp.Task{ID: id, Status: mcp.TaskWorking, Created: now, Updated: now, TTL: time.Hour, PollInterval: 3 * time.Second}
			}
			ids := func(owner, after string, n int) string {
				all, err := s.List(ctx, owner, after, n)
				if err != nil {
					return err.Error()
				}
				var out []string
				for _, t := range all {
					out = append(out, t.ID)
				}
				return strings.Join(out, " ")
			}
			full := &mcp.Task{ID: "z", Status: mcp.TaskFailed, StatusMessage: "no \"luck\"", Created: now, Updated: now.Add(time.Microsecond), TTL: -1,
				InputRequests: map[string]mcp.InputRequest{"k": {Method: "roots/list", Params: jsonrpc.Raw(`{"a":1e400}`)}},
				Result:        jsonrpc.Raw(`{"content":[],"n":9007199254740993}`),
				Error:         jsonrpc.NewError(-5, "broken").WithData([]int{1})}
			// not in the order of their IDs
			for _, put := range []*mcp.Task{full, task("m"), task("a")} {
				must(t, s.Put(ctx, "ada", put))
			}
			must(t, s.Put(ctx, "bob", task("b")))
			got, err := s.Get(ctx, "ada", "z")
			must(t, err)
			if diff := cmp.Diff(full, got); diff != "" {
				t.Errorf("what was put is not what is there (-put +got):\n%s", diff)
			}
			got.Status = mcp.TaskCompleted
			if again, err := s.Get(ctx, "ada", "z"); err != nil || again.Status != mcp.TaskFailed {
				t.Errorf("after the caller changed its own: %+v, %v", again, err)
			}

			for _, tt := range []struct {
				owner, after string
				n            int
				want         string
			}{
				{"ada", "", 9, "z m a"},
				{"ada", "", 2, "z m"},
				{"ada", "m", 2, "a"},
				{"ada", "a", 2, ""},
				{"bob", "", 9, "b"},
				{"eve", "", 9, ""},
				{"ada", "b", 9, mcp.ErrNoTask.Error()},
				{"ada", "nobody", 9, mcp.ErrNoTask.Error()},
			} {
				if got := ids(tt.owner, tt.after, tt.n); got != tt.want {
					t.Errorf("List(%q, %q, %d) = %q, want %q", tt.owner, tt.after, tt.n, got, tt.want)
				}
			}
			for _, id := range []string{"b", "nobody", "", "a/b", "..", strings.Repeat("x", 999), "\x00\xff"} {
				if _, err := s.Get(ctx, "ada", id); !errors.Is(err, mcp.ErrNoTask) {
					t.Errorf("Get(ada, %q): %v", id, err)
				}
			}
			if err := s.Put(ctx, "bob", task("a")); !errors.Is(err, mcp.ErrNoTask) {
				t.Errorf("put over another's: %v", err)
			}

			must(t, s.Put(ctx, "ada", task("more"))) // replaces z, which is finished
			if got := ids("ada", "", 9); got != "m a more" {
				t.Errorf("after a fifth of four: %s", got)
			}
			if err := s.Put(ctx, "ada", task("most")); err == nil {
				t.Error("a fifth of four running ones was taken")
			}
			changed := task("m")
			changed.Status = mcp.TaskCompleted
			must(t, s.Put(ctx, "ada", changed)) // an existing task needs no room
			if got, err := s.Get(ctx, "ada", "m"); err != nil || got.Status != mcp.TaskCompleted || ids("ada", "", 9) != "m a more" {
				t.Errorf("changed: %+v, %v, %s", got, err, ids("ada", "", 9))
			}
			late := task("late")
			late.Created = now.Add(-2 * time.Hour)
			must(t, s.Put(ctx, "ada", late)) // an expired task needs no room
			if _, err := s.Get(ctx, "ada", "late"); !errors.Is(err, mcp.ErrNoTask) {
				t.Errorf("kept past its time: %v", err)
			}
		})
	}
}

func TestTaskStoreForgets(t *testing.T) {
	for _, kind := range taskStores[:2] {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := kind.open(t)
				for i := range 4 {
					must(t, s.Put(t.Context(), "ada", &mcp.Task{ID: fmt.Sprint(i), Status: mcp.TaskWorking, Created: time.Now(), TTL: time.Duration(i+1) * time.Minute}))
				}
				time.Sleep(2*time.Minute - time.Millisecond)
				if _, err := s.Get(t.Context(), "ada", "1"); err != nil {
					t.Errorf("a moment before its end: %v", err)
				}
				time.Sleep(time.Millisecond)
				if _, err := s.Get(t.Context(), "ada", "1"); !errors.Is(err, mcp.ErrNoTask) {
					t.Errorf("at its end: %v", err)
				}
				must(t, s.Put(t.Context(), "ada", &mcp.Task{ID: "1", Status: mcp.TaskCompleted, Created: time.Now().Add(-2 * time.Minute), TTL: 2 * time.Minute}))
				must(t, s.Put(t.Context(), "ada", &mcp.Task{ID: "new", Created: time.Now(), TTL: -1}))
				must(t, s.Put(t.Context(), "ada", &mcp.Task{ID: "newer", Created: time.Now(), TTL: -1}))
				time.Sleep(1000 * time.Hour)
				if all, err := s.List(t.Context(), "ada", "", 9); err != nil || len(all) != 2 || all[0].ID != "new" || all[1].ID != "newer" {
					t.Errorf("List = %v, %v", all, err)
				}
			})
		})
	}
}

// TestTaskStoreWithoutTime checks that a task with a TTL of zero has expired when it is put: only a
// negative TTL means that a task does not expire.
func TestTaskStoreWithoutTime(t *testing.T) {
	for _, kind := range taskStores[:2] {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := kind.open(t)
				must(t, s.Put(t.Context(), "ada", &mcp.Task{ID: "zero", Status: mcp.TaskWorking, Created: time.Now()}))
				must(t, s.Put(t.Context(), "ada", &mcp.Task{ID: "ever", Status: mcp.TaskWorking, Created: time.Now(), TTL: -1}))
				if _, err := s.Get(t.Context(), "ada", "zero"); !errors.Is(err, mcp.ErrNoTask) {
					t.Errorf("a task with a TTL of zero: %v", err)
				}
				if _, err := s.Get(t.Context(), "ada", "ever"); err != nil {
					t.Errorf("a task with a negative TTL: %v", err)
				}
				if all, err := s.List(t.Context(), "ada", "", 9); err != nil || len(all) != 1 || all[0].ID != "ever" {
					t.Errorf("List = %v, %v", all, err)
				}
			})
		})
	}
}

// TestTaskStoreAtOnce puts, changes and reads tasks concurrently.
func TestTaskStoreAtOnce(t *testing.T) {
	s := mcp.NewTaskStore(openSQLite(t, t.TempDir()), 1000)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			owner := fmt.Sprint("owner ", i%4)
			for n := range 5 {
				task := &mcp.Task{ID: fmt.Sprintf("%d-%d", i, n), Status: mcp.TaskWorking, Created: time.Now(), TTL: time.Hour}
				for _, status := range []mcp.TaskStatus{mcp.TaskWorking, mcp.TaskCompleted} {
					task.Status = status
					if err := s.Put(t.Context(), owner, task); err != nil {
						t.Error(err)
					}
				}
				if got, err := s.Get(t.Context(), owner, task.ID); err != nil || got.Status != mcp.TaskCompleted {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
	for i := range 4 {
		if got, err := s.List(t.Context(), fmt.Sprint("owner ", i), "", 99); err != nil || len(got) != 25 {
			t.Errorf("%d tasks of owner %d, %v", len(got), i, err)
		}
	}
}

// TestTasksSurvive checks that after a power failure, finished tasks still have their results, and
// running tasks are failed with a message that reports it.
func TestTasksSurvive(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		dir := t.TempDir()
		disk := openSQLite(t, dir)
		release := make(chan struct{}, 9)
		o := func(s store.Store) *mcp.ServerOptions {
			return &mcp.ServerOptions{Tasks: mcp.NewTaskStore(s, 100), Principal: func(context.Context) string { return "ada" }}
		}
		c := connect(t, worker(t, o(disk), release, make(chan error, 9)), answering(), v)
		ended := make(map[string]string)
		for _, name := range []string{"slow", "failing", "broken"} {
			if name == "slow" {
				release <- struct{}{}
			}
			var last *mcp.Task
			// the result is read from its task
			_, _ = c.CallTool(t.Context(), name, nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) { last = task }})
			task, err := c.GetTask(t.Context(), last.ID)
			must(t, err)
			if !task.Status.Final() {
				t.Fatalf("%s: %+v", name, task)
			}
			ended[last.ID] = fmt.Sprintf("%s %s %s %v", task.Status, task.StatusMessage, task.Result, task.Error)
		}
		under := openUnder(t, c)

		// The process ends here: later writes do not reach the disk.
		must(t, disk.Close())
		again := openSQLite(t, dir)
		c2 := connect(t, worker(t, o(again), make(chan struct{}), make(chan error, 9)), answering(), v)
		for id, want := range ended {
			task, err := c2.GetTask(t.Context(), id)
			if err != nil {
				t.Errorf("%s: %v", want, err)
				continue
			}
			if got := fmt.Sprintf("%s %s %s %v", task.Status, task.StatusMessage, task.Result, task.Error); got != want {
				t.Errorf("after the restart %s, before %s", got, want)
			}
		}
		task, err := c2.GetTask(t.Context(), under)
		if err != nil || task.Status != mcp.TaskFailed || task.StatusMessage != "The server was stopped during the task." {
			t.Errorf("what was under way: %+v, %v", task, err)
		}
		if v.Modern() && (task.Error == nil || task.Error.Code != jsonrpc.CodeInternalError || !strings.Contains(string(task.Error.Data), "interrupted")) {
			t.Errorf("its error: %+v", task.Error)
		}
	})
}

// openUnder begins a task that does not end.
func openUnder(t *testing.T, c *mcp.Client) string {
	ids := make(chan string, 1)
	var once sync.Once
	go func() {
		// returns when the server is closed
		_, _ = c.CallTool(context.WithoutCancel(t.Context()), "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) {
			once.Do(func() { ids <- task.ID })
		}})
	}()
	return eventually(t, ids)
}

// TestTasksOfSessionsStayApart checks that sessions without a principal, whose numbers are the same
// in every process, cannot see each other's tasks.
func TestTasksOfSessionsStayApart(t *testing.T) {
	disk := store.NewMemory(store.Limits{})
	find := func() (*mcp.Client, chan struct{}) {
		release := make(chan struct{}, 1)
		return connect(t, worker(t, &mcp.ServerOptions{Tasks: mcp.NewTaskStore(disk, 100)}, release, make(chan error, 9)), answering(), mcp.V20251125), release
	}
	c, release := find()
	release <- struct{}{}
	var id string
	_, err := c.CallTool(t.Context(), "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) { id = task.ID }})
	must(t, err)
	if _, err := c.GetTask(t.Context(), id); err != nil {
		t.Error(err)
	}
	c2, _ := find()
	if task, err := c2.GetTask(t.Context(), id); !errors.Is(err, jsonrpc.ErrInvalidParams) {
		t.Errorf("another process has %+v, %v", task, err)
	}
}

// troubled is a store whose disk is sometimes full.
type troubled struct {
	store.Store
	err atomic.Pointer[error]
}

func (s *troubled) fail(err error) { s.err.Store(&err) }

func (s *troubled) Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	if err := s.err.Load(); err != nil && *err != nil {
		return 0, *err
	}
	return s.Store.Put(ctx, key, rev, data, ttl)
}

// unreadable is a store whose values cannot be read.
type unreadable struct{ store.Store }

var errUnreadable = errors.New("the disk does not read")

func (unreadable) Get(context.Context, string) (store.Value, error) {
	return store.Value{}, errUnreadable
}

// TestTaskThatCannotBeRead checks that an error of the store is returned, and is not a task that
// does not exist.
func TestTaskThatCannotBeRead(t *testing.T) {
	tasks := mcp.NewTaskStore(unreadable{store.NewMemory(store.Limits{})}, 2)
	now := time.Now()
	task := &mcp.Task{ID: "t", Status: mcp.TaskCompleted, Created: now, Updated: now, TTL: time.Minute}
	if err := tasks.Put(t.Context(), "ada", task); err != nil {
		t.Fatal(err)
	}
	if got, err := tasks.Get(t.Context(), "ada", "t"); got != nil || !errors.Is(err, errUnreadable) {
		t.Errorf("Get = %+v, %v; want %v", got, err, errUnreadable)
	}
	if got, err := tasks.Get(t.Context(), "bob", "t"); got != nil || !errors.Is(err, mcp.ErrNoTask) {
		t.Errorf("Get for another owner = %+v, %v; want %v", got, err, mcp.ErrNoTask)
	}
}

func TestTasksOnFullDisk(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		disk := &troubled{Store: store.NewMemory(store.Limits{})}
		release := make(chan struct{}, 1)
		c := connect(t, worker(t, &mcp.ServerOptions{Tasks: mcp.NewTaskStore(disk, 2), Principal: func(context.Context) string { return "ada" },
			Report: func(string, error) {}}, release, make(chan error, 9)), answering(), v)
		call := func(on func(*mcp.Task)) (id string, err error) {
			_, err = c.CallTool(t.Context(), "slow", nil, &mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) {
				if id == "" {
					on(task)
				}
				id = task.ID
			}})
			return id, err
		}
		full := &store.Fault{Reason: store.ReasonFull, Err: errors.New("no space left on /secret")}
		is := func(err error, code int64, data string) {
			t.Helper()
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != code || !strings.Contains(string(e.Data), data) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %d with %s", err, code, data)
			}
		}
		disk.fail(full)
		id, err := call(func(*mcp.Task) {})
		if id != "" {
			t.Errorf("a task was told of that is not kept")
		}
		is(err, store.FaultCode, store.ReasonFull)

		disk.fail(nil)
		id, err = call(func(*mcp.Task) { disk.fail(full); release <- struct{}{} })
		is(err, store.FaultCode, store.ReasonFull)
		if task, err := c.GetTask(t.Context(), id); err != nil || task.Status != mcp.TaskFailed {
			t.Errorf("a result that is not kept: %+v, %v", task, err)
		}

		disk.fail(nil)
		id, err = call(func(*mcp.Task) {
			disk.fail(&store.LimitError{What: "bytes of one value", Limit: 1})
			release <- struct{}{}
		})
		is(err, jsonrpc.CodeResponseTooLarge, "response_too_large")
		disk.fail(nil)
		if task, err := c.GetTask(t.Context(), id); err != nil || task.Status != mcp.TaskFailed {
			t.Errorf("a result that is too large: %+v, %v", task, err)
		}
		if _, err = call(func(*mcp.Task) { release <- struct{}{} }); err != nil {
			t.Errorf("two were all, and both have ended: %v", err)
		}
	})
}

// TestTasksOfAServerThatCloses checks that a running task is stored as failed when its server is
// closed.
func TestTasksOfAServerThatCloses(t *testing.T) {
	eachTasks(t, func(t *testing.T, v mcp.Version) {
		tasks := mcp.NewTaskStore(store.NewMemory(store.Limits{}), 100)
		s := worker(t, &mcp.ServerOptions{Tasks: tasks, Principal: func(context.Context) string { return "ada" }, Report: func(string, error) {}},
			make(chan struct{}), make(chan error, 9))
		id := openUnder(t, connect(t, s, answering(), v))
		s.Close()
		if task, err := tasks.Get(t.Context(), "principal ada", id); err != nil || task.Status != mcp.TaskFailed || task.StatusMessage != "The server was stopped during the task." {
			t.Errorf("got %+v, %v", task, err)
		}
	})
}

// TestTaskStoreIsShared checks that an owner that stores much loses its own tasks first, by number
// and by bytes, and never takes the room of others.
func TestTaskStoreIsShared(t *testing.T) {
	limits := &mcp.TaskLimits{Tasks: 100, Bytes: 1 << 20}
	for name, s := range map[string]mcp.TaskStore{
		"memory": mcp.NewTaskMemoryWith(limits),
		"store":  mcp.NewTaskStoreWith(store.NewMemory(store.Limits{}), limits),
		"sqlite": mcp.NewTaskStoreWith(openSQLite(t, t.TempDir()), limits),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			put := func(owner, id string, bytes int) error {
				return s.Put(ctx, owner, &mcp.Task{ID: id, Status: mcp.TaskCompleted, Created: time.Now(), TTL: time.Hour, Result: jsonrpc.Raw(`"` + strings.Repeat("x", bytes) + `"`)})
			}
			count := func(owner string) (n, bytes int) {
				all, err := s.List(ctx, owner, "", 1000)
				must(t, err)
				for _, task := range all {
					bytes += len(task.Result)
				}
				return len(all), bytes
			}
			for i := range 3 {
				must(t, put("bob", fmt.Sprint("b", i), 100))
			}
			for i := range 300 { // too many
				must(t, put("eve", fmt.Sprint("e", i), 10))
			}
			if n, _ := count("eve"); n != 97 {
				t.Errorf("%d tasks of eve, want 97", n)
			}
			for i := range 20 { // too large together
				must(t, put("mallory", fmt.Sprint("m", i), 200<<10))
			}
			if n, bytes := count("mallory"); n < 2 || bytes > 1<<20 {
				t.Errorf("%d tasks of mallory, of %d bytes", n, bytes)
			}
			if err := put("mallory", "huge", 600<<10); !errors.Is(err, store.ErrLimit) {
				t.Errorf("a task of more than half of all: %v", err)
			}
			if n, _ := count("bob"); n != 3 {
				t.Errorf("%d tasks of bob are left", n)
			}
			must(t, put("alice", "a", 100))
			if n, _ := count("alice"); n != 1 {
				t.Error("no room for alice")
			}
			_, eve := count("eve")
			_, mallory := count("mallory")
			if eve+mallory > 1<<20 {
				t.Errorf("%d bytes in all", eve+mallory)
			}
			running := &mcp.Task{ID: "running", Status: mcp.TaskWorking, Created: time.Now(), TTL: time.Hour}
			must(t, s.Put(ctx, "mallory", running))
			for i := range 20 {
				must(t, put("mallory", fmt.Sprint("n", i), 200<<10))
			}
			running.Status, running.Result = mcp.TaskCompleted, jsonrpc.Raw(`"`+strings.Repeat("x", 200<<10)+`"`)
			must(t, s.Put(ctx, "mallory", running)) // replacing the task makes room for its result
			if got, err := s.Get(ctx, "mallory", "running"); err != nil || len(got.Result) != len(running.Result) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRunningTasksAreShared checks that one client cannot take all places for running tasks,
// neither by number nor by the bytes of its requests.
func TestRunningTasksAreShared(t *testing.T) {
	for name, fill := range map[string]string{"many": ``, "large": strings.Repeat("x", 1<<20)} {
		t.Run(name, func(t *testing.T) {
			s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
			mcp.AddTool(s, mcp.Tool{Name: "wait", Task: mcp.TaskRequired}, func(ctx context.Context, _ *mcp.Request, _ struct{ Fill string }) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			})
			mallory, end := pipe(t, s)
			defer end()
			bob := connectPlain(t, s)
			tasks := func(c *mcp.Client) (taken int) {
				for range 2000 {
					err := c.Call(t.Context(), mcp.MethodToolsCall, map[string]any{"name": "wait", "arguments": map[string]string{"fill": fill}, "task": map[string]any{}}, nil)
					if err == nil {
						taken++
						continue
					}
					if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeBusy {
						t.Fatal(err)
					}
					return taken
				}
				return taken
			}
			m, err := mcp.Connect(t.Context(), mallory, mcp.Implementation{Name: "m", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}})
			must(t, err)
			defer m.Close()
			first := tasks(m)
			if most := map[string]int{"many": 256, "large": 8}[name]; first > most || first < most/2 {
				t.Errorf("one client has %d running tasks", first)
			}
			if second := tasks(bob); second < first/2 {
				t.Errorf("another has %d, after %d", second, first)
			}
		})
	}
}

// connectPlain is like connect without validating the messages.
func connectPlain(t *testing.T, s *mcp.Server) *mcp.Client {
	t.Helper()
	here, end := pipe(t, s)
	c, err := mcp.Connect(t.Context(), here, mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}})
	must(t, err)
	t.Cleanup(func() { c.Close(); end() })
	return c
}
