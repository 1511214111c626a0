package mcp

import (
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TaskSupport controls whether a call of a tool may become a task.
type TaskSupport uint8

// Values of TaskSupport.
const (
	TaskForbidden TaskSupport = iota // the zero value
	TaskOptional                     // if the client supports tasks
	TaskRequired                     // a client without support for tasks is rejected
)

var taskSupportNames = [...]string{"forbidden", "optional", "required"}

// A TaskStatus is the status of a task.
type TaskStatus string

// Values of TaskStatus. The last three are final.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Final reports whether the status can no longer change.
func (s TaskStatus) Final() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// TaskMetadata is the request for a task by a client of 2025-11-25.
type TaskMetadata struct {
	TTL *int64 `json:"ttl,omitzero"` // requested time to live in milliseconds
}

// A Task is a call that continues after its first response.
type Task struct {
	ID            string
	Status        TaskStatus
	StatusMessage string
	Created       time.Time
	Updated       time.Time
	// how long it is stored after Created; negative means without expiry
	TTL          time.Duration
	PollInterval time.Duration // how often to poll; zero means not specified

	// members of the extension
	InputRequests map[string]InputRequest // the open questions, if TaskInputRequired
	Result        jsonrpc.Raw             // if TaskCompleted
	Error         *jsonrpc.Error          // if TaskFailed
}

// coreTask is the wire form of a task in 2025-11-25.
type coreTask struct {
	TaskID        string     `json:"taskId"`
	Status        TaskStatus `json:"status"`
	StatusMessage string     `json:"statusMessage,omitzero"`
	CreatedAt     time.Time  `json:"createdAt"`
	LastUpdatedAt time.Time  `json:"lastUpdatedAt"`
	TTL           *int64     `json:"ttl"`
	PollInterval  int64      `json:"pollInterval,omitzero"`
	Meta          Meta       `json:"_meta,omitzero"`
}

// extTask is the wire form of a task in the extension.
type extTask struct {
	TaskID         string                  `json:"taskId"`
	Status         TaskStatus              `json:"status"`
	StatusMessage  string                  `json:"statusMessage,omitzero"`
	CreatedAt      time.Time               `json:"createdAt"`
	LastUpdatedAt  time.Time               `json:"lastUpdatedAt"`
	TTLMs          *int64                  `json:"ttlMs"`
	PollIntervalMs int64                   `json:"pollIntervalMs,omitzero"`
	InputRequests  map[string]InputRequest `json:"inputRequests,omitzero"`
	Result         jsonrpc.Raw             `json:"result,omitzero"`
	Error          *jsonrpc.Error          `json:"error,omitzero"`
	Meta           Meta                    `json:"_meta,omitzero"`
}

func ttlOnWire(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	return new(d.Milliseconds())
}

func ttlFromWire(ms *int64) time.Duration {
	if ms == nil {
		return -1
	}
	return time.Duration(*ms) * time.Millisecond
}

func (t *Task) core() coreTask {
	return coreTask{TaskID: t.ID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.Created.UTC(),
		LastUpdatedAt: t.Updated.UTC(), TTL: ttlOnWire(t.TTL), PollInterval: t.PollInterval.Milliseconds()}
}

func (c *coreTask) task() *Task {
	return &Task{ID: c.TaskID, Status: c.Status, StatusMessage: c.StatusMessage, Created: c.CreatedAt, Updated: c.LastUpdatedAt,
		TTL: ttlFromWire(c.TTL), PollInterval: time.Duration(c.PollInterval) * time.Millisecond}
}

// ext returns the task in the form of the extension. A new task is written without questions,
// result and error.
func (t *Task) ext(full bool) extTask {
	e := extTask{TaskID: t.ID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.Created.UTC(),
		LastUpdatedAt: t.Updated.UTC(), TTLMs: ttlOnWire(t.TTL), PollIntervalMs: t.PollInterval.Milliseconds()}
	if full {
		switch t.Status {
		case TaskInputRequired:
			e.InputRequests = t.InputRequests
		case TaskCompleted:
			e.Result = t.Result
		case TaskFailed:
			e.Error = t.Error
		}
	}
	return e
}

func (e *extTask) task() *Task {
	return &Task{ID: e.TaskID, Status: e.Status, StatusMessage: e.StatusMessage, Created: e.CreatedAt, Updated: e.LastUpdatedAt,
		TTL: ttlFromWire(e.TTLMs), PollInterval: time.Duration(e.PollIntervalMs) * time.Millisecond,
		InputRequests: e.InputRequests, Result: e.Result, Error: e.Error}
}

// taskParams are the params of the task methods.
type taskParams struct {
	TaskID string `json:"taskId"`
}
