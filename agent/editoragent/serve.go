package editoragent

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options tune [New].
type Options struct {
	// Editor is what the agent of the protocol does beside prompts, such as modes and options of its sessions. Its Prompt and its Ended are not used.
	Editor editor.AgentOptions
}

// New makes an agent of this protocol, for one process to serve: an editor talks to one agent.
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

// Turn returns the session that a run belongs to, with which it reads and writes the editor's files, for as long as the run goes on; nil where
// the run came by another protocol, or by way of one.
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

// A host is an agent with the runs that wait for a prompt of the user.
type host struct {
	agent *agent.Agent

	mu      sync.Mutex // guards what follows
	waiting map[string]*work
}

// A work is one run. It goes on from one turn to the next when the editor shows no forms and the user's next prompt is the answer.
type work struct {
	host    *host
	session string
	ctx     context.Context // of the run
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the run is over
	result  *agent.Result // settled when done is closed
	asked   chan *agent.Question
	answer  chan *agent.Answer

	mu       sync.Mutex // guards what follows, and the order of what is said
	turn     *editor.Turn
	outside  *editor.Session
	progress bool // was shown
	asks     int  // how many permissions were asked for
}

// prompt does one turn: it begins a run, or answers the one that waits.
func (h *host) prompt(ctx context.Context, t *editor.Turn) (editor.StopReason, error) {
	h.mu.Lock()
	w := h.waiting[t.ID]
	delete(h.waiting, t.ID)
	h.mu.Unlock()
	if w != nil && w.ctx.Err() != nil { // cancelled as it asked
		<-w.done
		w = nil
	}
	if w != nil {
		w.enter(t)
		w.answer <- answerOf(t) // holds one, and is empty
	} else {
		w = h.begin(ctx, t)
	}
	cancelled := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer cancelled()
	select {
	case q := <-w.asked:
		return w.park(ctx, t, q)
	case <-w.done:
	}
	return w.finish(ctx, t)
}

// begin starts a run on a goroutine of its own, which ends before the session does.
func (h *host) begin(ctx context.Context, t *editor.Turn) *work {
	w := &work{host: h, session: t.ID, done: make(chan struct{}), asked: make(chan *agent.Question), answer: make(chan *agent.Answer, 1)}
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	w.enter(t)
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

var errEnded = errors.New("editoragent: the session is over")

// enter gives the run the voice of a turn.
func (w *work) enter(t *editor.Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn, w.outside = t, t.Outside()
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

// ended ends the run of a session that is over.
func (h *host) ended(session string) {
	h.mu.Lock()
	w := h.waiting[session]
	delete(h.waiting, session)
	h.mu.Unlock()
	if w != nil {
		w.cancel(errEnded)
		<-w.done
	}
}

// finish ends the turn with its run. A failure is an error of this protocol, a refusal is one of its reasons.
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
		_ = t.Update(context.WithoutCancel(ctx), editor.ChangeTool(editor.ToolCall{ID: progressID, Status: status, Meta: editor.Meta{}.With(agent.MetaProgress, null)})) // the end says it too
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

// null says that there is no progress any more.
var null = jsonrpc.Raw("null")

// progressID names the tool call that shows how far a run is.
const progressID = "parley-progress"

// Tell says parts as chunks of a message, progress as a tool call, and what there is no word for as news about the session.
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
		if own, ok := e.Metadata[metaUpdate]; ok && len(e.Metadata) == 1 { // of this protocol
			return w.update(ctx, &editor.Update{Raw: own})
		}
		return w.update(ctx, &editor.Update{Kind: editor.InfoChanged, Info: &editor.Info{Meta: editor.Meta{}.With(agent.MetaEvent, e.Metadata)}})
	}
	return nil
}

// metaUpdate is where an update stands that the seam has no word for.
const metaUpdate = "editor/update"

// update sends an update in the turn, or between turns.
func (w *work) update(ctx context.Context, u *editor.Update) error {
	if w.turn != nil {
		return w.turn.Update(ctx, u)
	}
	return w.outside.Update(ctx, u)
}

// Ask asks for a permission when there is something to choose, and else shows a form, or ends the turn with the question.
func (w *work) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	w.mu.Lock()
	t := w.turn
	w.asks++
	n := w.asks
	w.mu.Unlock()
	if t == nil {
		return nil, agent.ErrNoAnswer // a question waits already
	}
	if len(q.Options) > 0 {
		return permission(ctx, t, q, n)
	}
	if can := t.Capabilities().Elicitation; can != nil && can.Form != nil {
		return form(ctx, t, q)
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
