package editoragent

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options configures [New].
type Options struct {
	// Editor configures the agent beyond prompts, such as the modes and options of its sessions.
	// Its Prompt and Ended are not used.
	Editor editor.AgentOptions
}

// New returns an agent of this protocol that serves one editor per process.
func New(a *agent.Agent, o *Options) *editor.Agent {
	if o == nil {
		o = &Options{}
	}
	h := &host{agent: a, waiting: map[string]*work{}}
	opts := o.Editor
	opts.Prompt, opts.Ended = h.prompt, h.ended
	opts.Prompts = editor.PromptCapabilities{Image: true, Audio: true, EmbeddedContext: true}
	opts.Meta = opts.Meta.With(agent.MetaCard, a.Card)
	if opts.Report == nil {
		opts.Report = a.Report
	}
	version := a.Version
	if version == "" {
		version = "0"
	}
	return editor.NewAgent(editor.Implementation{Name: a.Name, Title: a.Title, Version: version}, &opts)
}

// Turn returns the session of a run, through which the run reads and writes the editor's files
// while it is running. It returns nil if the run came through another protocol, directly or
// forwarded.
func Turn(r *agent.Run) *editor.Session {
	w, ok := r.Caller.(*work)
	if !ok {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn == nil {
		return w.outside
	}
	return w.turn.Session
}

// A host is an agent with its runs that wait for a prompt of the user.
type host struct {
	agent *agent.Agent

	mu      sync.Mutex // guards the fields below
	waiting map[string]*work
}

// A work is one run. It spans several turns if the editor does not support forms and the user's
// next prompt is the answer.
type work struct {
	host    *host
	session string
	ctx     context.Context // the run's
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the run ends
	result  *agent.Result // set before done is closed
	asked   chan *agent.Question
	answer  chan *agent.Answer

	mu       sync.Mutex // guards the fields below and the order of output
	turn     *editor.Turn
	during   context.Context // of the turn
	outside  *editor.Session
	progress bool // progress was shown
	asks     int  // the number of permission requests
}

// prompt runs one turn: it starts a run or answers the waiting one.
func (h *host) prompt(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
	h.mu.Lock()
	w := h.waiting[t.ID]
	delete(h.waiting, t.ID)
	h.mu.Unlock()
	if w != nil && w.ctx.Err() != nil { // cancelled while it was asking
		select {
		case <-w.done:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		w = nil
	}
	if w != nil {
		w.enter(ctx, t)
		w.answer <- answerOf(t) // buffer of one, empty here
	} else {
		w = h.startWork(ctx, t)
	}
	cancelled := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer cancelled()
	stuck, release := grace.After(ctx, grace.Time)
	defer release()
	select {
	case q := <-w.asked:
		return w.park(ctx, t, q)
	case <-w.done:
	case <-stuck: // the agent ignores its context, and continues in the background
		return "", context.Cause(ctx)
	}
	return w.finish(ctx, t)
}

// startWork starts a run on its own goroutine, which ends before the session does.
func (h *host) startWork(ctx context.Context, t *editor.Turn) *work {
	w := &work{host: h, session: t.ID, done: make(chan struct{}), asked: make(chan *agent.Question), answer: make(chan *agent.Answer, 1)}
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	w.enter(ctx, t)
	r := &agent.Run{Session: t.ID, Protocol: "editor", Caller: w}
	r.Input, r.Metadata = promptFrom(t.Params)
	r.Metadata = r.Metadata.With("editor/cwd", t.CWD)
	go func() {
		defer close(w.done)
		defer w.cancel(nil)
		ctx, over := agent.Cancels(w.ctx, editor.ErrTurnCancelled, jsonrpc.ErrPeerCancelled, errEnded)
		defer over()
		w.result = h.agent.Execute(ctx, r)
	}()
	return w
}

var errEnded = errors.New("editoragent: the session has ended")

// enter makes the run use a turn for its output.
func (w *work) enter(ctx context.Context, t *editor.Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn, w.during, w.outside = t, ctx, t.Outside()
}

// park ends the turn with a question that the user's next prompt answers.
func (w *work) park(ctx context.Context, t *editor.Turn, q *agent.Question) (editor.StopReason, error) {
	for i, p := range q.Content() {
		block := blockTo(p)
		if i == 0 {
			block.Meta = block.Meta.With(agent.MetaQuestion, true)
		}
		if err := t.Update(ctx, &editor.Update{Kind: editor.AgentMessageChunk, Chunk: &editor.Chunk{Content: block, Meta: editor.Meta{}.With(agent.MetaQuestion, true)}}); err != nil {
			return "", err
		}
	}
	w.mu.Lock()
	w.turn = nil
	w.mu.Unlock()
	t.Result.Meta = t.Result.Meta.With(agent.MetaQuestion, q)
	w.host.mu.Lock()
	w.host.waiting[w.session] = w
	w.host.mu.Unlock()
	return editor.EndTurn, nil
}

// ended ends the run of a closed session.
func (h *host) ended(session string) {
	h.mu.Lock()
	w := h.waiting[session]
	delete(h.waiting, session)
	h.mu.Unlock()
	if w != nil {
		w.cancel(errEnded)
		grace.Closed(w.done, grace.Time) // an agent may ignore its context
	}
}

// finish ends the turn together with its run. A failure is an error of this protocol; a refusal is
// a stop reason.
func (w *work) finish(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
	r := w.result
	w.mu.Lock()
	shown := w.progress
	w.mu.Unlock()
	if shown {
		status := editor.StatusCompleted
		if r.State != agent.Completed {
			status = editor.StatusFailed
		}
		// The end of the turn reports it too.
		_ = t.Update(context.WithoutCancel(ctx), editor.ChangeTool(editor.ToolCall{ID: progressID, Status: status, Meta: editor.Meta{}.With(agent.MetaProgress, null)}))
	}
	about := agent.Result{State: r.State, Text: r.Text, Metadata: r.Metadata}
	switch r.State {
	case agent.Completed:
		return editor.EndTurn, nil
	case agent.Cancelled:
		return editor.Cancelled, nil
	case agent.Rejected:
		t.Result.Meta = t.Result.Meta.With(agent.MetaResult, about)
		err := t.Update(ctx, &editor.Update{Kind: editor.AgentMessageChunk, Chunk: &editor.Chunk{Content: editor.Text(r.Text), Meta: editor.Meta{}.With(agent.MetaResult, true)}})
		return editor.Refusal, err
	}
	return "", jsonrpc.NewError(jsonrpc.CodeInternalError, r.Text).WithData(map[string]agent.Result{agent.MetaResult: about})
}

// null removes the progress.
var null = jsonrpc.Raw("null")

// progressID is the ID of the tool call that shows a run's progress.
const progressID = "parley-progress"

// Tell sends parts as message chunks, progress as a tool call, and other data as session updates.
func (w *work) Tell(ctx context.Context, e agent.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case agent.EventOutput:
		for i, p := range e.Parts {
			c := &editor.Chunk{Content: blockTo(p), MessageID: e.Message}
			if i == 0 && e.Metadata != nil {
				c.Meta = c.Meta.With(agent.MetaEvent, e.Metadata)
			}
			if err := w.update(ctx, &editor.Update{Kind: editor.AgentMessageChunk, Chunk: c}); err != nil {
				return err
			}
		}
	case agent.EventProgress:
		tool := editor.ToolCall{ID: progressID, Title: e.Progress.Message, Kind: editor.ToolOther, Status: editor.StatusInProgress, Meta: editor.Meta{}.With(agent.MetaProgress, e.Progress)}
		if e.Metadata != nil {
			tool.Meta = tool.Meta.With(agent.MetaEvent, e.Metadata)
		}
		if tool.Title == "" {
			tool.Title = "Working"
		}
		u := editor.StartTool(tool)
		if w.progress {
			u = editor.ChangeTool(tool)
		}
		w.progress = true
		return w.update(ctx, u)
	case agent.EventOther:
		// It came from this protocol.
		if own, ok := e.Metadata[metaUpdate]; ok && len(e.Metadata) == 1 {
			return w.update(ctx, &editor.Update{Raw: own})
		}
		return w.update(ctx, &editor.Update{Kind: editor.InfoChanged, Info: &editor.Info{Meta: editor.Meta{}.With(agent.MetaEvent, e.Metadata)}})
	}
	return nil
}

// metaUpdate is the metadata key of an update that package agent has no event for.
const metaUpdate = "editor/update"

// update sends an update, within the turn or between turns.
func (w *work) update(ctx context.Context, u *editor.Update) error {
	if w.turn != nil {
		return w.turn.Update(ctx, u)
	}
	return w.outside.Update(ctx, u)
}

// Ask requests a permission if the question has options; otherwise it shows a form or ends the turn
// with the question.
func (w *work) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	w.mu.Lock()
	t, during := w.turn, w.during
	w.asks++
	n := w.asks
	w.mu.Unlock()
	if t == nil {
		return nil, agent.ErrNoAnswer // another question is open
	}
	can := t.Capabilities().Elicitation
	if len(q.Options) > 0 || can != nil && can.Form != nil {
		put := form
		if len(q.Options) > 0 {
			put = func(ctx context.Context, t *editor.Turn, q *agent.Question) (*agent.Answer, error) {
				return permission(ctx, t, q, n)
			}
		}
		a, err := put(ctx, t, q)
		if during.Err() != nil { // the reply to a question of a cancelled turn is no answer
			return nil, agent.ErrCancelled
		}
		return a, err
	}
	select {
	case w.asked <- q:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case a := <-w.answer:
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
