package editoragent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ClientOptions configures [Connect].
type ClientOptions struct {
	// Editor configures what else the client provides to the agent, such as files and terminals.
	// Its Permission and Elicit are not used: questions go to the caller of the run.
	Editor editor.ClientOptions

	// Info identifies the client. If empty, it is parley.
	Info editor.Implementation

	// CWD is the absolute working directory of new sessions. If empty, it is "/".
	CWD string

	// MCPServers are the MCP servers that the agent should use in new sessions.
	MCPServers []editor.MCPServer

	// AuthMethod is the ID of the method by which [Connect] logs in, one of those that the agent
	// offers (authMethods of initialize). If empty, Connect does not log in, and an agent that
	// requires it returns [editor.ErrAuthRequired] for the first request.
	AuthMethod string
}

// An AuthError is a login that [Connect] could not do.
type AuthError struct {
	Method  string              // ID of the method
	Methods []editor.AuthMethod // which the agent offers
	// of authenticate; nil if Method is not offered, or is one for terminals
	Err error
}

func (e *AuthError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("editoragent: the agent does not offer the authentication method %.64q", e.Method)
	}
	return fmt.Sprintf("editoragent: authenticate by %.64q: %v", e.Method, e.Err)
}

func (e *AuthError) Unwrap() error { return e.Err }

// login authenticates by the method id.
func login(ctx context.Context, c *editor.Client, id string) error {
	if id == "" {
		return nil
	}
	e := &AuthError{Method: id, Methods: c.Agent().AuthMethods}
	for _, m := range e.Methods {
		if m.ID != id || m.Type == editor.AuthTerminal {
			continue
		}
		if e.Err = c.Authenticate(ctx, id); e.Err == nil {
			return nil
		}
		break
	}
	return e
}

// Connect makes a client of the agent at the other end of t, which it owns. If the login by
// o.AuthMethod fails, the error is an *[AuthError].
func Connect(ctx context.Context, t jsonrpc.Transport, o *ClientOptions) (*agent.Client, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	l := &link{opts: *o, runs: map[string]*follower{}}
	if l.opts.CWD == "" {
		l.opts.CWD = "/"
	}
	if l.opts.Info.Name == "" {
		l.opts.Info = editor.Implementation{Name: "parley", Version: "0"}
	}
	eo := o.Editor
	eo.Permission, eo.Elicit, eo.ElicitURL = l.permission, l.elicit, true
	if eo.OnElicitationDone == nil {
		eo.OnElicitationDone = func(string) {}
	}
	c, err := editor.Connect(ctx, t, l.opts.Info, &eo)
	if err != nil {
		return nil, err
	}
	if err := login(ctx, c, o.AuthMethod); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	l.client = c
	return &agent.Client{Link: l}, nil
}

type link struct {
	opts   ClientOptions
	client *editor.Client

	mu   sync.Mutex // guards the fields below
	runs map[string]*follower
}

func (l *link) Close() error { return l.client.Close() }

// Agents returns the card of the only agent.
func (l *link) Agents(context.Context) ([]agent.Card, error) {
	in := l.client.Agent()
	var c agent.Card
	rest := in
	if in.Meta.Get(agent.MetaCard, &c) {
		rest.Meta = nil
		if len(in.Meta) > 1 {
			rest.Meta = maps.Clone(in.Meta)
			delete(rest.Meta, agent.MetaCard)
		}
	} else if in.AgentInfo != nil {
		c.Name, c.Title, c.Version = in.AgentInfo.Name, in.AgentInfo.Title, in.AgentInfo.Version
	}
	c.Metadata = c.Metadata.With("editor/initialize", rest)
	return []agent.Card{c}, nil
}

// session starts a session or loads an existing one.
func (l *link) session(ctx context.Context, id string) (string, error) {
	if id == "" {
		s, err := l.client.NewSession(ctx, &editor.NewSessionParams{CWD: l.opts.CWD, MCPServers: l.opts.MCPServers})
		if err != nil {
			return "", err
		}
		return s.SessionID, nil
	}
	if l.client.Knows(id) {
		return id, nil
	}
	p := &editor.LoadSessionParams{SessionID: id, CWD: l.opts.CWD, MCPServers: l.opts.MCPServers}
	_, err := l.client.ResumeSession(ctx, p)
	if errors.Is(err, editor.ErrNotSupported) {
		_, err = l.client.LoadSession(ctx, p, func(*editor.Update) error { return nil })
	}
	if err != nil {
		return "", fmt.Errorf("editoragent: session %.64q: %w", id, err)
	}
	return id, nil
}

// Do runs one turn, and another one for each question with which the agent ends a turn. The agent's
// name is ignored because there is only one agent.
func (l *link) Do(ctx context.Context, req *agent.Request, c agent.Caller) (*agent.Result, error) {
	if req.Run != "" {
		return nil, agent.ErrNoAttach
	}
	id, err := l.session(ctx, req.Session)
	if err != nil {
		return nil, err
	}
	f := &follower{link: l, ctx: ctx, caller: c, session: id}
	l.mu.Lock()
	if l.runs[id] != nil {
		l.mu.Unlock()
		return nil, editor.ErrBusy
	}
	l.runs[id] = f
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.runs, id)
		l.mu.Unlock()
	}()
	if err := c.Tell(ctx, agent.Event{Kind: agent.EventStarted, Session: id}); err != nil {
		return nil, err
	}
	p := &editor.PromptParams{SessionID: id}
	p.Prompt, p.Meta = promptTo(req.Input)
	if req.Metadata != nil {
		p.Meta = p.Meta.With(agent.MetaRequest, req.Metadata)
	}
	return f.follow(p)
}

// Attach loads a session, which replays its output. id is the session's ID.
func (l *link) Attach(ctx context.Context, id string, c agent.Caller) (*agent.Result, error) {
	if !l.client.Agent().AgentCapabilities.LoadSession {
		return nil, agent.ErrNoAttach
	}
	f := &follower{link: l, ctx: ctx, caller: c, session: id}
	if _, err := l.client.LoadSession(ctx, &editor.LoadSessionParams{SessionID: id, CWD: l.opts.CWD, MCPServers: l.opts.MCPServers}, f.update); err != nil {
		return nil, err
	}
	return &agent.Result{State: agent.Completed, Session: id}, nil
}

// run returns the run that is active in a session.
func (l *link) run(session string) *follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[session]
}

// permission puts the question to the caller of the run. Without an answer, the permission is
// denied.
func (l *link) permission(ctx context.Context, p *editor.PermissionParams) (*editor.PermissionResult, error) {
	f := l.run(p.SessionID)
	if f == nil {
		return nil, nil // denies the permission
	}
	q := questionOfTool(p)
	a, err := f.caller.Ask(ctx, q)
	if err != nil {
		f.unanswered(ctx, err, q)
		return nil, nil
	}
	if q.Settle(a); a.Option == "" {
		return nil, nil
	}
	out := editor.Select(a.Option)
	out.Meta = out.Meta.With(agent.MetaAnswer, a)
	return out, nil
}

// elicit does the same with a form.
func (l *link) elicit(ctx context.Context, p *editor.ElicitParams) (*editor.ElicitResult, error) {
	f := l.run(p.SessionID)
	if f == nil {
		return &editor.ElicitResult{Action: editor.ActionCancel}, nil
	}
	q := questionOfForm(p)
	a, err := f.caller.Ask(ctx, q)
	if err != nil {
		f.unanswered(ctx, err, q)
		return &editor.ElicitResult{Action: editor.ActionCancel}, nil
	}
	return fill(p, a), nil
}

// A follower tracks one run for its caller.
type follower struct {
	link    *link
	ctx     context.Context // the caller's
	caller  agent.Caller
	session string

	mu  sync.Mutex // guards the fields below
	why error      // a question that was not answered
}

// unanswered stores that a question has no answer. If the caller has gone, it waits until
// session/cancel was sent, which ends ctx, the context of the question: a reply before that would
// look like one of a caller that is still there.
func (f *follower) unanswered(ctx context.Context, err error, q *agent.Question) {
	if f.ctx.Err() != nil {
		grace.Closed(ctx.Done(), grace.Time)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil && f.ctx.Err() == nil {
		f.why = fmt.Errorf("editoragent: %w: %.200q", err, q.Text)
	}
}

// update handles one update.
func (f *follower) update(u *editor.Update) error {
	e := agent.Event{Kind: agent.EventOther}
	var p agent.Progress
	var flag bool
	switch {
	case u.Kind == editor.AgentMessageChunk && u.Chunk != nil:
		if u.Chunk.Meta.Get(agent.MetaResult, &flag) || u.Chunk.Meta.Get(agent.MetaQuestion, &flag) {
			return nil // the end of the turn reports it too
		}
		e.Kind, e.Parts, e.Message = agent.EventOutput, []agent.Part{blockFrom(u.Chunk.Content)}, u.Chunk.MessageID
		u.Chunk.Meta.Get(agent.MetaEvent, &e.Metadata)
	case u.Tool != nil && u.Tool.ID == progressID && u.Tool.Meta[agent.MetaProgress] != nil:
		if string(u.Tool.Meta[agent.MetaProgress]) == "null" {
			return nil // the run has ended
		}
		if !u.Tool.Meta.Get(agent.MetaProgress, &p) {
			return nil
		}
		e.Kind, e.Progress = agent.EventProgress, &p
		u.Tool.Meta.Get(agent.MetaEvent, &e.Metadata)
	case u.Plan != nil:
		e.Kind, e.Progress = agent.EventProgress, planned(u.Plan)
		e.Metadata = e.Metadata.With(metaUpdate, u)
	case u.Info != nil && u.Info.Meta.Get(agent.MetaEvent, &e.Metadata):
	default:
		e.Metadata = e.Metadata.With(metaUpdate, u)
	}
	return f.caller.Tell(f.ctx, e)
}

// planned converts a plan to progress: the number of finished steps and the current step.
func planned(p *editor.Plan) *agent.Progress {
	out := &agent.Progress{Total: float64(len(p.Entries))}
	for _, step := range p.Entries {
		switch {
		case step.Status == editor.StatusCompleted:
			out.Done++
		case step.Status == editor.StatusInProgress && out.Message == "":
			out.Message = step.Content
		}
	}
	return out
}

// follow runs turns until the run ends.
func (f *follower) follow(p *editor.PromptParams) (*agent.Result, error) {
	for {
		end, err := f.link.client.Prompt(f.ctx, p, f.update)
		f.mu.Lock()
		why := f.why
		f.mu.Unlock()
		switch {
		case why != nil:
			return nil, why
		case end != nil && end.StopReason == editor.Cancelled:
			return &agent.Result{State: agent.Cancelled, Session: f.session}, nil
		case err != nil:
			return f.failed(err)
		}
		var q agent.Question
		if !end.Meta.Get(agent.MetaQuestion, &q) {
			return f.result(end), nil
		}
		a, why := f.caller.Ask(f.ctx, &q)
		if why != nil {
			// The run will not be continued.
			_ = f.link.client.CloseSession(context.WithoutCancel(f.ctx), f.session)
			if f.ctx.Err() != nil {
				return &agent.Result{State: agent.Cancelled, Session: f.session}, nil //nolint:nilerr // the end of the caller's context is the result
			}
			return nil, fmt.Errorf("editoragent: %w: %.200q", why, q.Text)
		}
		p = &editor.PromptParams{SessionID: f.session, Prompt: blocksTo(a.Parts)}
		if len(p.Prompt) == 0 {
			p.Prompt = []editor.Content{editor.Text(a.Text())}
		}
		p.Meta = p.Meta.With(agent.MetaAnswer, a)
	}
}

// failed converts the error of a turn. Only an internal error is a failure of the agent itself.
func (f *follower) failed(err error) (*agent.Result, error) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != jsonrpc.CodeInternalError {
		return nil, err
	}
	r := &agent.Result{State: agent.Failed, Session: f.session, Text: e.Message}
	var data map[string]agent.Result
	if e.Data != nil && e.Data.Decode(&data) == nil && data[agent.MetaResult].State != "" {
		own := data[agent.MetaResult]
		r.State, r.Metadata = own.State, own.Metadata
	} else if e.Data != nil {
		r.Metadata = r.Metadata.With("editor/error", e)
	}
	return r, nil
}

// result converts the end of a turn.
func (f *follower) result(end *editor.PromptResult) *agent.Result {
	r := &agent.Result{State: agent.Completed, Session: f.session}
	var own agent.Result
	switch {
	case end.Meta.Get(agent.MetaResult, &own):
		r.State, r.Text, r.Metadata = own.State, own.Text, own.Metadata
	case end.StopReason == editor.Refusal:
		r.State, r.Text = agent.Rejected, "The agent refused."
	case end.StopReason != editor.EndTurn:
		r.Metadata = r.Metadata.With("editor/stopReason", string(end.StopReason))
	}
	rest := make(agent.Metadata, len(end.Meta))
	for key, value := range end.Meta {
		if key != agent.MetaResult {
			rest[unknown+key] = value
		}
	}
	r.Metadata = r.Metadata.Merge(rest)
	return r
}
