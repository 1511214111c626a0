package demo

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// TestTasksOutliveTheProcess: what has ended is there as it was, and what was under way has failed, each for its owner alone.
func TestTasksOutliveTheProcess(t *testing.T) {
	dir, begun := t.TempDir(), time.Now().UTC().Truncate(time.Second)
	open := func() (mcp.TaskStore, func()) {
		values, err := sqlite.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := Tasks(t.Context(), values)
		if err != nil {
			t.Fatal(err)
		}
		return tasks, func() { _ = values.Close() }
	}
	done := &mcp.Task{ID: "b", Status: mcp.TaskCompleted, Created: begun, Updated: begun, TTL: time.Hour, PollInterval: time.Second, Result: jsonrpc.Raw(`{"content":[]}`)}
	failed := &mcp.Task{ID: "a", Status: mcp.TaskFailed, Created: begun.Add(time.Second), Updated: begun, TTL: -1, Error: jsonrpc.NewError(-7, "burnt")}
	asking := &mcp.Task{ID: "c", Status: mcp.TaskInputRequired, Created: begun.Add(2 * time.Second), TTL: time.Hour,
		InputRequests: map[string]mcp.InputRequest{"q": {Method: mcp.MethodElicit, Params: jsonrpc.Raw(`{}`)}}}
	old := &mcp.Task{ID: "d", Status: mcp.TaskCompleted, Created: begun.Add(-time.Hour), TTL: time.Minute, Result: jsonrpc.Raw(`{}`)}
	tasks, end := open()
	for _, task := range []*mcp.Task{done, failed, asking, old} {
		if err := tasks.Put(t.Context(), "ada/b", task); err != nil {
			t.Fatal(err)
		}
	}
	end()

	tasks, end = open()
	defer end()
	list, err := tasks.List(t.Context(), "ada/b", "", 10)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d tasks, %v; want 3", len(list), err)
	}
	if diff := cmp.Diff([]*mcp.Task{done, failed}, list[:2]); diff != "" {
		t.Errorf("what had ended (-want +got):\n%s", diff)
	}
	if c := list[2]; c.ID != "c" || c.Status != mcp.TaskFailed || c.Error == nil || c.InputRequests != nil {
		t.Errorf("what was under way: %+v", c)
	}
	if _, err := tasks.Get(t.Context(), "eve", "a"); !errors.Is(err, mcp.ErrNoTask) {
		t.Errorf("somebody else's task: %v", err)
	}
}
