package mcp

import (
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TaskSupport says whether a call of a tool may go on as a task.
type TaskSupport uint8

// The three answers of a tool.
const (
	TaskForbidden TaskSupport = iota // the zero value
	TaskOptional                     // when the client can
	TaskRequired                     // a client that cannot is refused
)

var taskSupportNames = [...]string{"forbidden", "optional", "required"}

// A TaskStatus is where a task stands.
type TaskStatus string

// The last three are final.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Final reports whether nothing more will happen.
func (s TaskStatus) Final() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// TaskMetadata is how a client of 2025-11-25 asks for a task.
type TaskMetadata struct {
	TTL *int64 `json:"ttl,omitzero"` // how long it wants to be able to ask, in milliseconds
}

// A Task is a call that goes on after its first answer.
type Task struct {
	ID            string
	Status        TaskStatus
	StatusMessage string
	Created       time.Time
	Updated       time.Time
	TTL           time.Duration // how long after Created it is kept; negative means for ever
	PollInterval  time.Duration // how often to ask; zero says nothing

	// The members of the extension.
	InputRequests map[string]InputRequest // what it waits for, when TaskInputRequired
	Result        jsonrpc.Raw             // when TaskCompleted
	Error         *jsonrpc.Error          // when TaskFailed
}

// coreTask is a task on the wire of 2025-11-25.
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

// extTask is a task on the wire of the extension.
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

// ext writes the task for the extension; a task that was just made is written without what it may hold later.
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

// taskParams are the params of the tasks methods.
type taskParams struct {
	TaskID string `json:"taskId"`
}
