package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A task is a tool call that continues after its first response. Its handler runs on a goroutine
// that the server owns, until it returns, the client cancels the task, its time to live ends or the
// server is closed.

// taskTable owns the tasks of a server.
type taskTable struct {
	s       *Server
	store   TaskStore
	offered atomic.Bool // some tool may become a task
	ctx     context.Context
	cancel  context.CancelCauseFunc
	serving sync.WaitGroup
	// distinguishes the sessions of this process from those of other processes on the same store
	life string

	mu      sync.Mutex // guards the fields below
	byID    map[string]*runningTask
	closed  bool
	running runningShare            // of all owners
	shares  map[string]runningShare // by owner
}

func newTaskTable(s *Server) *taskTable {
	k := &taskTable{s: s, store: s.opts.Tasks, byID: map[string]*runningTask{}, shares: map[string]runningShare{}, life: newID()}
	if k.store == nil {
		k.store = NewTaskMemoryWith(nil)
	}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	return k
}

func (k *taskTable) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel(jsonrpc.ErrClosed)
	grace.Wait(&k.serving, grace.Time) // a tool that ignores its context continues
}

func (k *taskTable) find(owner, id string) *runningTask {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.byID[id]; t != nil && t.owner == owner {
		return t
	}
	return nil
}

// endSession cancels the tasks that belong only to this session.
func (k *taskTable) endSession(n *Session) {
	k.mu.Lock()
	var all []*runningTask
	for _, t := range k.byID {
		if t.session == n && t.owner == n.owner() {
			all = append(all, t)
		}
	}
	k.mu.Unlock()
	for _, t := range all {
		t.stop(jsonrpc.ErrClosed)
	}
}

// owner returns the owner of the session's tasks, for callers without a principal.
func (n *Session) owner() string { return fmt.Sprintf("session %s %d", n.server.tasks.life, n.serial) }

// contains reports whether the owner has a task with this ID.
func (k *taskTable) contains(owner, id string) bool {
	_, err := k.store.Get(context.Background(), owner, id)
	return err == nil
}

// get returns the latest state of a task, and the task itself if its handler runs here. A task that
// is not found among the running ones after its state was read may have finished meanwhile; so both
// come from one search.
func (k *taskTable) get(ctx context.Context, owner, id string) (*runningTask, *Task, error) {
	if t := k.find(owner, id); t != nil {
		return t, t.snapshot(), nil
	}
	task, err := k.store.Get(ctx, owner, id)
	return nil, task, taskTrouble(err)
}

// A runningTask is a task whose handler runs.
type runningTask struct {
	tasks   *taskTable
	owner   string
	ext     bool     // the extension, not the tasks of 2025-11-25
	session *Session // of a core task
	born    Task     // the initial state
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the task is final
	weight  int64         // size of its request while the handler runs

	order sync.Mutex // held from a change of the task until the change is stored

	mu      sync.Mutex                  // guards the fields below
	task    Task                        // its InputRequests is replaced, never changed: copies share it
	waiting map[string]chan jsonrpc.Raw // by the key of a question of the extension
	wanted  map[string]Question
	used    map[string]int // keys of questions, which are never reused
	// of requests that wait for the result, while they wait; at most maxVoices
	notifiers []jsonrpc.Peer
	expiry    *time.Timer
}

var errTaskCancelled = errors.New("mcp: the client cancelled the task")

// begin creates a task for a request. end cancels the handler's context.
func (k *taskTable) begin(ctx context.Context, r *Request, ttl time.Duration, end context.CancelCauseFunc) (*runningTask, error) {
	now := time.Now()
	t := &runningTask{tasks: k, owner: r.owner(ctx), ext: r.version.Modern(), session: r.session, cancel: end, done: make(chan struct{}),
		task: Task{ID: newID(), Status: TaskWorking, Created: now, Updated: now, TTL: ttl, PollInterval: k.s.opts.TaskPoll}}
	t.born = t.task
	t.weight = runningWeight(r.rpc.Params)
	k.mu.Lock()
	err := k.admit(t.owner, t.weight)
	k.mu.Unlock()
	if err != nil {
		return nil, taskTrouble(err)
	}
	if err := rescue.Call(k.s.report, func() error { return k.store.Put(ctx, t.owner, &t.born) }); err != nil {
		k.s.report(jsonrpc.ReportTask, err)
		t.over()
		return nil, taskTrouble(err)
	}
	k.mu.Lock()
	closed := k.closed
	if !closed {
		k.byID[t.task.ID] = t
		if ttl >= 0 {
			t.expiry = time.AfterFunc(ttl, t.expire)
		}
	}
	k.mu.Unlock()
	if closed {
		t.fail(errTaskStopped)
		t.over()
		return nil, jsonrpc.ErrClosed
	}
	return t, nil
}

// over releases the place of a task whose handler has returned.
func (t *runningTask) over() {
	t.tasks.mu.Lock()
	defer t.tasks.mu.Unlock()
	t.tasks.account(t.owner, -1, -t.weight)
}

// expire cancels a task whose time to live has ended.
func (t *runningTask) expire() {
	defer rescue.Catch(t.tasks.s.report, nil) // of a TaskStore
	if !t.stop(errTaskExpired) {
		t.tasks.drop(t) // it could not be stored, and was retained in memory until now
	}
}

// drop removes a task from memory. From then on it is only in the store.
func (k *taskTable) drop(t *runningTask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byID, t.born.ID)
}

// owner returns the owner of the tasks that a request may access: the caller's principal, or the
// session if the caller has no principal.
func (r *Request) owner(ctx context.Context) string {
	p := r.server.principal(ctx)
	if p == "" && r.session != nil {
		return r.session.owner()
	}
	return "principal " + p
}

func (t *runningTask) snapshot() *Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.task
	c.InputRequests = maps.Clone(c.InputRequests)
	return &c
}

// change updates the task, stores it, and then notifies the listeners. It reports false if the task
// was already final. f runs with the lock held.
func (t *runningTask) change(f func(*Task)) bool {
	t.order.Lock()
	t.mu.Lock()
	if t.task.Status.Final() {
		t.mu.Unlock()
		t.order.Unlock()
		return false
	}
	c := t.task
	c.InputRequests = maps.Clone(c.InputRequests)
	f(&c)
	c.Updated = time.Now()
	t.mu.Unlock()
	stored := t.store(&c)
	t.mu.Lock()
	t.task = c
	t.mu.Unlock()
	t.notify(&c) // in the order of the changes
	t.order.Unlock()
	if c.Status.Final() {
		if stored {
			t.tasks.drop(t)
			if t.expiry != nil {
				t.expiry.Stop()
			}
		}
		close(t.done)
	}
	return true
}

// store writes a state of the task to the store. If a result cannot be stored, the task becomes
// failed, because the result would be lost at a restart. If the failure cannot be stored either, it
// stays in memory for the task's time to live; after a restart the task is failed too.
func (t *runningTask) store(c *Task) bool {
	put := func() error {
		// A panic must not leave the task locked.
		err := rescue.Call(t.tasks.s.report, func() error { return t.tasks.store.Put(context.Background(), t.owner, c) })
		if err != nil {
			t.tasks.s.report(jsonrpc.ReportTask, err)
		}
		return err
	}
	err := put()
	if err == nil {
		return true
	}
	if c.Status == TaskCompleted || c.Result != nil {
		e := jsonrpc.ErrInternal
		if errors.Is(err, store.ErrLimit) {
			e = jsonrpc.NewError(jsonrpc.CodeResponseTooLarge, "The result is too large to be stored").WithData(jsonrpc.FaultData{Reason: "response_too_large"})
		} else if trouble, ok := errors.AsType[*jsonrpc.Error](taskTrouble(err)); ok {
			e = trouble
		}
		c.Status, c.StatusMessage, c.Result, c.Error = TaskFailed, e.Message, nil, e
		err = put()
	}
	return err == nil
}

// fail ends a task without a result.
func (t *runningTask) fail(e *jsonrpc.Error) {
	t.change(func(task *Task) {
		task.Status, task.StatusMessage, task.InputRequests, task.Error = TaskFailed, e.Message, nil, e
	})
}

// finish stores what the handler returned.
func (t *runningTask) finish(result *ToolResult, err error) {
	t.change(func(task *Task) {
		task.InputRequests = nil
		switch e := (*jsonrpc.Error)(nil); {
		case err == nil:
			raw, encErr := encode(result)
			if encErr != nil {
				t.tasks.s.report(jsonrpc.ReportTask, encErr)
				task.Status, task.Error = TaskFailed, jsonrpc.ErrInternal
				return
			}
			task.Status, task.StatusMessage, task.Result = TaskCompleted, "", raw
			if result.IsError {
				task.StatusMessage = result.Text()
				if !t.ext {
					task.Status = TaskFailed
				}
			}
		case t.tasks.ctx.Err() != nil && (errors.Is(err, jsonrpc.ErrClosed) || errors.Is(err, jsonrpc.ErrCancelled)):
			task.Status, task.StatusMessage, task.Error = TaskFailed, errTaskStopped.Message, errTaskStopped
		case errors.As(err, &e):
			task.Status, task.StatusMessage, task.Error = TaskFailed, e.Message, e
		default:
			t.tasks.s.report(jsonrpc.ReportTask, err)
			task.Status, task.StatusMessage, task.Error = TaskFailed, "Internal error", jsonrpc.ErrInternal
		}
	})
}

// say sets the status message and notifies the listeners. It is not stored, because the task is
// failed after a restart anyway.
func (t *runningTask) say(message string) {
	t.order.Lock()
	defer t.order.Unlock()
	t.mu.Lock()
	if t.task.Status.Final() || t.task.StatusMessage == message {
		t.mu.Unlock()
		return
	}
	t.task.StatusMessage, t.task.Updated = message, time.Now()
	c := t.task
	t.mu.Unlock()
	t.notify(&c)
}

// notify notifies the listeners of a state of the task.
func (t *runningTask) notify(task *Task) {
	if t.ext {
		t.tasks.s.notify(note{method: NotifyTask, task: task})
	} else if t.session != nil {
		t.session.notify(note{method: NotifyTaskStatus, task: task})
	}
}

// ask waits until the client has answered the questions of a task.
func (t *runningTask) ask(ctx context.Context, r *Request, qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	if t.ext {
		return t.askByState(ctx, qs, wire)
	}
	related := append([]byte(`{"_meta":{"`+MetaRelatedTask+`":{"taskId":`), mustEncode(t.task.ID)...)
	related = append(related, `}}}`...)
	tagged := make(map[string]InputRequest, len(wire))
	for key, in := range wire {
		params := append([]byte{}, related...)
		if len(in.Params) > 2 {
			params = append(append(params[:len(params)-1], ','), in.Params[1:]...)
		}
		tagged[key] = InputRequest{Method: in.Method, Params: params}
	}
	t.change(func(task *Task) { task.Status = TaskInputRequired })
	defer t.change(func(task *Task) { task.Status = TaskWorking })
	for {
		peer := t.notifier()
		if peer == nil {
			return nil, jsonrpc.ErrOneWay
		}
		answers, err := r.askNow(ctx, peer, qs, tagged)
		if ctx.Err() == nil && (errors.Is(err, jsonrpc.ErrAnswered) || errors.Is(err, jsonrpc.ErrPeerCancelled)) && jsonrpc.NotSent(err) && t.unvoice(peer) {
			continue // the request used as the voice ended before anything was sent
		}
		return answers, err
	}
}

// maxVoices is the maximum number of requests for the result of one task that it may use to send
// messages.
const maxVoices = 16

// listen lets the task send messages on a request that waits for its result, until the returned
// function is called.
func (t *runningTask) listen(peer jsonrpc.Peer) (over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.notifiers) < maxVoices {
		t.notifiers = append(t.notifiers, peer)
	}
	return func() { t.unvoice(peer) }
}

// unvoice removes a voice, and reports whether it was there.
func (t *runningTask) unvoice(peer jsonrpc.Peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.notifiers)
	t.notifiers = slices.DeleteFunc(t.notifiers, func(other jsonrpc.Peer) bool { return other == peer })
	return len(t.notifiers) < before
}

// notifier returns the Peer for messages of a core task: of a request that waits for the result,
// otherwise that of the session.
func (t *runningTask) notifier() jsonrpc.Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.notifiers); n > 0 {
		return t.notifiers[n-1]
	}
	if t.session == nil {
		return nil
	}
	return t.session.notifier
}

// askByState adds the questions to the state of the task, where the client reads them.
func (t *runningTask) askByState(ctx context.Context, qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	type pending struct {
		key, onWire string
		answer      chan jsonrpc.Raw
	}
	var all []pending
	ok := t.change(func(task *Task) {
		if t.waiting == nil {
			t.waiting, t.wanted, t.used = map[string]chan jsonrpc.Raw{}, map[string]Question{}, map[string]int{}
		}
		if task.InputRequests == nil {
			task.InputRequests = map[string]InputRequest{}
		}
		for i := range qs {
			key := qs[i].Key
			if t.used[key]++; t.used[key] > 1 { // a key is never reused within a task
				key = fmt.Sprintf("%s-%d", key, t.used[key])
			}
			p := pending{qs[i].Key, key, make(chan jsonrpc.Raw, 1)}
			all = append(all, p)
			t.waiting[key], t.wanted[key] = p.answer, qs[i]
			task.InputRequests[key] = wire[qs[i].Key]
		}
		task.Status = TaskInputRequired
	})
	if !ok {
		return nil, errTaskCancelled
	}
	answered := false
	defer func() {
		if answered {
			return
		}
		t.change(func(task *Task) { // the answers would be discarded
			for _, p := range all {
				delete(t.waiting, p.onWire)
				delete(t.wanted, p.onWire)
				delete(task.InputRequests, p.onWire)
			}
			if len(t.waiting) == 0 && task.Status == TaskInputRequired {
				task.Status, task.InputRequests = TaskWorking, nil
			}
		})
	}()
	out := make(map[string]Answer, len(all))
	for i, p := range all {
		select {
		case raw := <-p.answer:
			a, err := qs[i].read(ctx, raw)
			if err != nil {
				return nil, err // update has already checked it
			}
			out[p.key] = a
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	answered = true
	return out, nil
}

// update delivers answers to the waiting questions. It ignores answers without a question, and
// answers that do not fit their question.
func (t *runningTask) update(ctx context.Context, responses map[string]jsonrpc.Raw) {
	type delivery struct {
		to  chan jsonrpc.Raw
		raw jsonrpc.Raw
	}
	// questions whose answers fit; determined without the lock, because it takes time
	fitting := map[string]Question{}
	t.mu.Lock()
	for key := range responses {
		if q, ok := t.wanted[key]; ok {
			fitting[key] = q
		}
	}
	t.mu.Unlock()
	for key, q := range fitting {
		if _, err := q.read(ctx, responses[key]); err != nil {
			delete(fitting, key)
		}
	}
	var all []delivery
	t.change(func(task *Task) {
		for key := range fitting {
			raw := responses[key]
			to, ok := t.waiting[key]
			if !ok { // another answer came first; a key is never reused
				continue
			}
			all = append(all, delivery{to, raw})
			delete(t.waiting, key)
			delete(t.wanted, key)
			delete(task.InputRequests, key)
		}
		if len(t.waiting) == 0 && task.Status == TaskInputRequired {
			task.Status, task.InputRequests = TaskWorking, nil
		}
	})
	for _, d := range all {
		d.to <- d.raw
	}
}
