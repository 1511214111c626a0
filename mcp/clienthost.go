package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A server of 2025-11-25 may send a request for the user or the model as a task (MCP 2025-11-25,
// Tasks): it receives a response at once and fetches the result later. This file implements these
// client-side tasks.

// Limits of client-side tasks.
const (
	// concurrent tasks; the oldest finished task makes room, otherwise the request is rejected
	maxHosted = 100
	hostedTTL = time.Hour // the maximum time to live
	hostPoll  = 500 * time.Millisecond
)

// hostedTasks are the requests that a client answers as tasks.
type hostedTasks struct {
	mu      sync.Mutex // guards the fields below
	byID    map[string]*hostedTask
	ctx     context.Context // ends with the conversation
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // Add only with mu held and ctx not done
}

// A hostedTask is one request that runs as a task.
type hostedTask struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the task is finished

	// guarded by hostedTasks.mu
	task   Task
	result any
	err    error
}

func (h *hostedTasks) init() {
	h.byID = map[string]*hostedTask{}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
}

// end cancels all tasks.
func (h *hostedTasks) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel(jsonrpc.ErrClosed)
}

// asTask runs a request as a task, if the server requests that and the client supports it.
func (c *Client) asTask(ctx context.Context, req *jsonrpc.Request) (any, error) {
	text := lastMember(req.Params, "task")
	if !c.opts.HostTasks || !c.Version().HasCoreTasks() || req.Method == MethodRootsList || !isObject(text) {
		return c.answer(ctx, req.Method, req.Params)
	}
	var in TaskMetadata
	if err := text.Decode(&in); err != nil {
		return nil, invalidParams("task is malformed")
	}
	ttl := hostedTTL
	if in.TTL != nil && *in.TTL >= 0 && *in.TTL < ttl.Milliseconds() {
		ttl = time.Duration(*in.TTL) * time.Millisecond
	}
	task, err := c.hosted.start(ctx, ttl, req.Clone(), c.answer)
	if err != nil {
		return nil, err
	}
	return struct {
		Task coreTask `json:"task"`
	}{task}, nil
}

// start runs answer for a request, on a goroutine that Client.Close waits for.
func (h *hostedTasks) start(ctx context.Context, ttl time.Duration, req *jsonrpc.Request,
	answer func(context.Context, string, jsonrpc.Raw) (any, error)) (coreTask, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return coreTask{}, jsonrpc.ErrClosed
	}
	h.prune(time.Now())
	if len(h.byID) >= maxHosted {
		return coreTask{}, &jsonrpc.Error{Code: jsonrpc.CodeBusy, Message: "Too many tasks"}
	}
	// values of ctx, such as a trace, remain available
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	now := time.Now()
	t := &hostedTask{cancel: cancel, done: make(chan struct{}),
		task: Task{ID: newID(), Status: TaskWorking, Created: now, Updated: now, TTL: ttl, PollInterval: hostPoll}}
	h.byID[t.task.ID] = t
	stop := context.AfterFunc(h.ctx, func() { cancel(jsonrpc.ErrClosed) })
	h.running.Go(func() {
		defer stop()
		defer cancel(nil)
		result, err := answer(own, req.Method, req.Params)
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case t.task.Status.Final(): // it was cancelled
			return
		case err != nil:
			t.task.Status = TaskFailed
		default:
			t.task.Status = TaskCompleted
		}
		t.result, t.err, t.task.Updated = result, err, time.Now()
		close(t.done)
	})
	return t.task.core(), nil
}

// prune removes expired tasks and, if there are too many, the oldest finished task. The caller
// holds the lock.
func (h *hostedTasks) prune(now time.Time) {
	var oldest *hostedTask
	for id, t := range h.byID {
		if now.After(t.task.Created.Add(t.task.TTL)) {
			t.cancel(errTaskExpired)
			delete(h.byID, id)
			continue
		}
		if t.task.Status.Final() && (oldest == nil || t.task.Created.Before(oldest.task.Created)) {
			oldest = t
		}
	}
	if oldest != nil && len(h.byID) >= maxHosted {
		delete(h.byID, oldest.task.ID)
	}
}

// handle answers the task methods.
func (h *hostedTasks) handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	h.mu.Lock()
	h.prune(time.Now())
	if req.Method == MethodTasksList {
		defer h.mu.Unlock()
		list := struct {
			Tasks []coreTask `json:"tasks"`
		}{[]coreTask{}}
		for _, t := range h.byID {
			list.Tasks = append(list.Tasks, t.task.core())
		}
		slices.SortFunc(list.Tasks, func(a, b coreTask) int { return a.CreatedAt.Compare(b.CreatedAt) })
		return list, nil
	}
	id, _ := textOf(lastMember(req.Params, "taskId"))
	t := h.byID[id]
	if t == nil {
		h.mu.Unlock()
		return nil, invalidParams("unknown task")
	}
	switch req.Method {
	case MethodTasksGet:
		defer h.mu.Unlock()
		return t.task.core(), nil
	case MethodTasksCancel:
		defer h.mu.Unlock()
		if t.task.Status.Final() {
			return nil, invalidParams("the task has already ended")
		}
		t.task.Status, t.task.Updated = TaskCancelled, time.Now()
		t.cancel(errTaskCancelled)
		close(t.done)
		return t.task.core(), nil
	}
	h.mu.Unlock()
	select { // tasks/result
	case <-t.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case t.err != nil:
		return nil, t.err
	case t.result == nil:
		return nil, invalidParams("the task was cancelled")
	}
	return relatedResult(t.result, id)
}

// relatedResult returns a copy of result with the task ID in its _meta.
func relatedResult(result any, id string) (any, error) {
	switch r := result.(type) {
	case *SamplingResult:
		c := *r
		c.Meta = r.Meta.With(MetaRelatedTask, taskParams{id})
		return &c, nil
	case *ElicitResult:
		c := *r
		c.Meta = r.Meta.With(MetaRelatedTask, taskParams{id})
		return &c, nil
	}
	return nil, errors.New("mcp: a task with an unexpected kind of result")
}
