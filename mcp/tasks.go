package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// hasExtension reports whether a client declared an extension.
func hasExtension(c *ClientCapabilities, name string) bool {
	if c == nil {
		return false
	}
	_, ok := c.Extensions[name]
	return ok
}

// needsExtension returns the error response for a client that did not declare a required extension.
func needsExtension(name string) error {
	return (&CapabilityError{ClientCapabilities{Extensions: map[string]Settings{name: {}}}}).answer()
}

// A lateTask lets a handler turn its call into a task.
type lateTask struct {
	ttl     time.Duration
	end     context.CancelCauseFunc
	started chan *runningTask // holds one value
}

// callAsTask runs a tool that may become a task.
func (s *Server) callAsTask(ctx context.Context, r *Request, t *tool) (any, error) {
	ttl := s.opts.TaskTTL
	able := false
	if r.version.Modern() {
		able = hasExtension(r.capabilities, ExtensionTasks)
		if !able && t.Task == TaskRequired {
			return nil, needsExtension(ExtensionTasks)
		}
	} else if r.version.HasCoreTasks() && s.tasks.offered.Load() && r.session != nil {
		able = isObject(r.p.task)
		switch {
		case able && t.Task == TaskForbidden, !able && t.Task == TaskRequired:
			return nil, jsonrpc.ErrMethodNotFound // MCP 2025-11-25, Tasks, Tool-Level Negotiation
		case able:
			var in TaskMetadata
			if err := r.p.task.Decode(&in); err != nil {
				return nil, invalidParams("task is malformed")
			}
			if in.TTL != nil && *in.TTL >= 0 {
				ttl = min(ttl, time.Duration(min(*in.TTL, int64(ttl/time.Millisecond)))*time.Millisecond)
			}
		}
	} else if t.Task == TaskRequired {
		return nil, jsonrpc.ErrMethodNotFound
	}
	if !able || t.Task == TaskForbidden {
		return s.runTool(ctx, r, t)
	}

	r, err := r.detach()
	if err != nil {
		return nil, err
	}
	own, end := context.WithCancelCause(context.WithoutCancel(ctx))
	r.live = own
	r.late = &lateTask{ttl: ttl, end: end, started: make(chan *runningTask, 1)}
	if !t.TaskLate {
		if err := r.StartTask(ctx); err != nil {
			end(err)
			return nil, err
		}
	}
	return s.await(ctx, own, r, t)
}

// detach returns a copy of a request that may outlive its response.
func (r *Request) detach() (*Request, error) {
	c := &Request{Method: r.Method, Name: r.Name, server: r.server, session: r.session, rpc: r.rpc.Clone(), version: r.version,
		capabilities: r.capabilities, level: r.level, memory: r.memory, asked: r.asked}
	c.p.read(c.rpc.Params)
	if isObject(c.p.arguments) {
		c.Arguments = c.p.arguments
	}
	return c, nil
}

// await runs the handler on its own goroutine, and returns its result or the task that the call
// became.
func (s *Server) await(ctx, own context.Context, r *Request, t *tool) (any, error) {
	late := r.late
	type outcome struct {
		result *ToolResult
		err    error
	}
	returned := make(chan outcome, 1)
	s.tasks.serving.Add(1)
	go func() {
		defer s.tasks.serving.Done()
		defer late.end(nil)
		stop := context.AfterFunc(s.tasks.ctx, func() { late.end(context.Cause(s.tasks.ctx)) })
		defer stop()
		defer rescue.Catch(s.report, func(error) { // of a TaskStore
			if task := r.task.Load(); task != nil {
				task.over()
				return
			}
			returned <- outcome{nil, jsonrpc.ErrInternal}
		})
		result, err := s.runRecovered(own, r, t)
		if task := r.task.Load(); task != nil {
			task.finish(result, err)
			task.over()
			return
		}
		returned <- outcome{result, err}
	}()
	stop := context.AfterFunc(ctx, func() {
		if r.task.Load() == nil {
			late.end(context.Cause(ctx))
		}
	})
	defer stop()
	select {
	case task := <-late.started:
		return s.createdTask(r, task)
	case o := <-returned:
		if ask, ok := errors.AsType[*questions](o.err); ok && r.version.Modern() {
			return s.inputRequired(ctx, r, ask)
		}
		if o.err != nil {
			return nil, o.err
		}
		return o.result, nil
	}
}

// runRecovered is runTool with a recover, for a goroutine where nothing else recovers.
func (s *Server) runRecovered(ctx context.Context, r *Request, t *tool) (result *ToolResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.report(jsonrpc.ReportPanic, &jsonrpc.PanicError{Method: r.Name, Value: v})
			result, err = nil, jsonrpc.ErrInternal
		}
	}()
	return s.runTool(ctx, r, t)
}

// StartTask turns the call into a task from this point, if the tool allows it and the client
// supports it. Otherwise, or if the call is already a task, it changes nothing. The client receives
// the task as its response, and the handler continues: what it returns is the result of the task.
// In the modern era, the handler must ask all questions of the call itself before; later questions
// wait in the task.
func (r *Request) StartTask(ctx context.Context) error {
	if r.late == nil || r.task.Load() != nil {
		return nil
	}
	t, err := r.server.tasks.begin(ctx, r, r.late.ttl, r.late.end)
	if err != nil {
		return err
	}
	r.task.Store(t)
	r.late.started <- t
	return nil
}

var errTaskExpired = errors.New("mcp: the task has timed out")

// stop cancels a task and its handler.
func (t *runningTask) stop(cause error) bool {
	changed := t.change(func(task *Task) {
		task.Status, task.InputRequests = TaskCancelled, nil
		task.StatusMessage = "The task was cancelled."
	})
	if changed {
		t.cancel(cause)
	}
	return changed
}

// createdTask returns the result of a call that became a task.
func (s *Server) createdTask(r *Request, t *runningTask) (any, error) {
	task := &t.born // the task may be finished by now; the response still has its initial state
	if t.ext {
		return &modernResult{s: s, body: mustEncode(task.ext(false)), kind: ResultTask}, nil
	}
	return struct {
		Task coreTask `json:"task"`
	}{task.core()}, nil
}

// readTaskID returns the task ID in a request.
func (s *Server) readTaskID(r *Request) (string, error) {
	id, ok := textOf(lastMember(r.rpc.Params, "taskId"))
	if !ok || id == "" {
		return "", invalidParams("taskId must be a string")
	}
	return id, nil
}

// taskOf returns the task that a request names, as get does.
func (s *Server) taskOf(ctx context.Context, r *Request) (*runningTask, *Task, error) {
	id, err := s.readTaskID(r)
	if err != nil {
		return nil, nil, err
	}
	running, task, err := s.tasks.get(ctx, r.owner(ctx), id)
	if errors.Is(err, ErrNoTask) {
		return nil, nil, invalidParams("unknown task")
	}
	return running, task, err
}

// handleExtension handles the methods of the extensions.
func (s *Server) handleExtension(ctx context.Context, r *Request) (body any, cache *Caching, known bool, err error) {
	switch r.Method {
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		if !s.tasks.offered.Load() {
			return nil, nil, false, nil
		}
		if !hasExtension(r.capabilities, ExtensionTasks) {
			return nil, nil, true, needsExtension(ExtensionTasks)
		}
		body, err = s.handleTask(ctx, r)
		return body, nil, true, err
	}
	return s.handleSkills(ctx, r)
}

// handleTask handles the methods of the tasks extension.
func (s *Server) handleTask(ctx context.Context, r *Request) (any, error) {
	running, task, err := s.taskOf(ctx, r)
	if err != nil {
		return nil, err
	}
	switch r.Method {
	case MethodTasksGet:
		if task.Result != nil { // as a member of the task, it is a result like any other
			task.Result = append(jsonrpc.Raw(completePrefix+","), task.Result[1:]...)
		}
		return mustEncode(task.ext(true)), nil
	case MethodTasksUpdate:
		raw := r.p.inputResponses
		var responses map[string]jsonrpc.Raw
		if !isObject(raw) || raw.Decode(&responses) != nil {
			return nil, invalidParams("inputResponses must be an object")
		}
		if running != nil {
			running.update(ctx, responses)
		}
	case MethodTasksCancel:
		if running != nil {
			running.stop(errTaskCancelled)
		}
	}
	return empty, nil
}

// handleCoreTasks handles the task methods of 2025-11-25.
func (s *Server) handleCoreTasks(ctx context.Context, r *Request) (body any, known bool, err error) {
	switch r.Method {
	case MethodTasksGet, MethodTasksResult, MethodTasksCancel, MethodTasksList:
	default:
		return nil, false, nil
	}
	if !s.tasks.offered.Load() || r.session == nil {
		return nil, true, jsonrpc.ErrMethodNotFound
	}
	if r.Method == MethodTasksList {
		body, err = s.listTasks(ctx, r)
		return body, true, err
	}
	running, task, err := s.taskOf(ctx, r)
	if err != nil {
		return nil, true, err
	}
	switch r.Method {
	case MethodTasksResult:
		body, err = s.taskResult(ctx, r, running, task)
		return body, true, err
	case MethodTasksCancel:
		if running == nil || !running.stop(errTaskCancelled) {
			return nil, true, invalidParams("the task has already ended")
		}
		task = running.snapshot()
	}
	return task.core(), true, nil
}

// taskResult handles tasks/result: it waits for the task to finish, and meanwhile the task can send
// its questions on this request.
func (s *Server) taskResult(ctx context.Context, r *Request, running *runningTask, task *Task) (any, error) {
	if running != nil {
		defer running.listen(r.peer())()
		select {
		case <-running.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		task = running.snapshot()
	}
	switch {
	case task.Error != nil:
		return nil, task.Error
	case task.Result == nil:
		return nil, invalidParams("the task was cancelled")
	}
	var result ToolResult
	if err := task.Result.Decode(&result); err != nil {
		return nil, err
	}
	result.Meta = result.Meta.With(MetaRelatedTask, taskParams{task.ID})
	return &result, nil
}

// listTasks handles tasks/list.
func (s *Server) listTasks(ctx context.Context, r *Request) (any, error) {
	after := ""
	if r.p.cursor != nil && !isNull(r.p.cursor) {
		var ok bool
		if after, ok = textOf(r.p.cursor); !ok || after == "" {
			return nil, invalidParams("cursor was not issued by this server")
		}
	}
	tasks, err := s.tasks.store.List(ctx, r.owner(ctx), after, s.opts.PageSize+1)
	if errors.Is(err, ErrNoTask) {
		return nil, invalidParams("cursor was not issued by this server")
	} else if err != nil {
		return nil, taskTrouble(err)
	}
	p := &page{member: "tasks"}
	for i, t := range tasks {
		if i == s.opts.PageSize {
			p.next = tasks[i-1].ID
			break
		}
		if running := s.tasks.find(r.owner(ctx), t.ID); running != nil {
			t = running.snapshot()
		}
		p.items = append(p.items, mustEncode(t.core()))
	}
	return p, nil
}
