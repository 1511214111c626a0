package demo

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store"
)

// maxTasks is how many tasks are kept.
const maxTasks = 10_000

// keptTasks is a mcp.TaskStore that is read from a store once and written to it with each change.
type keptTasks struct {
	mcp.TaskStore // what is there, in memory
	values        store.Values
}

// A keptTask is a task as it is kept. Durations are in nanoseconds: JSON has no form for them.
type keptTask struct {
	Owner         string                      `json:"owner"`
	ID            string                      `json:"id"`
	Status        mcp.TaskStatus              `json:"status"`
	StatusMessage string                      `json:"statusMessage,omitzero"`
	Created       time.Time                   `json:"created"`
	Updated       time.Time                   `json:"updated"`
	TTL           int64                       `json:"ttl"`
	Poll          int64                       `json:"poll,omitzero"`
	Inputs        map[string]mcp.InputRequest `json:"inputs,omitzero"`
	Result        jsonrpc.Raw                 `json:"result,omitzero"`
	Error         *jsonrpc.Error              `json:"error,omitzero"`
}

func keep(owner string, t *mcp.Task) *keptTask {
	return &keptTask{owner, t.ID, t.Status, t.StatusMessage, t.Created, t.Updated, int64(t.TTL), int64(t.PollInterval), t.InputRequests, t.Result, t.Error}
}

func (k *keptTask) task() *mcp.Task {
	return &mcp.Task{ID: k.ID, Status: k.Status, StatusMessage: k.StatusMessage, Created: k.Created, Updated: k.Updated,
		TTL: time.Duration(k.TTL), PollInterval: time.Duration(k.Poll), InputRequests: k.Inputs, Result: k.Result, Error: k.Error}
}

// Tasks makes a TaskStore that outlives the process. What was under way at its end has failed.
func Tasks(ctx context.Context, values store.Values) (mcp.TaskStore, error) {
	k := &keptTasks{TaskStore: mcp.NewTaskMemory(maxTasks), values: values}
	var all []keptTask
	for after := ""; ; {
		page, err := values.List(ctx, taskPrefix, after, 100)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, v := range page {
			var one keptTask
			if err := json.Unmarshal(v.Data, &one); err != nil {
				return nil, fmt.Errorf("a task that was kept, %s: %w", v.Key, err)
			}
			all = append(all, one)
			after = v.Key
		}
	}
	slices.SortStableFunc(all, func(a, b keptTask) int { return a.Created.Compare(b.Created) })
	for _, one := range all {
		t := one.task()
		var err error
		switch t.Status {
		case mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled:
			err = k.TaskStore.Put(ctx, one.Owner, t)
		default:
			t.Status, t.StatusMessage, t.InputRequests = mcp.TaskFailed, "The server was restarted.", nil
			t.Error = jsonrpc.NewError(jsonrpc.CodeInternalError, t.StatusMessage)
			err = k.Put(ctx, one.Owner, t)
		}
		if err != nil {
			return nil, err
		}
	}
	return k, nil
}

const taskPrefix = "mcp/tasks/"

// Put implements mcp.TaskStore.
func (k *keptTasks) Put(ctx context.Context, owner string, t *mcp.Task) error {
	if err := k.TaskStore.Put(ctx, owner, t); err != nil {
		return err
	}
	text, err := json.Marshal(keep(owner, t))
	if err != nil {
		return err
	}
	left := time.Duration(0) // for ever
	if t.TTL >= 0 {
		if left = time.Until(t.Created.Add(t.TTL)); left <= 0 {
			left = time.Millisecond // it is over, and may go
		}
	}
	_, err = k.values.Put(ctx, taskPrefix+url.PathEscape(owner)+"/"+url.PathEscape(t.ID), store.Any, text, left)
	return err
}
