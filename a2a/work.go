package a2a

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A work is one task of a server: its current state, its last events, and its run.
type work struct {
	s     *Server
	owner string
	id    string
	entry *seenEntry // of the message that created it; nil after a restart

	entries []*seenEntry // of all messages assigned to it; guarded by the lock of seen
	gone    bool         // it was removed; guarded likewise

	// order is held from before an event is stored until it is visible, so that all readers see the
	// same order. It is held during the store's I/O.
	order sync.Mutex

	mu      sync.Mutex     // guards the fields below; not held during I/O
	task    Task           // it changes in place: use snapshot for copies
	places  map[string]int // the indexes of its artifacts by their IDs; see place
	shown   bool           // it is a visible task; until then it may become a message
	reply   *Message       // the agent's reply instead of a task
	refusal error          // the agent's error instead of a task
	seq     int64          // of the last event
	log     []*logged      // the last events, oldest first
	bytes   int            // of all events so far
	logged  int            // bytes of those in log
	changed chan struct{}
	run     *Run       // nil while no agent runs
	inbox   []*Message // messages that the agent has not received yet
	hooks   []*hook
	// Input to repeat the run after a restart; nil without a store, and once the task is over.
	past  *past
	again *past // of an earlier process: the next message repeats it; nil once it does

	// Guarded by the mutex of the server once the task is over, and by order until then.
	held     int64         // bytes that the task holds
	admitted int64         // bytes of held that are messages; guarded by the mutex of the server
	ended    time.Time     // when it was over
	place    *list.Element // in the server's list of finished tasks
	mine     *list.Element // in the owner's list of finished tasks

	stored    uint64 // the last record of the task's log; guarded by order
	compacted uint64 // the record before which all are obsolete; guarded likewise
	whole     int    // bytes of the last record of the whole task; guarded likewise
	since     int    // bytes of the records after it; guarded likewise
}

// A logged is an event in its encoded form.
type logged struct {
	seq   int64
	event Event
	size  int         // of raw
	raw   jsonrpc.Raw // v1.0; nil if it is encoded again for each reader

	once sync.Once
	old  jsonrpc.Raw // v0.3
}

// in returns the JSON text of the event in a version.
func (l *logged) in(v Version) jsonrpc.Raw {
	switch {
	case v.WrapsResults() && l.raw != nil:
		return l.raw
	case v.WrapsResults():
		return mustEncode(l.event)
	case l.size > smallEvent:
		return mustEncode(eventTo03(l.event))
	}
	l.once.Do(func() { l.old = mustEncode(eventTo03(l.event)) })
	return l.old
}

// smallEvent is the size in bytes up to which the text of an event is stored beside the event.
const smallEvent = 4 << 10

// slim drops a long text, so that content of the task is not stored twice.
func (l *logged) slim() (freed int64) {
	if len(l.raw) <= smallEvent {
		return 0
	}
	freed, l.raw = int64(len(l.raw)), nil
	return freed
}

// Bounds of one task.
const (
	maxLog      = 1000     // events that a stream can resume from
	maxLogBytes = 4 << 20  // likewise
	maxInbox    = 16       // messages waiting for the agent
	maxHooks    = 32       // webhooks
	maxHookSize = 16 << 10 // bytes of one
	maxHistory  = 1000     // messages; the oldest are removed
)

// snapshot returns the current task, and the number of the last event in it.
func (w *work) snapshot() (Task, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.task.own(), w.seq
}

// signalLocked wakes all goroutines that wait for a change.
func (w *work) signalLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until ready returns true. ready is called with mu held.
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

// emit adds one event to the task. A task that is over accepts no events.
func (w *work) emit(ctx context.Context, e Event) error { return w.emitAsked(ctx, e, "") }

// emitAsked is emit for a question with its digest.
func (w *work) emitAsked(ctx context.Context, e Event, asked string) error {
	w.order.Lock()
	defer w.order.Unlock()
	if err := w.showOrdered(ctx); err != nil {
		return err
	}
	return w.emitOrdered(ctx, e, asked)
}

// emitOrdered is emitAsked with order held.
func (w *work) emitOrdered(ctx context.Context, e Event, asked string) error {
	w.mu.Lock()
	over, seq, size := w.task.Status.State.Terminal(), w.seq+1, w.bytes
	w.mu.Unlock()
	if over {
		return ErrTaskOver
	}
	if u := e.Artifact; u != nil && u.Append && !w.hasArtifact(u.Artifact.ArtifactID) {
		first := *u // there is nothing to append to, as after a failed first chunk
		first.Append = false
		e.Artifact = &first
	}
	raw, err := encode(e)
	if err != nil {
		return err
	}
	ends := e.State().Terminal()
	more := int64(eventWeight + len(raw)) // stored once in the task
	if !ends {
		more += int64(len(raw)) // and once in the log
		if size+len(raw) > w.s.opts.MaxTask || !w.s.hold(w, more) {
			return ErrTooLarge
		}
	}
	unstored := w.s.keep(ctx, w, record{Seq: seq, Event: raw, Asked: asked})
	if unstored != nil && !ends {
		w.held -= more
		w.s.held.Add(-more)
		return unstored
	}
	// A task ends even if its end cannot be stored: its callers wait for it.
	if ends {
		// Before the event is visible, so that the task can be removed to make room from then on.
		w.finish(more)
	}
	w.mu.Lock()
	e.Seq = seq
	w.applyLocked(e)
	w.trimLocked()
	switch {
	case e.State().Terminal():
		w.past, w.again, w.inbox = nil, nil, nil
	case asked != "" && w.past != nil:
		w.past.ask(asked)
	}
	last := &logged{seq: seq, event: e, size: len(raw), raw: raw}
	if freed := w.appendLocked(last); ends {
		last.slim()
	} else {
		w.held -= freed
		w.s.held.Add(-freed)
	}
	hooks := slices.Clone(w.hooks)
	w.signalLocked()
	w.mu.Unlock()
	for _, h := range hooks {
		h.add(raw)
	}
	if unstored != nil {
		w.s.report(jsonrpc.ReportStore, fmt.Errorf("the end of %s: %w", w.id, unstored))
		if errors.Is(unstored, store.ErrLimit) {
			w.s.report(jsonrpc.ReportStore, w.s.rewrite(ctx, w))
		}
		return nil
	}
	// a failure here does not affect what is already stored
	w.s.report(jsonrpc.ReportStore, w.s.compact(ctx, w))
	return nil
}

func (w *work) hasArtifact(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.placeLocked(id) >= 0
}

// placeLocked returns the index of an artifact of the task, or -1. A task may have many artifacts,
// and each event of an agent may be about another one.
func (w *work) placeLocked(id string) int {
	for i := len(w.places); i < len(w.task.Artifacts); i++ {
		if w.places == nil {
			w.places = make(map[string]int)
		}
		w.places[w.task.Artifacts[i].ArtifactID] = i
	}
	if at, ok := w.places[id]; ok {
		return at
	}
	return -1
}

// applyLocked updates the task with an event, without a copy of what it has already.
func (w *work) applyLocked(e Event) {
	switch {
	case e.Artifact != nil:
		w.task.applyArtifact(w.placeLocked(e.Artifact.Artifact.ArtifactID), e.Artifact)
	case e.Task != nil:
		w.places = nil
		w.task.apply(e)
	default:
		w.task.apply(e)
	}
}

// finish counts a task as over before the event that ends it is added; more is the size of that
// event. The caller must hold order.
func (w *work) finish(more int64) {
	w.mu.Lock()
	held := w.held + more
	log := make([]*logged, len(w.log))
	for i, l := range w.log {
		if log[i] = l; len(l.raw) > smallEvent {
			// readers may hold the old value
			log[i] = &logged{seq: l.seq, event: l.event, size: l.size, raw: l.raw}
		}
		held -= log[i].slim()
	}
	w.log = log
	w.mu.Unlock()
	w.s.finished(w, held, true)
}

// appendLocked adds an event to the log, and returns the bytes of text that were removed for it.
func (w *work) appendLocked(l *logged) (freed int64) {
	w.seq = l.seq
	w.bytes += l.size
	w.logged += l.size
	w.log = append(w.log, l)
	for len(w.log) > maxLog || w.logged > maxLogBytes && len(w.log) > 1 {
		w.logged -= w.log[0].size
		freed += int64(len(w.log[0].raw))
		w.log[0] = nil
		w.log = w.log[1:]
	}
	return freed
}

func (w *work) trimLocked() {
	if n := len(w.task.History); n > maxHistory {
		w.task.History = w.task.History[n-maxHistory:] // the next append copies it, if there is no room
	}
}

// show makes the task visible to callers: its first event is the task itself.
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
	task := w.task.own()
	var b *begin
	if w.past != nil {
		b = &w.past.Begin
	}
	w.mu.Unlock()
	raw := mustEncode(Event{Task: &task})
	if err := w.s.keep(ctx, w, record{Seq: 1, Event: raw, Sent: w.entry.mark(), Begin: b}); err != nil {
		return err
	}
	w.s.list(w) // before a caller can request it
	w.mu.Lock()
	w.shown = true
	first := &logged{seq: 1, event: Event{Task: &task, Seq: 1}, size: len(raw), raw: raw}
	first.slim() // the message is in the task
	w.appendLocked(first)
	hooks := slices.Clone(w.hooks)
	w.signalLocked()
	w.mu.Unlock()
	for _, h := range hooks {
		h.add(raw)
	}
	return nil
}

// status returns the event of a new status.
func (w *work) status(state TaskState, parts []Part, metadata Metadata) Event {
	u := &StatusUpdate{TaskID: w.id, ContextID: w.task.ContextID, Metadata: metadata,
		Status: TaskStatus{State: state, Timestamp: now()}}
	if len(parts) > 0 {
		u.Status.Message = &Message{MessageID: newID(), Role: RoleAgent, Parts: parts, TaskID: w.id, ContextID: w.task.ContextID}
	}
	return Event{Status: u}
}

func now() Timestamp { return Timestamp{time.Now().UTC().Truncate(time.Millisecond)} }

// deliver adds a message to an existing task. A task that waited for it continues.
func (w *work) deliver(ctx context.Context, r *SendRequest, svc Service, entry *seenEntry, weight int64) error {
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	state, waiting, size := w.task.Status.State, len(w.inbox), w.bytes
	w.mu.Unlock()
	m := *r.Message
	m.TaskID, m.ContextID = w.id, w.task.ContextID
	text := mustEncode(m)
	switch {
	case state.Terminal():
		return Fault(ErrUnsupportedOperation, "The task has ended and accepts no more messages", "taskId", w.id, "state", string(state))
	case waiting >= maxInbox:
		return Fault(errBusy, "", "taskId", w.id)
	case size+len(text) > w.s.opts.MaxTask:
		return Fault(ErrUnsupportedOperation, "The task has no room for more messages", "taskId", w.id, "limit", strconv.Itoa(w.s.opts.MaxTask))
	}
	if state.Interrupted() {
		if err := w.emitOrdered(ctx, w.status(StateWorking, nil, nil), ""); err != nil {
			return err
		}
	}
	w.mu.Lock()
	again, starts := w.again, w.run == nil
	var b *begin
	if starts && again == nil {
		b = w.beginLocked(r, svc)
	}
	w.mu.Unlock()
	if err := w.s.keep(ctx, w, record{Message: text, Sent: entry.mark(), Begin: b}); err != nil {
		return err
	}
	w.s.chargeTask(w, weight)
	w.mu.Lock()
	w.bytes += len(text)
	w.task.History = append(w.task.History, m)
	w.trimLocked()
	if again == nil || !again.Lost {
		w.inbox = append(w.inbox, &m)
	}
	if w.past != nil {
		w.past.Answers = append(w.past.Answers, m)
	}
	switch {
	case !starts:
	case again == nil:
		w.s.startLocked(w, r, svc, b)
	case !again.Lost:
		w.again = nil
		w.s.repeatLocked(w, again)
	}
	w.signalLocked()
	w.mu.Unlock()
	if again != nil && again.Lost {
		return w.emitOrdered(ctx, w.status(StateFailed, []Part{Text(told[errNoPast])}, nil), "")
	}
	return nil
}

// takeLocked removes and returns the next message for the agent, or nil.
func (w *work) takeLocked() *Message {
	if len(w.inbox) == 0 {
		return nil
	}
	m := w.inbox[0]
	w.inbox = w.inbox[1:]
	return m
}

// sinceLocked returns the events after seq. lost reports that some of them are no longer in the
// log.
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

// trimmed returns a task with the last n messages of its history; nil means all.
func trimmed(t Task, n *int) *Task {
	if n != nil && *n < len(t.History) {
		t.History = t.History[len(t.History)-*n:]
	}
	return &t
}
