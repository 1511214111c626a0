package a2a

import (
	"context"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// send handles a message, and returns its result or a stream of events.
func (c *call) send(ctx context.Context, p *SendRequest, stream bool) (any, error) {
	if stream {
		if err := c.streams(); err != nil {
			return nil, err
		}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := c.takes(p.Message); err != nil {
		return nil, err
	}
	w, fresh, err := c.accept(ctx, p)
	if err != nil {
		return nil, err
	}
	if stream {
		return c.stream(ctx, w, fresh)
	}
	return c.wait(ctx, w, p.Configuration)
}

// takes returns an error if a message has content of a media type that the agent does not accept.
func (c *call) takes(m *Message) error {
	modes := c.s.Card().InputModes()
	if len(modes) == 0 {
		return nil
	}
	for _, p := range m.Parts {
		if p.MediaType != "" && !slices.ContainsFunc(modes, func(mode string) bool { return fits(mode, p.MediaType) }) {
			return Fault(ErrContentTypeNotSupported, "", "mediaType", p.MediaType)
		}
	}
	return nil
}

// fits reports whether a media type matches mode, which may end in a wildcard.
func fits(mode, mediaType string) bool {
	if bare, _, err := mime.ParseMediaType(mediaType); err == nil {
		mediaType = bare
	}
	if bare, _, err := mime.ParseMediaType(mode); err == nil {
		mode = bare
	}
	family, all := strings.CutSuffix(mode, "/*")
	switch {
	case mode == "*/*" || mode == "*":
		return true
	case all:
		return strings.HasPrefix(strings.ToLower(mediaType), strings.ToLower(family)+"/")
	}
	return strings.EqualFold(mode, mediaType)
}

// accept assigns the message to its task, or to a new one; fresh reports which. A message that was
// received before joins its earlier task.
func (c *call) accept(ctx context.Context, p *SendRequest) (w *work, fresh bool, err error) {
	if p.Configuration != nil && p.Configuration.Push != nil {
		if err := c.checkPush(ctx, p.Configuration.Push); err != nil {
			return nil, false, err
		}
	}
	entry, first, err := c.s.seen.enter(ctx, c.svc.Principal, p.Message)
	if err != nil || !first {
		if err == nil {
			w, err = entry.joined()
		}
		return w, false, err
	}
	w, err = c.startMessage(ctx, p, entry)
	entry.settle(w, err)
	return w, p.Message.TaskID == "", err
}

// startMessage starts the work on the message.
func (c *call) startMessage(ctx context.Context, p *SendRequest, entry *seenEntry) (*work, error) {
	id, weight := p.Message.TaskID, weigh(p.Message)
	if id == "" {
		weight += entryWeight
		if err := c.s.admit(c.svc.Principal, weight, true); err != nil {
			return nil, err
		}
		w, err := c.s.start(ctx, p, c, entry, weight)
		if err != nil {
			c.s.release(c.svc.Principal, weight)
		}
		return w, err
	}
	w, err := c.find(id)
	if err != nil {
		return nil, err
	}
	// The context of a task never changes.
	if asked := p.Message.ContextID; asked != "" && asked != w.task.ContextID {
		return nil, BadParams("message.contextId", "is not the context of the task")
	}
	if err := c.addPush(ctx, w, p.Configuration); err != nil {
		return nil, err
	}
	if err := c.s.admit(w.owner, weight, false); err != nil {
		return nil, err
	}
	if err := w.deliver(ctx, p, c.svc, entry, weight); err != nil {
		c.s.release(w.owner, weight)
		return w, err
	}
	return w, nil
}

// addPush registers the webhook in a message, if there is one.
func (c *call) addPush(ctx context.Context, w *work, o *Configuration) error {
	if o == nil || o.Push == nil {
		return nil
	}
	_, err := w.hook(ctx, *o.Push, c.v)
	return err
}

// start creates a task and starts the agent.
func (s *Server) start(ctx context.Context, p *SendRequest, c *call, entry *seenEntry, weight int64) (*work, error) {
	m := *p.Message
	w := &work{s: s, held: weight, admitted: weight, owner: c.svc.Principal, id: newID(), changed: make(chan struct{}), entry: entry}
	if m.ContextID == "" {
		m.ContextID = newID()
	}
	m.TaskID = w.id
	w.task = Task{ID: w.id, ContextID: m.ContextID, Status: TaskStatus{State: StateSubmitted, Timestamp: now()}, History: []Message{m}}
	w.inbox = []*Message{&m}
	if err := c.addPush(ctx, w, p.Configuration); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errStopping
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.startLocked(w, p, c.svc, w.beginLocked(p, c.svc))
	return w, nil
}

// wait returns once the task is over or waits for input, or the agent has replied with a message.
// If the caller does not want to wait, it returns at once.
func (c *call) wait(ctx context.Context, w *work, o *Configuration) (any, error) {
	atOnce := o != nil && o.ReturnImmediately || c.req.IsNotification()
	var task Task
	var reply *Message
	var refusal error
	if err := w.await(ctx, func() bool {
		reply, refusal = w.reply, w.refusal
		done := w.shown && (atOnce || w.task.Status.State.Rests())
		if done {
			task = w.task.own()
		}
		return reply != nil || refusal != nil || done
	}); err != nil {
		return nil, err
	}
	switch {
	case refusal != nil:
		return nil, refusal
	case reply != nil:
		return Event{Message: reply}, nil
	}
	var n *int
	if o != nil {
		n = o.HistoryLength
	}
	return Event{Task: trimmed(task, n)}, nil
}

// streams returns an error if streams are not available.
func (c *call) streams() error {
	switch {
	case !c.s.Card().Capabilities.Streaming:
		return Fault(ErrUnsupportedOperation, "Streaming is not supported")
	case c.req.Batched():
		return Fault(ErrUnsupportedOperation, "Streams are not supported in a batch")
	}
	return nil
}

// stream sends the task and then its events, until the task is over or waits for input.
func (c *call) stream(ctx context.Context, w *work, fresh bool) (any, error) {
	var task Task
	var seq int64
	var reply *Message
	var refusal error
	if err := w.await(ctx, func() bool {
		if seq, reply, refusal = w.seq, w.reply, w.refusal; w.shown {
			task = w.task.own()
		}
		return w.shown || reply != nil || refusal != nil
	}); err != nil {
		return nil, err
	}
	switch {
	case refusal != nil:
		return nil, refusal
	case reply != nil:
		return c.event(Event{Message: reply}), nil
	case fresh:
		return c.follow(ctx, w, 0, TaskState.Rests) // the first event is the task
	case task.Status.State.Rests():
		return c.event(Event{Task: &task}), nil
	}
	if err := c.tell(ctx, seq, c.event(Event{Task: &task})); err != nil {
		return nil, err
	}
	return c.follow(ctx, w, seq, TaskState.Rests)
}

// subscribe sends the task and then its events, until the task is over. With [HeaderLastEvent] it
// resumes after that event.
func (c *call) subscribe(ctx context.Context, p *TaskRequest) (any, error) {
	if err := c.streams(); err != nil {
		return nil, err
	}
	w, err := c.find(p.ID)
	if err != nil {
		return nil, err
	}
	ends := TaskState.Terminal
	if !c.v.StreamsPastQuestions() {
		ends = TaskState.Rests
	}
	w.mu.Lock()
	task, seq := w.task.own(), w.seq
	after, resume := lastEvent(c.svc.LastEvent)
	missed, lost := w.sinceLocked(after)
	w.mu.Unlock()
	over := task.Status.State.Terminal()
	switch {
	case resume && !lost && (len(missed) > 0 || !over):
		return c.follow(ctx, w, after, ends)
	case over:
		return nil, Fault(ErrUnsupportedOperation, "The task has ended; use GetTask instead", "taskId", w.id, "state", string(task.Status.State))
	}
	if err := c.tell(ctx, seq, c.event(Event{Task: &task})); err != nil {
		return nil, err
	}
	return c.follow(ctx, w, seq, ends)
}

func lastEvent(text string) (seq int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0
}

// follow sends the events after seq, and returns the last one, which is the first for whose state
// ends returns true.
func (c *call) follow(ctx context.Context, w *work, seq int64, ends func(TaskState) bool) (any, error) {
	for {
		var events []*logged
		var lost bool
		if err := w.await(ctx, func() bool {
			events, lost = w.sinceLocked(seq)
			return lost || len(events) > 0
		}); err != nil {
			return nil, err
		}
		if lost {
			return nil, Fault(errLagging, "", "taskId", w.id)
		}
		for _, e := range events {
			if ends(e.event.State()) {
				return e.in(c.v), nil
			}
			if err := c.tell(ctx, e.seq, e.in(c.v)); err != nil {
				return nil, err
			}
			seq = e.seq
		}
	}
}

// event returns the JSON text of an event in the caller's protocol version.
func (c *call) event(e Event) jsonrpc.Raw {
	if c.v.WrapsResults() {
		return mustEncode(e)
	}
	return mustEncode(eventTo03(e))
}

// tell sends one event that is not the last.
func (c *call) tell(ctx context.Context, seq int64, event jsonrpc.Raw) error {
	return c.req.Peer().Notify(ctx, MethodStream, &StreamEvent{RequestID: c.req.ID, Seq: seq, Response: event})
}
