package a2a

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A work is one task of a server: what it is now, the last of its events, and who works on it.
type work struct {
	s     *Server
	owner string
	id    string
	entry *seenEntry // of the message that made it; nil after a restart

	entries []*seenEntry // of all messages that went to it; guarded by the lock of seen

	// order is held from before an event is stored until it is seen, so that all see the same order. It holds during the store's I/O.
	order sync.Mutex

	mu      sync.Mutex // guards what follows; held for no I/O
	task    Task       // its slices are never written to in place: copies of the struct stay as they are
	shown   bool       // it is a task; until then it may still become a message
	reply   *Message   // what the agent said instead of making a task
	refusal error      // what the agent returned instead
	seq     int64      // of the last event
	log     []*logged  // the last events, oldest first
	bytes   int        // of all events so far
	logged  int        // bytes of those in log
	changed chan struct{}
	run     *Run       // nil while nobody works
	inbox   []*Message // messages that nobody has taken yet
	hooks   []*hook

	stored    uint64 // the last record of the task's log; held with order
	compacted uint64 // the record before which nothing counts; likewise
}

// A logged is an event as it was sent.
type logged struct {
	seq   int64
	event Event
	raw   jsonrpc.Raw // v1.0

	once sync.Once
	old  jsonrpc.Raw // v0.3
}

// in returns the text of the event in a version.
func (l *logged) in(v Version) jsonrpc.Raw {
	if v.WrapsResults() {
		return l.raw
	}
	l.once.Do(func() { l.old = mustEncode(eventTo03(l.event)) })
	return l.old
}

// Bounds of one task.
const (
	maxLog      = 1000    // events that a stream can go back to
	maxLogBytes = 4 << 20 // likewise
	maxInbox    = 16      // messages that wait for the agent
	maxHooks    = 32      // webhooks
	maxHistory  = 1000    // messages; the oldest go
)

// snapshot is the task as it is now, and the number of the last event in it.
func (w *work) snapshot() (Task, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.task.own(), w.seq
}

// signalLocked wakes all that wait for a change.
func (w *work) signalLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until ready says so. ready is called with mu held.
func (w *work) await(ctx context.Context, ready func() bool) error {
	for {
		w.mu.Lock()
		ok, changed := ready(), w.changed
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.s.stopping:
			return errStopping
		}
	}
}

// emit brings the task on by one event. Terminal tasks take none.
func (w *work) emit(ctx context.Context, e Event) error {
	w.order.Lock()
	defer w.order.Unlock()
	if err := w.showOrdered(ctx); err != nil {
		return err
	}
	return w.emitOrdered(ctx, e)
}

// emitOrdered is emit with order held.
func (w *work) emitOrdered(ctx context.Context, e Event) error {
	w.mu.Lock()
	over, seq, size := w.task.Status.State.Terminal(), w.seq+1, w.bytes
	w.mu.Unlock()
	if over {
		return ErrTaskOver
	}
	raw, err := encode(e)
	if err != nil {
		return err
	}
	if state := e.State(); size+len(raw) > w.s.opts.MaxTask && !state.Terminal() {
		return ErrTooLarge
	}
	if err := w.s.keep(ctx, w, record{Seq: seq, Event: raw}); err != nil {
		return err
	}
	if e.State().Terminal() {
		w.s.finished(w) // before anybody can see it, so that it makes room from then on
	}
	w.mu.Lock()
	e.Seq = seq
	w.task.Apply(e)
	w.trimLocked()
	w.appendLocked(&logged{seq: seq, event: e, raw: raw})
	hooks := slices.Clone(w.hooks)
	w.signalLocked()
	w.mu.Unlock()
	for _, h := range hooks {
		h.add(raw)
	}
	w.s.report("store", w.s.compact(ctx, w)) // what is stored is stored
	return nil
}

func (w *work) appendLocked(l *logged) {
	w.seq = l.seq
	w.bytes += len(l.raw)
	w.logged += len(l.raw)
	w.log = append(w.log, l)
	for len(w.log) > maxLog || w.logged > maxLogBytes && len(w.log) > 1 {
		w.logged -= len(w.log[0].raw)
		w.log[0] = nil
		w.log = w.log[1:]
	}
}

func (w *work) trimLocked() {
	if n := len(w.task.History); n > maxHistory {
		w.task.History = slices.Clone(w.task.History[n-maxHistory:])
	}
}

// show makes it a task that others can see: its first event is the task itself.
func (w *work) show(ctx context.Context) error {
	w.order.Lock()
	defer w.order.Unlock()
	return w.showOrdered(ctx)
}

func (w *work) showOrdered(ctx context.Context) error {
	w.mu.Lock()
	if w.shown || w.reply != nil || w.refusal != nil {
		done := !w.shown
		w.mu.Unlock()
		if done {
			return ErrTaskOver
		}
		return nil
	}
	task := w.task
	w.mu.Unlock()
	raw := mustEncode(Event{Task: &task})
	if err := w.s.keep(ctx, w, record{Seq: 1, Event: raw, Sent: w.entry.mark()}); err != nil {
		return err
	}
	w.s.list(w) // before anybody can ask for it
	w.mu.Lock()
	w.shown = true
	w.appendLocked(&logged{seq: 1, event: Event{Task: &task, Seq: 1}, raw: raw})
	hooks := slices.Clone(w.hooks)
	w.signalLocked()
	w.mu.Unlock()
	for _, h := range hooks {
		h.add(raw)
	}
	return nil
}

// status makes the event of a new status.
func (w *work) status(state TaskState, parts []Part, metadata Metadata) Event {
	u := &StatusUpdate{TaskID: w.id, ContextID: w.task.ContextID, Metadata: metadata,
		Status: TaskStatus{State: state, Timestamp: now()}}
	if len(parts) > 0 {
		u.Status.Message = &Message{MessageID: newID(), Role: RoleAgent, Parts: parts, TaskID: w.id, ContextID: w.task.ContextID}
	}
	return Event{Status: u}
}

func now() Timestamp { return Timestamp{time.Now().UTC().Truncate(time.Millisecond)} }

// deliver gives a message to a task that exists already. A task that waited for it works again.
func (w *work) deliver(ctx context.Context, r *SendRequest, svc Service, entry *seenEntry) error {
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	state, waiting := w.task.Status.State, len(w.inbox)
	w.mu.Unlock()
	switch {
	case state.Terminal():
		return Fault(ErrUnsupportedOperation, "The task is over and takes no more messages", "taskId", w.id, "state", string(state))
	case waiting >= maxInbox:
		return Fault(errBusy, "", "taskId", w.id)
	}
	if state.Interrupted() {
		if err := w.emitOrdered(ctx, w.status(StateWorking, nil, nil)); err != nil {
			return err
		}
	}
	m := *r.Message
	m.TaskID, m.ContextID = w.id, w.task.ContextID
	if err := w.s.keep(ctx, w, record{Message: mustEncode(m), Sent: entry.mark()}); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.task.History = append(w.task.History, m)
	w.trimLocked()
	w.inbox = append(w.inbox, &m)
	if w.run == nil {
		w.s.startLocked(w, r, svc)
	}
	w.signalLocked()
	return nil
}

// takeLocked returns the next message for the agent, or nil.
func (w *work) takeLocked() *Message {
	if len(w.inbox) == 0 {
		return nil
	}
	m := w.inbox[0]
	w.inbox = w.inbox[1:]
	return m
}

// since returns the events after seq. lost tells that some of them are gone.
func (w *work) sinceLocked(seq int64) (events []*logged, lost bool) {
	if len(w.log) == 0 || seq >= w.seq {
		return nil, seq > w.seq
	}
	first := w.log[0].seq
	if seq+1 < first {
		return nil, true
	}
	return slices.Clone(w.log[seq+1-first:]), false
}

// trimmed is a task with the last n messages of its history; nil means all.
func trimmed(t Task, n *int) *Task {
	if n != nil && *n < len(t.History) {
		t.History = t.History[len(t.History)-*n:]
	}
	return &t
}
