package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A TaskStore keeps tasks, each for its owner alone, for its TTL. It is safe for concurrent use. A task is put before its caller hears of it, so
// that a store on disk has it then; the calls that run are in memory, in the process that runs them. [NewTaskMemory] and
// [NewTaskStore] make one.
type TaskStore interface {
	// Put keeps a task, in the place of one with the same id; one whose time is over it does not. It returns an error when there is no
	// room for a new one. The task is not to be changed meanwhile.
	Put(ctx context.Context, owner string, t *Task) error

	// Get returns a task of owner, or [ErrNoTask].
	Get(ctx context.Context, owner, id string) (*Task, error)

	// List returns up to n tasks of owner, oldest first, behind the one with the id after, which is empty at the beginning.
	List(ctx context.Context, owner, after string, n int) ([]*Task, error)
}

// ErrNoTask says that there is no such task for this owner.
var ErrNoTask = errors.New("mcp: no such task")

var errTaskRoom = errors.New("mcp: too many tasks")

// NewTaskMemory makes a TaskStore of at most most tasks, each kept for its TTL.
func NewTaskMemory(most int) TaskStore { return &taskMemory{most: most, byID: map[string]*keptTask{}} }

type taskMemory struct {
	most int

	mu    sync.Mutex // guards what follows
	byID  map[string]*keptTask
	order []*keptTask // oldest first
}

type keptTask struct {
	owner string
	task  *Task
	until time.Time // zero: for ever
}

func (m *taskMemory) Put(_ context.Context, owner string, t *Task) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *t
	if old := m.byID[t.ID]; old != nil {
		if old.owner != owner {
			return ErrNoTask
		}
		old.task = &c
		return nil
	}
	k := &keptTask{owner: owner, task: &c, until: t.until()}
	if k.old(time.Now()) {
		return nil
	}
	if len(m.order) >= m.most {
		m.dropOldLocked()
		if len(m.order) >= m.most {
			return errTaskRoom
		}
	}
	m.byID[t.ID] = k
	m.order = append(m.order, k)
	return nil
}

func (k *keptTask) old(now time.Time) bool { return !k.until.IsZero() && !now.Before(k.until) }

// until is when the time of a task is over; zero for never.
func (t *Task) until() time.Time {
	if t.TTL < 0 {
		return time.Time{}
	}
	return t.Created.Add(t.TTL)
}

// dropOldLocked forgets the tasks whose time has passed.
func (m *taskMemory) dropOldLocked() {
	now := time.Now()
	m.order = slices.DeleteFunc(m.order, func(k *keptTask) bool {
		if k.old(now) {
			delete(m.byID, k.task.ID)
			return true
		}
		return false
	})
}

func (m *taskMemory) Get(_ context.Context, owner, id string) (*Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byID[id]
	if k == nil || k.owner != owner || k.old(time.Now()) {
		return nil, ErrNoTask
	}
	c := *k.task
	return &c, nil
}

func (m *taskMemory) List(_ context.Context, owner, after string, n int) ([]*Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropOldLocked()
	var out []*Task
	begun := after == ""
	for _, k := range m.order {
		if begun && k.owner == owner && len(out) < n {
			c := *k.task
			out = append(out, &c)
		}
		begun = begun || k.task.ID == after && k.owner == owner
	}
	if !begun {
		return nil, ErrNoTask
	}
	return out, nil
}
