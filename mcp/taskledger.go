package mcp

import (
	"fmt"
	"slices"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// TaskLimits bound a [TaskStore]. Zero fields have defaults.
//
// If there is no room, the oldest finished task of the owner that uses most is deleted first, so
// that one owner cannot use up the room of the others. A running task is never deleted: if all
// tasks are running, a new task is rejected.
type TaskLimits struct {
	// Tasks is the maximum number of stored tasks. The default is 10,000.
	Tasks int

	// Bytes is the maximum size of all tasks: their results, errors and questions, and 1 KiB for
	// each. The default is 32 MiB in memory and 256 MiB in a [store.Values]. One task may use half
	// of it; a task with a larger result fails with -31003.
	Bytes int64
}

func (l *TaskLimits) withDefaults(bytes int64) TaskLimits {
	out := TaskLimits{Tasks: 10_000, Bytes: bytes}
	if l != nil && l.Tasks > 0 {
		out.Tasks = l.Tasks
	}
	if l != nil && l.Bytes > 0 {
		out.Bytes = l.Bytes
	}
	return out
}

// Default sizes of task stores in bytes, in memory and in a [store.Values].
const (
	taskBytesInMemory = 32 << 20
	taskBytesStored   = 256 << 20
	taskBase          = 1 << 10 // of each task
)

// weight returns the size of a task for the limits.
func (t *Task) weight() int64 {
	n := taskBase + len(t.ID) + len(t.StatusMessage) + len(t.Result)
	for key, in := range t.InputRequests {
		n += len(key) + len(in.Method) + len(in.Params) + 64
	}
	if t.Error != nil {
		n += len(t.Error.Message) + len(t.Error.Data)
	}
	return int64(n)
}

// A taskEntry is the entry of a task in a ledger.
type taskEntry struct {
	id, owner string
	number    uint64    // increases from task to task
	until     time.Time // zero means no expiry
	bytes     int64
	final     bool
	task      *Task // of a taskMemory
}

func (e *taskEntry) expired(now time.Time) bool { return !e.until.IsZero() && !now.Before(e.until) }

// A taskLedger accounts for the tasks of a store. It is guarded by the lock of the store.
type taskLedger struct {
	limits TaskLimits
	byID   map[string]*taskEntry
	order  []*taskEntry // oldest first
	owners map[string]*taskShare
	bytes  int64
	number uint64 // of the newest
}

// A taskShare is the usage of one owner.
type taskShare struct {
	tasks int
	bytes int64
}

func newTaskLedger(l TaskLimits) taskLedger {
	return taskLedger{limits: l, byID: map[string]*taskEntry{}, owners: map[string]*taskShare{}}
}

// put accounts for a task and returns its entry, and the entries that were removed to make room.
// Without an entry and without an error, the task has expired.
func (l *taskLedger) put(owner string, t *Task, now time.Time) (e *taskEntry, fresh bool, gone []*taskEntry, err error) {
	e = l.byID[t.ID]
	switch {
	case e != nil && e.owner != owner:
		return nil, false, nil, ErrNoTask
	case e != nil && e.expired(now):
		return nil, false, nil, nil
	case e == nil:
		fresh = true
		e = &taskEntry{id: t.ID, owner: owner, until: t.until()}
		if e.expired(now) {
			return nil, false, nil, nil
		}
	}
	bytes := t.weight()
	if bytes > l.limits.Bytes/2 {
		return nil, false, nil, fmt.Errorf("mcp: a task of %d bytes, over %d: %w", bytes, l.limits.Bytes/2, store.ErrLimit)
	}
	tasks := 0
	if fresh {
		tasks = 1
	}
	if !l.fits(tasks, bytes-e.bytes) {
		l.drop(func(other *taskEntry) bool { return other.expired(now) && other != e })
	}
	for !l.fits(tasks, bytes-e.bytes) {
		victim := l.victim(e, tasks > 0 && len(l.order) >= l.limits.Tasks)
		if victim == nil {
			return nil, false, gone, errTaskRoom
		}
		gone = append(gone, victim)
		l.drop(func(other *taskEntry) bool { return other == victim })
	}
	if fresh {
		l.number++
		e.number = l.number
		l.add(e)
	}
	l.weigh(e, bytes)
	e.final = t.Status.Final()
	return e, fresh, gone, nil
}

func (l *taskLedger) fits(tasks int, bytes int64) bool {
	return len(l.order)+tasks <= l.limits.Tasks && (bytes <= 0 || l.bytes+bytes <= l.limits.Bytes)
}

// victim returns the oldest finished task of the owner that uses most, in number or in bytes, among
// the owners with a finished task.
func (l *taskLedger) victim(except *taskEntry, byNumber bool) *taskEntry {
	var found *taskEntry
	var most int64
	for _, e := range l.order {
		if !e.final || e == except {
			continue
		}
		share := l.owners[e.owner]
		held := share.bytes
		if byNumber {
			held = int64(share.tasks)
		}
		if found == nil || held > most {
			found, most = e, held
		}
	}
	return found
}

// add adds an entry with its bytes.
func (l *taskLedger) add(e *taskEntry) {
	l.byID[e.id] = e
	l.order = append(l.order, e)
	share := l.owners[e.owner]
	if share == nil {
		share = &taskShare{}
		l.owners[e.owner] = share
	}
	share.tasks++
	share.bytes += e.bytes
	l.bytes += e.bytes
}

// weigh sets the bytes of an entry.
func (l *taskLedger) weigh(e *taskEntry, bytes int64) {
	if l.byID[e.id] != e {
		return
	}
	l.bytes += bytes - e.bytes
	l.owners[e.owner].bytes += bytes - e.bytes
	e.bytes = bytes
}

func (l *taskLedger) drop(which func(*taskEntry) bool) {
	l.order = slices.DeleteFunc(l.order, func(e *taskEntry) bool {
		if !which(e) {
			return false
		}
		delete(l.byID, e.id)
		l.bytes -= e.bytes
		share := l.owners[e.owner]
		share.bytes -= e.bytes
		if share.tasks--; share.tasks == 0 {
			delete(l.owners, e.owner)
		}
		return true
	})
}

// page returns up to n tasks of an owner after the one with ID after, and whether that task exists.
func (l *taskLedger) page(owner, after string, n int) ([]*taskEntry, bool) {
	l.drop(func(e *taskEntry) bool { return e.expired(time.Now()) })
	var from uint64
	if after != "" {
		e := l.byID[after]
		if e == nil || e.owner != owner {
			return nil, false
		}
		from = e.number
	}
	var out []*taskEntry
	for _, e := range l.order {
		if e.owner == owner && e.number > from && len(out) < n {
			out = append(out, e)
		}
	}
	return out, true
}

// Limits of running tasks in one server.
const (
	maxRunning      = 1024
	maxRunningBytes = 32 << 20 // of their requests, with 16 KiB added for each
	runningBase     = 16 << 10
)

// A runningShare is the usage of the running tasks of one owner.
type runningShare struct {
	tasks int
	bytes int64
}

// admit reserves a place for a running task. An owner may use a quarter of the places and of the
// bytes. The last eighth is reserved for owners without a running task. The caller holds the lock.
func (k *taskTable) admit(owner string, bytes int64) error {
	share := k.shares[owner]
	tight := k.running.tasks >= maxRunning*7/8 || k.running.bytes+bytes > maxRunningBytes*7/8
	switch {
	case k.running.tasks >= maxRunning || k.running.bytes+bytes > maxRunningBytes,
		tight && share.tasks > 0,
		share.tasks >= maxRunning/4,
		share.tasks > 0 && share.bytes+bytes > maxRunningBytes/4:
		return errTaskRoom
	}
	k.account(owner, 1, bytes)
	return nil
}

// account changes the reservations. The caller holds the lock.
func (k *taskTable) account(owner string, tasks int, bytes int64) {
	k.running.tasks += tasks
	k.running.bytes += bytes
	share := k.shares[owner]
	share.tasks += tasks
	share.bytes += bytes
	if share.tasks == 0 {
		delete(k.shares, owner)
	} else {
		k.shares[owner] = share
	}
}

// runningWeight returns the size of a request while its task runs.
func runningWeight(params jsonrpc.Raw) int64 { return runningBase + int64(len(params)) }
