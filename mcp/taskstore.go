package mcp

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A TaskStore stores tasks, each for its owner only and for its TTL. It is safe for concurrent use.
// A task is stored before its caller learns of it, so that it is then on disk. The running calls
// themselves are in the memory of the process that runs them. [NewTaskMemory] and [NewTaskStore]
// return implementations.
type TaskStore interface {
	// Put stores a task, and replaces the task with the same ID. An expired task is not stored. Put
	// may delete finished tasks to make room, and returns an error if there is not enough. The task
	// must not be changed meanwhile.
	Put(ctx context.Context, owner string, t *Task) error

	// Get returns a task of owner, or [ErrNoTask].
	Get(ctx context.Context, owner, id string) (*Task, error)

	// List returns up to n tasks of owner, oldest first, after the one with the ID after, which is
	// empty for the first page.
	List(ctx context.Context, owner, after string, n int) ([]*Task, error)
}

// ErrNoTask reports that the owner has no such task.
var ErrNoTask = errors.New("mcp: no such task")

var errTaskRoom = errors.New("mcp: too many tasks")

// NewTaskMemory returns a TaskStore in memory that stores at most most tasks and 32 MiB, each task
// for its TTL; see [TaskLimits] for what happens at the limits.
func NewTaskMemory(most int) TaskStore { return NewTaskMemoryWith(&TaskLimits{Tasks: most}) }

// NewTaskMemoryWith is like [NewTaskMemory] with other limits. Nil means the defaults.
func NewTaskMemoryWith(l *TaskLimits) TaskStore {
	return &taskMemory{taskLedger: newTaskLedger(l.withDefaults(taskBytesInMemory))}
}

type taskMemory struct {
	mu sync.Mutex // guards the fields below
	taskLedger
}

// until returns when the task expires, or the zero time for never.
func (t *Task) until() time.Time {
	if t.TTL < 0 {
		return time.Time{}
	}
	return t.Created.Add(t.TTL)
}

func (m *taskMemory) Put(_ context.Context, owner string, t *Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, _, _, err := m.put(owner, t, time.Now())
	if e == nil || err != nil {
		return err
	}
	c := *t
	e.task = &c
	return nil
}

func (m *taskMemory) Get(_ context.Context, owner, id string) (*Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil || e.owner != owner || e.expired(time.Now()) {
		return nil, ErrNoTask
	}
	c := *e.task
	return &c, nil
}

func (m *taskMemory) List(_ context.Context, owner, after string, n int) ([]*Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	page, ok := m.page(owner, after, n)
	if !ok {
		return nil, ErrNoTask
	}
	var out []*Task
	for _, e := range page {
		c := *e.task
		out = append(out, &c)
	}
	return out, nil
}
