package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// taskPrefix is the prefix of the keys of tasks. The owner and the ID follow.
const taskPrefix = "mcp/tasks/"

// StoredTasks is a [TaskStore] that survives restarts. It stores each task as a value under
// mcp/tasks/, with a time to live. It also has an index of all tasks and their order in memory, so
// that only one server in one process may use it; [store.Under] separates several of them.
//
// Before its first operation it loads the tasks of earlier processes. A finished task is available
// with its result. A task that was still running becomes failed, with a message that the server was
// stopped.
type StoredTasks struct {
	values store.Values
	loaded atomic.Bool
	turn   chan struct{} // holds one value, for the loading goroutine

	mu         sync.Mutex // guards the fields below
	taskLedger            // owners as in keys
}

func (e *taskEntry) key() string { return taskPrefix + e.owner + "/" + e.id }

// NewTaskStore returns a TaskStore that stores tasks in v, each for its TTL: at most most tasks and
// 256 MiB; see [TaskLimits] for what happens at the limits. It reads nothing yet. Errors of v are a
// [*store.Fault], for which a server responds with -31009.
func NewTaskStore(v store.Values, most int) *StoredTasks {
	return NewTaskStoreWith(v, &TaskLimits{Tasks: most})
}

// NewTaskStoreWith is like [NewTaskStore] with other limits. Nil means the defaults.
func NewTaskStoreWith(v store.Values, l *TaskLimits) *StoredTasks {
	return &StoredTasks{values: v, turn: make(chan struct{}, 1), taskLedger: newTaskLedger(l.withDefaults(taskBytesStored))}
}

// A taskRecord is the stored form of a task.
type taskRecord struct {
	Number        uint64                  `json:"number"`
	Status        TaskStatus              `json:"status"`
	StatusMessage string                  `json:"statusMessage,omitzero"`
	Created       time.Time               `json:"created"`
	Updated       time.Time               `json:"updated"`
	TTL           int64                   `json:"ttlNs"`
	PollInterval  int64                   `json:"pollNs,omitzero"`
	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"`
	Result        jsonrpc.Raw             `json:"result,omitzero"`
	Error         *jsonrpc.Error          `json:"error,omitzero"`
}

func (t *Task) record(number uint64) *taskRecord {
	return &taskRecord{number, t.Status, t.StatusMessage, t.Created.UTC(), t.Updated.UTC(), int64(t.TTL), int64(t.PollInterval),
		t.InputRequests, t.Result, t.Error}
}

func (r *taskRecord) task(id string) *Task {
	return &Task{ID: id, Status: r.Status, StatusMessage: r.StatusMessage, Created: r.Created, Updated: r.Updated,
		TTL: time.Duration(r.TTL), PollInterval: time.Duration(r.PollInterval), InputRequests: r.InputRequests, Result: r.Result, Error: r.Error}
}

// ownerKey returns a digest of an owner's name, which may be long or confidential.
func ownerKey(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Load loads the tasks of earlier processes from the store. If it is not called, the first
// operation loads them.
func (s *StoredTasks) Load(ctx context.Context) error {
	if s.loaded.Load() {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.loaded.Load() {
		return nil
	}
	var all []*taskEntry
	for after := taskPrefix; ; {
		page, err := s.values.List(ctx, taskPrefix, after, 0)
		if err != nil {
			return fmt.Errorf("mcp: load tasks: %w", err)
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Key
		for _, v := range page {
			t, err := s.survivor(ctx, v)
			if err != nil {
				return fmt.Errorf("mcp: load %s: %w", v.Key, err)
			}
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *taskEntry) int { return cmp.Compare(a.number, b.number) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range all {
		s.add(t)
		s.number = t.number
	}
	s.loaded.Store(true)
	return nil
}

// survivor loads one task of an earlier process.
func (s *StoredTasks) survivor(ctx context.Context, v store.Value) (*taskEntry, error) {
	owner, id, ok := strings.Cut(strings.TrimPrefix(v.Key, taskPrefix), "/")
	if !ok {
		return nil, errors.New("not the key of a task")
	}
	raw, err := jsonrpc.ParseRaw(v.Data)
	if err != nil {
		return nil, err
	}
	var r taskRecord
	if err := raw.Decode(&r); err != nil {
		return nil, err
	}
	t := &taskEntry{id: id, owner: owner, number: r.Number, until: v.Expires, bytes: r.task(id).weight(), final: true}
	if !r.Status.Final() {
		r.Status, r.InputRequests, r.Updated = TaskFailed, nil, time.Now().UTC()
		r.StatusMessage, r.Error = errTaskStopped.Message, errTaskStopped
		if _, err := s.values.Put(ctx, v.Key, v.Rev, mustEncode(&r), left(v.Expires)); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err // a conflict means that it has just expired
		}
	}
	return t, nil
}

// errTaskStopped is the error of a task that was running when its server stopped.
var errTaskStopped = jsonrpc.NewError(jsonrpc.CodeInternalError, "The server was stopped during the task.").
	WithData(jsonrpc.FaultData{Reason: "interrupted"})

// left returns the time to live of a value that expires at until, or 0 for a value that does not
// expire.
func left(until time.Time) time.Duration {
	if until.IsZero() {
		return 0
	}
	return max(time.Until(until), 1)
}

// Put implements [TaskStore].
func (s *StoredTasks) Put(ctx context.Context, owner string, task *Task) error {
	if err := s.Load(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	var before int64
	if old := s.byID[task.ID]; old != nil {
		before = old.bytes
	}
	t, fresh, gone, err := s.put(ownerKey(owner), task, time.Now())
	s.mu.Unlock()
	for _, other := range gone {
		// A task that cannot be deleted expires by itself. Until then it is only found again after
		// a restart.
		_ = s.values.Delete(ctx, other.key(), store.Any)
	}
	if t == nil || err != nil {
		return err
	}
	rev := store.Any
	if fresh {
		rev = 0
	}
	raw, err := encode(task.record(t.number))
	if err == nil {
		_, err = s.values.Put(ctx, t.key(), rev, raw, left(t.until))
	}
	if err != nil {
		s.mu.Lock()
		if fresh {
			s.drop(func(other *taskEntry) bool { return other == t })
		} else {
			s.weigh(t, before)
		}
		s.mu.Unlock()
	}
	return err
}

// Get implements [TaskStore].
func (s *StoredTasks) Get(ctx context.Context, owner, id string) (*Task, error) {
	if err := s.Load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	t := s.byID[id]
	s.mu.Unlock()
	if t == nil || t.owner != ownerKey(owner) || t.expired(time.Now()) {
		return nil, ErrNoTask
	}
	return s.read(ctx, t)
}

func (s *StoredTasks) read(ctx context.Context, t *taskEntry) (*Task, error) {
	v, err := s.values.Get(ctx, t.key())
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoTask // it has expired, or is not stored yet
	}
	if err != nil {
		return nil, err
	}
	var r taskRecord
	if err := jsonrpc.Raw(v.Data).Decode(&r); err != nil {
		return nil, fmt.Errorf("mcp: %s: %w", t.key(), err)
	}
	return r.task(t.id), nil
}

// List implements [TaskStore].
func (s *StoredTasks) List(ctx context.Context, owner, after string, n int) ([]*Task, error) {
	if err := s.Load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	page, ok := s.page(ownerKey(owner), after, n)
	s.mu.Unlock()
	if !ok {
		return nil, ErrNoTask
	}
	var out []*Task
	for _, t := range page {
		task, err := s.read(ctx, t)
		if errors.Is(err, ErrNoTask) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, task)
	}
	return out, nil
}

// taskTrouble converts an error of a TaskStore to the error for the caller.
func taskTrouble(err error) error {
	if fault, ok := errors.AsType[*store.Fault](err); ok {
		code, message, data := fault.Public()
		return &jsonrpc.Error{Code: code, Message: message, Data: data}
	}
	if errors.Is(err, errTaskRoom) || errors.Is(err, store.ErrLimit) {
		return jsonrpc.NewError(jsonrpc.CodeBusy, "Too many tasks").
			WithData(jsonrpc.FaultData{Reason: "busy", Retryable: true, RetryAfterMs: 5000})
	}
	return err
}
