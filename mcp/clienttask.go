package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// cancelTimeout is the timeout for cancelling a task or a subscription after its context has ended.
const cancelTimeout = 2 * time.Second

// ErrTaskCancelled reports that a task was cancelled and has no result.
var ErrTaskCancelled = errors.New("mcp: the task was cancelled")

// GetTask returns the state of a task.
func (c *Client) GetTask(ctx context.Context, id string) (*Task, error) {
	if c.Version().Modern() {
		var t extTask
		if err := c.Call(ctx, MethodTasksGet, taskParams{id}, &t); err != nil {
			return nil, err
		}
		return t.task(), nil
	}
	var t coreTask
	if err := c.Call(ctx, MethodTasksGet, taskParams{id}, &t); err != nil {
		return nil, err
	}
	return t.task(), nil
}

// CancelTask requests the cancellation of a task.
func (c *Client) CancelTask(ctx context.Context, id string) error {
	return c.Call(ctx, MethodTasksCancel, taskParams{id}, nil)
}

// awaitTask polls a task of the extension until it is finished, and answers its questions.
func (c *Client) awaitTask(ctx context.Context, t *Task, o *CallOptions) (*ToolResult, error) {
	answered := map[string]bool{}
	id := t.ID
	// the task finished so soon that the response does not contain its result
	if t.Status.Final() && t.Result == nil && t.Error == nil {
		var err error
		if t, err = c.GetTask(ctx, id); err != nil {
			return nil, err
		}
	}
	for {
		if o != nil && o.OnTask != nil {
			o.OnTask(t)
		}
		switch t.Status {
		case TaskCompleted:
			if t.Result == nil {
				return nil, fmt.Errorf("%w: a task without its result", ErrUnknownResult)
			}
			return decodeResult[ToolResult](t.Result)
		case TaskFailed:
			if t.Error == nil {
				return nil, fmt.Errorf("%w: a failed task without its error", ErrUnknownResult)
			}
			return nil, t.Error
		case TaskCancelled:
			return nil, ErrTaskCancelled
		case TaskInputRequired:
			if err := c.updateTask(ctx, id, t.InputRequests, answered); err != nil {
				return nil, errors.Join(err, c.giveUpTask(ctx, id))
			}
		}
		if err := wait(ctx, t.PollInterval); err != nil {
			return nil, errors.Join(err, c.giveUpTask(ctx, id))
		}
		var err error
		if t, err = c.GetTask(ctx, id); err != nil {
			if ctx.Err() != nil {
				return nil, errors.Join(context.Cause(ctx), c.giveUpTask(ctx, id))
			}
			return nil, err
		}
	}
}

// updateTask answers the questions of a task that are still open.
func (c *Client) updateTask(ctx context.Context, id string, asked map[string]InputRequest, answered map[string]bool) error {
	open := map[string]InputRequest{}
	for key, in := range asked {
		if !answered[key] {
			open[key] = in
		}
	}
	if len(open) == 0 {
		return nil
	}
	responses, err := c.answerAll(ctx, open)
	if err != nil {
		return err
	}
	for key := range open {
		answered[key] = true
	}
	return c.Call(ctx, MethodTasksUpdate, struct {
		TaskID         string                 `json:"taskId"`
		InputResponses map[string]jsonrpc.Raw `json:"inputResponses"`
	}{id, responses}, nil)
}

// giveUpTask cancels a task that the caller no longer waits for.
func (c *Client) giveUpTask(ctx context.Context, id string) error {
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	if err := c.CancelTask(over, id); err != nil {
		c.report(jsonrpc.ReportTask, err) // the caller gets an error already
	}
	return nil
}

// wait waits before the next poll: as long as the server requested, but between 10 ms and 1 min,
// and 1 s if it requested nothing.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		d = time.Second
	}
	return pause.For(ctx, min(max(d, 10*time.Millisecond), time.Minute))
}

// awaitCore waits for the result of a task of 2025-11-25. Meanwhile its questions arrive as
// requests.
func (c *Client) awaitCore(ctx context.Context, t *Task, o *CallOptions) (*ToolResult, error) {
	if o != nil && o.OnTask != nil {
		o.OnTask(t)
	}
	var raw jsonrpc.Raw
	if err := c.do(ctx, MethodTasksResult, mustEncode(taskParams{t.ID}), &raw, nil); err != nil {
		if ctx.Err() != nil {
			return nil, errors.Join(err, c.giveUpTask(ctx, t.ID))
		}
		return nil, err
	}
	return decodeResult[ToolResult](raw)
}
