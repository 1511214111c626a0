package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A task is a call of a tool that goes on after its first answer. Its handler runs on a goroutine that the server owns, until it returns, the
// client cancels it, its time to live is over or the server closes.

// taskKeeper owns the tasks of a server.
type taskKeeper struct {
	s       *Server
	store   TaskStore
	offered atomic.Bool // some tool may become a task
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	life    string // tells the sessions of this process from those of another on the same store

	mu     sync.Mutex // guards what follows
	byID   map[string]*runningTask
	closed bool
}

func newTaskKeeper(s *Server) *taskKeeper {
	k := &taskKeeper{s: s, store: s.opts.Tasks, byID: map[string]*runningTask{}, life: newID()}
	if k.store == nil {
		k.store = NewTaskMemory(10_000)
	}
	k.ctx, k.cancel = context.WithCancelCause(context.Background())
	return k
}

func (k *taskKeeper) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel(jsonrpc.ErrClosed)
	k.running.Wait()
}

func (k *taskKeeper) find(owner, id string) *runningTask {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.byID[id]; t != nil && t.owner == owner {
		return t
	}
	return nil
}

// endSession ends the tasks that only this session could ask for.
func (k *taskKeeper) endSession(n *Session) {
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

// owner is whose tasks they are where callers have no name.
func (n *Session) owner() string { return fmt.Sprintf("session %s %d", n.server.tasks.life, n.serial) }

// knows reports whether there is such a task.
func (k *taskKeeper) knows(owner, id string) bool {
	_, err := k.store.Get(context.Background(), owner, id)
	return err == nil
}

// get returns the newest state of a task.
func (k *taskKeeper) get(ctx context.Context, owner, id string) (*Task, error) {
	if t := k.find(owner, id); t != nil {
		return t.snapshot(), nil
	}
	task, err := k.store.Get(ctx, owner, id)
	return task, taskTrouble(err)
}

// A runningTask is a task whose handler runs.
type runningTask struct {
	keeper  *taskKeeper
	owner   string
	ext     bool     // the extension, not the core of 2025-11-25
	session *Session // of a core task
	born    Task     // as it began
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the task is final

	order sync.Mutex // held from a change of the task until it is stored

	mu      sync.Mutex // guards what follows
	task    Task
	waiting map[string]chan jsonrpc.Raw // by the key of a question of the extension
	wanted  map[string]Question
	used    map[string]int // keys of questions, which never come twice
	voices  []jsonrpc.Peer // of requests that wait for the result
	expiry  *time.Timer
}

var errTaskCancelled = errors.New("mcp: the client cancelled the task")

// begin makes a task for a request. The handler's context ends by end.
func (k *taskKeeper) begin(ctx context.Context, r *Request, ttl time.Duration, end context.CancelCauseFunc) (*runningTask, error) {
	now := time.Now()
	t := &runningTask{keeper: k, owner: r.owner(ctx), ext: r.version.Modern(), session: r.session, cancel: end, done: make(chan struct{}),
		task: Task{ID: newID(), Status: TaskWorking, Created: now, Updated: now, TTL: ttl, PollInterval: k.s.opts.TaskPoll}}
	t.born = t.task
	if err := k.store.Put(ctx, t.owner, &t.born); err != nil {
		k.s.report("task", err)
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
		return nil, jsonrpc.ErrClosed
	}
	return t, nil
}

// expire ends a task whose time is over.
func (t *runningTask) expire() {
	if !t.stop(errTaskExpired) {
		t.keeper.drop(t) // it could not be stored, and was kept until now
	}
}

// drop has the store be all that knows of a task.
func (k *taskKeeper) drop(t *runningTask) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byID, t.born.ID)
}

// owner is whose tasks a request may see: the caller's, and those of its session where callers have no name.
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

// change updates the task, stores it, and then tells those who listen. It reports false when the task was final already. f has the lock.
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
	t.order.Unlock()
	if c.Status.Final() {
		if stored {
			t.keeper.drop(t)
			if t.expiry != nil {
				t.expiry.Stop()
			}
		}
		close(t.done)
	}
	told := c
	told.InputRequests = maps.Clone(c.InputRequests)
	if t.ext {
		t.keeper.s.tell(note{method: NotifyTask, task: &told})
	} else if t.session != nil {
		t.session.tell(note{method: NotifyTaskStatus, task: &told})
	}
	return true
}

// store puts a state of the task into the store. A result that finds no room there is none: after a restart it would be gone, so that the
// task has failed from now on. What cannot be stored at all stays in memory for its time, and will have failed after a restart too.
func (t *runningTask) store(c *Task) bool {
	put := func() error {
		err := t.keeper.store.Put(context.Background(), t.owner, c)
		if err != nil {
			t.keeper.s.report("task", err)
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
			e = jsonrpc.NewError(jsonrpc.CodeResponseTooLarge, "The result is too large to be kept").WithData(jsonrpc.FaultData{Reason: "response_too_large"})
		} else if trouble, ok := errors.AsType[*jsonrpc.Error](taskTrouble(err)); ok {
			e = trouble
		}
		c.Status, c.StatusMessage, c.Result, c.Error = TaskFailed, e.Message, nil, e
		err = put()
	}
	return err == nil
}

// fail ends a task that has no result.
func (t *runningTask) fail(e *jsonrpc.Error) {
	t.change(func(task *Task) {
		task.Status, task.StatusMessage, task.InputRequests, task.Error = TaskFailed, e.Message, nil, e
	})
}

// finish keeps what the handler returned.
func (t *runningTask) finish(result *ToolResult, err error) {
	t.change(func(task *Task) {
		task.InputRequests = nil
		switch e := (*jsonrpc.Error)(nil); {
		case err == nil:
			raw, encErr := encode(result)
			if encErr != nil {
				t.keeper.s.report("task", encErr)
				task.Status, task.Error = TaskFailed, jsonrpc.ErrInternal
				return
			}
			task.Status, task.Result = TaskCompleted, raw
			if result.IsError {
				task.StatusMessage = result.Text()
				if !t.ext {
					task.Status = TaskFailed
				}
			}
		case t.keeper.ctx.Err() != nil && (errors.Is(err, jsonrpc.ErrClosed) || errors.Is(err, jsonrpc.ErrCancelled)):
			task.Status, task.StatusMessage, task.Error = TaskFailed, errTaskStopped.Message, errTaskStopped
		case errors.As(err, &e):
			task.Status, task.StatusMessage, task.Error = TaskFailed, e.Message, e
		default:
			t.keeper.s.report("task", err)
			task.Status, task.StatusMessage, task.Error = TaskFailed, "Internal error", jsonrpc.ErrInternal
		}
	})
}

// ask waits for the client to answer the questions of a task.
func (t *runningTask) ask(ctx context.Context, r *Request, qs []Question, wire map[string]InputRequest) (map[string]Answer, error) {
	if t.ext {
		return t.askByState(ctx, qs, wire)
	}
	peer := t.voice()
	if peer == nil {
		return nil, jsonrpc.ErrOneWay
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
	return r.askNow(ctx, peer, qs, tagged)
}

// voice is the way to the client of a core task: a request that waits for the result, else the session's own.
func (t *runningTask) voice() jsonrpc.Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.voices); n > 0 {
		return t.voices[n-1]
	}
	if t.session == nil {
		return nil
	}
	return t.session.voice
}

// askByState puts the questions into the state of the task, where the client finds them.
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
			if t.used[key]++; t.used[key] > 1 { // a key is never used again within a task
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
	out := make(map[string]Answer, len(all))
	for i, p := range all {
		select {
		case raw := <-p.answer:
			a, err := qs[i].read(raw)
			if err != nil {
				return nil, err // update looked already
			}
			out[p.key] = a
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return out, nil
}

// update hands answers to whoever waits for them. What fits no question, or does not fit its question, is left out.
func (t *runningTask) update(responses map[string]jsonrpc.Raw) {
	type delivery struct {
		to  chan jsonrpc.Raw
		raw jsonrpc.Raw
	}
	var all []delivery
	t.change(func(task *Task) {
		for key, raw := range responses {
			to, ok := t.waiting[key]
			if !ok {
				continue
			}
			q := t.wanted[key]
			if _, err := q.read(raw); err != nil {
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
