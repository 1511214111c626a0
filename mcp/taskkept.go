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

// taskPrefix is what the keys of tasks begin with; owner and id follow.
const taskPrefix = "mcp/tasks/"

// StoredTasks is a [TaskStore] that outlives the process. It keeps a task as a value under mcp/tasks/, with a time to live; which tasks there
// are, and in what order they began, it also knows by heart. One server uses it, in one process: [store.Under] makes room for more.
//
// It first takes up what is there from before. A task that has ended is found again with its result. One that was under way has
// failed, since nobody works on it any more, and says so.
type StoredTasks struct {
	values store.Values
	most   int
	loaded atomic.Bool
	turn   chan struct{} // of one, to load

	mu     sync.Mutex // guards what follows
	byID   map[string]*storedTask
	order  []*storedTask // oldest first
	number uint64        // of the newest
}

// A storedTask is what is known by heart.
type storedTask struct {
	id, owner string    // owner as in keys
	number    uint64    // grows from task to task
	until     time.Time // zero: for ever
}

func (t *storedTask) key() string            { return taskPrefix + t.owner + "/" + t.id }
func (t *storedTask) old(now time.Time) bool { return !t.until.IsZero() && !now.Before(t.until) }

// NewTaskStore makes a TaskStore of at most most tasks that are kept in v, each for its TTL. It reads nothing yet. Trouble of v is a
// [*store.Fault], which a server answers with -31009.
func NewTaskStore(v store.Values, most int) *StoredTasks {
	return &StoredTasks{values: v, most: most, turn: make(chan struct{}, 1), byID: map[string]*storedTask{}}
}

// A taskRecord is a task as it is kept.
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

// ownerKey stands for an owner, whose name may be long and is nobody's business.
func ownerKey(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Load takes up what the store has from before. Whatever is asked first does it otherwise, and waits for it.
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
	var all []*storedTask
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
	slices.SortFunc(all, func(a, b *storedTask) int { return cmp.Compare(a.number, b.number) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range all {
		s.byID[t.id] = t
		s.number = t.number
	}
	s.order = all
	s.loaded.Store(true)
	return nil
}

// survivor takes up one task from before.
func (s *StoredTasks) survivor(ctx context.Context, v store.Value) (*storedTask, error) {
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
	t := &storedTask{id: id, owner: owner, number: r.Number, until: v.Expires}
	if !r.Status.Final() {
		r.Status, r.InputRequests, r.Updated = TaskFailed, nil, time.Now().UTC()
		r.StatusMessage, r.Error = errTaskStopped.Message, errTaskStopped
		if _, err := s.values.Put(ctx, v.Key, v.Rev, mustEncode(&r), left(v.Expires)); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err // a conflict: it has expired at this moment
		}
	}
	return t, nil
}

// errTaskStopped is how a task ends that was under way when its server was stopped.
var errTaskStopped = jsonrpc.NewError(jsonrpc.CodeInternalError, "The server was stopped during the task.").
	WithData(jsonrpc.FaultData{Reason: "interrupted"})

// left is the time to live of what is kept until then: 0 for ever.
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
	t, fresh, err := s.admit(ownerKey(owner), task)
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
	if err != nil && fresh {
		s.mu.Lock()
		s.dropLocked(func(k *storedTask) bool { return k == t })
		s.mu.Unlock()
	}
	return err
}

// admit finds the place of a task, or makes one. None, and no error: its time is over.
func (s *StoredTasks) admit(owner string, task *Task) (t *storedTask, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t = s.byID[task.ID]
	switch {
	case t != nil && t.owner != owner:
		return nil, false, ErrNoTask
	case t != nil && t.old(now):
		return nil, false, nil // the store drops it by itself
	case t != nil:
		return t, false, nil
	}
	t = &storedTask{id: task.ID, owner: owner, until: task.until()}
	if t.old(now) {
		return nil, false, nil
	}
	if len(s.order) >= s.most {
		s.dropLocked(func(k *storedTask) bool { return k.old(now) })
	}
	if len(s.order) >= s.most {
		return nil, false, errTaskRoom
	}
	s.number++
	t.number = s.number
	s.byID[t.id] = t
	s.order = append(s.order, t)
	return t, true, nil
}

func (s *StoredTasks) dropLocked(which func(*storedTask) bool) {
	s.order = slices.DeleteFunc(s.order, func(t *storedTask) bool {
		if which(t) {
			delete(s.byID, t.id)
			return true
		}
		return false
	})
}

// Get implements [TaskStore].
func (s *StoredTasks) Get(ctx context.Context, owner, id string) (*Task, error) {
	if err := s.Load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	t := s.byID[id]
	s.mu.Unlock()
	if t == nil || t.owner != ownerKey(owner) || t.old(time.Now()) {
		return nil, ErrNoTask
	}
	return s.read(ctx, t)
}

func (s *StoredTasks) read(ctx context.Context, t *storedTask) (*Task, error) {
	v, err := s.values.Get(ctx, t.key())
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoTask // it has expired, or is not there yet
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
	key := ownerKey(owner)
	s.mu.Lock()
	now := time.Now()
	s.dropLocked(func(t *storedTask) bool { return t.old(now) })
	var from uint64
	if after != "" {
		t := s.byID[after]
		if t == nil || t.owner != key {
			s.mu.Unlock()
			return nil, ErrNoTask
		}
		from = t.number
	}
	var page []*storedTask
	for _, t := range s.order {
		if t.owner == key && t.number > from && len(page) < n {
			page = append(page, t)
		}
	}
	s.mu.Unlock()
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

// taskTrouble is what a caller hears of an error of a TaskStore.
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
