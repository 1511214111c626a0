package a2a

import (
	"context"
	"mime"
	"slices"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// send answers a message: with what comes of it, or as a stream of it.
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

// takes refuses content of a kind that the agent did not offer to take.
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

// fits reports whether a media type is one that mode names, which may end in a wildcard.
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

// accept gives the message to its task, or to a new one, which is then fresh. A message that came before joins what came of it then.
func (c *call) accept(ctx context.Context, p *SendRequest) (w *work, fresh bool, err error) {
	if p.Configuration != nil && p.Configuration.Push != nil {
		if err := c.checkPush(ctx, p.Configuration.Push); err != nil {
			return nil, false, err
		}
	}
	entry, first, err := c.s.seen.enter(ctx, c.svc.Principal, p.Message)
	if err != nil || !first {
		return entry.joined(), false, err
	}
	w, err = c.begin(ctx, p, entry)
	entry.settle(w, err)
	return w, p.Message.TaskID == "", err
}

// begin has the message worked on.
func (c *call) begin(ctx context.Context, p *SendRequest, entry *seenEntry) (*work, error) {
	id := p.Message.TaskID
	if id == "" {
		if err := c.s.room(); err != nil {
			return nil, err
		}
		return c.s.start(ctx, p, c, entry)
	}
	w, err := c.find(id)
	if err != nil {
		return nil, err
	}
	if asked := p.Message.ContextID; asked != "" && asked != w.task.ContextID { // it never changes
		return nil, BadParams("message.contextId", "is not the context of the task")
	}
	if err := c.addPush(ctx, w, p.Configuration); err != nil {
		return nil, err
	}
	return w, w.deliver(ctx, p, c.svc, entry)
}

// addPush registers the webhook that came with a message, if one did.
func (c *call) addPush(ctx context.Context, w *work, o *Configuration) error {
	if o == nil || o.Push == nil {
		return nil
	}
	_, err := w.hook(ctx, *o.Push, c.v)
	return err
}

// start makes a new task and has the agent begin.
func (s *Server) start(ctx context.Context, p *SendRequest, c *call, entry *seenEntry) (*work, error) {
	m := *p.Message
	w := &work{s: s, owner: c.svc.Principal, id: newID(), changed: make(chan struct{}), entry: entry}
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
	s.startLocked(w, p, c.svc)
	return w, nil
}

// wait answers once the task rests, or the agent answered with a message; at once, if the caller does not want to wait.
func (c *call) wait(ctx context.Context, w *work, o *Configuration) (any, error) {
	atOnce := o != nil && o.ReturnImmediately || c.req.IsNotification()
	var task Task
	var reply *Message
	var refusal error
	if err := w.await(ctx, func() bool {
		task, reply, refusal = w.task, w.reply, w.refusal
		return reply != nil || refusal != nil || w.shown && (atOnce || task.Status.State.Rests())
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

// streams refuses a stream where there can be none.
func (c *call) streams() error {
	switch {
	case !c.s.Card().Capabilities.Streaming:
		return Fault(ErrUnsupportedOperation, "Streaming is not supported")
	case c.req.Batched():
		return Fault(ErrUnsupportedOperation, "There are no streams inside a batch")
	}
	return nil
}

// stream sends the task and then its events, until it rests.
func (c *call) stream(ctx context.Context, w *work, fresh bool) (any, error) {
	var task Task
	var seq int64
	var reply *Message
	var refusal error
	if err := w.await(ctx, func() bool {
		task, seq, reply, refusal = w.task, w.seq, w.reply, w.refusal
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

// subscribe sends the task and then its events, until it is over. With [HeaderLastEvent] it goes on behind that event.
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
	task, seq := w.task, w.seq
	after, resume := lastEvent(c.svc.LastEvent)
	missed, lost := w.sinceLocked(after)
	w.mu.Unlock()
	over := task.Status.State.Terminal()
	switch {
	case resume && !lost && (len(missed) > 0 || !over):
		return c.follow(ctx, w, after, ends)
	case over:
		return nil, Fault(ErrUnsupportedOperation, "The task is over; get it instead", "taskId", w.id, "state", string(task.Status.State))
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

// follow sends the events after seq, and returns the last one: the first that ends says so of.
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

// event is the text of an event in the caller's version.
func (c *call) event(e Event) jsonrpc.Raw {
	if c.v.WrapsResults() {
		return mustEncode(e)
	}
	return mustEncode(eventTo03(e))
}

// tell sends one event that is not the last.
func (c *call) tell(ctx context.Context, seq int64, event jsonrpc.Raw) error {
	params := make(jsonrpc.Raw, 0, len(event)+64)
	params = c.req.ID.Append(append(params, `{"request_id":`...))
	params = strconv.AppendInt(append(params, `,"seq":`...), seq, 10)
	params = append(append(params, `,"response":`...), event...)
	return c.req.Peer().Notify(ctx, MethodStream, append(params, '}'))
}
