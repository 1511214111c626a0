package mcpagent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Connect returns a client of the tools of the server at the other end of t. The client owns t. The
// options' Elicit is not used: questions go to the caller of a run.
func Connect(ctx context.Context, t jsonrpc.Transport, info mcp.Implementation, o *mcp.ClientOptions) (*agent.Client, error) {
	return Client(o, func(o *mcp.ClientOptions) (*mcp.Client, error) { return mcp.Connect(ctx, t, info, o) })
}

// Client returns a client of the tools of the server that dial connects to. It passes dial options
// whose Elicit handles the questions; use it for transports such as HTTP. It owns the client that
// dial returns.
//
// Servers older than 2026-07-28 do not send the call that a question belongs to. The question goes
// to the only running call; if several are running, it is answered with a cancel.
func Client(o *mcp.ClientOptions, dial func(o *mcp.ClientOptions) (*mcp.Client, error)) (*agent.Client, error) {
	if o == nil {
		o = &mcp.ClientOptions{}
	}
	l := &link{tools: map[string]mcp.Tool{}, calls: map[*follower]struct{}{}}
	opts := *o
	opts.Elicit, opts.ElicitURL = l.elicit, true
	var err error
	if l.client, err = dial(&opts); err != nil {
		return nil, err
	}
	return &agent.Client{Link: l}, nil
}

type link struct {
	client *mcp.Client

	mu    sync.Mutex // guards the fields below
	tools map[string]mcp.Tool
	calls map[*follower]struct{}
}

func (l *link) Close() error { return l.client.Close() }

func (l *link) Attach(context.Context, string, agent.Caller) (*agent.Result, error) {
	return nil, agent.ErrNoAttach // repairing a broken stream is the transport's task
}

// Agents returns the tools as cards.
func (l *link) Agents(ctx context.Context) ([]agent.Card, error) {
	var cards []agent.Card
	for t, err := range l.client.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		l.tools[t.Name] = t
		l.mu.Unlock()
		cards = append(cards, CardOf(&t))
	}
	return cards, nil
}

// CardOf converts a tool to a card.
func CardOf(t *mcp.Tool) agent.Card {
	c := agent.Card{Title: t.Title}
	own := *t
	if t.Meta.Get(agent.MetaCard, &c) {
		own.Meta = nil
		if len(t.Meta) > 1 {
			own.Meta = maps.Clone(t.Meta)
			delete(own.Meta, agent.MetaCard)
		}
	}
	c.Name, c.Description = t.Name, t.Description
	c.Metadata = c.Metadata.With(metaTool, own)
	return c
}

// tool returns a tool by name. It lists the tools if the name is unknown.
func (l *link) tool(ctx context.Context, name string) (mcp.Tool, error) {
	l.mu.Lock()
	t, ok := l.tools[name]
	l.mu.Unlock()
	if !ok {
		if _, err := l.Agents(ctx); err != nil {
			return t, err
		}
		l.mu.Lock()
		t, ok = l.tools[name]
		if name == "" && len(l.tools) == 1 {
			for _, t = range l.tools {
				ok = true
			}
		}
		l.mu.Unlock()
	}
	if !ok {
		return t, fmt.Errorf("%w: %.64q", agent.ErrUnknownAgent, name)
	}
	return t, nil
}

// argumentsTo converts an input to the arguments of a tool: a JSON object is passed unchanged, and
// text goes into the member that accepts it. The metadata holds the whole input if it is longer. A
// tool that is served by this module accepts any input. For such a tool a JSON object is a part
// like any other, unless it matches the tool's schema.
func argumentsTo(t *mcp.Tool, input []agent.Message) (args jsonrpc.Raw, meta mcp.Meta, err error) {
	r := agent.Run{Input: input}
	_, ours := t.Meta[agent.MetaCard]
	parts := r.Parts()
	alone := len(input) == 1 && input[0].Role == agent.RoleUser && input[0].Metadata == nil && len(parts) == 1 && isBare(&parts[0])
	if len(parts) == 1 && len(parts[0].JSON) > 0 && parts[0].JSON[0] == '{' && (!ours || alone && isText(parts[0].JSON)) {
		return parts[0].JSON, nil, nil
	}
	var s schema
	if err := t.InputSchema.Decode(&s); err != nil {
		return nil, nil, fmt.Errorf("mcpagent: the input schema of %s: %w", t.Name, err)
	}
	name := ""
	for _, one := range s.Required { // the required one
		if s.Properties[one].Type == "string" && len(s.Required) == 1 {
			name = one
		}
	}
	for _, one := range []string{"text", "prompt", "input", "query", "message", "question"} {
		if s.Properties[one].Type == "string" && name == "" && !slices.ContainsFunc(s.Required, func(n string) bool { return n != one }) {
			name = one
		}
	}
	if !alone || !parts[0].IsText() {
		meta = meta.With(agent.MetaInput, input)
	}
	switch input := r.Text(); {
	case name != "":
		return text(map[string]string{name: input}), meta, nil
	case input == "" && len(s.Required) == 0:
		return jsonrpc.Raw("{}"), meta, nil
	}
	return nil, nil, fmt.Errorf("mcpagent: %s does not accept text; use a JSON object", t.Name)
}

// isText reports whether an object matches inputSchema.
func isText(object jsonrpc.Raw) bool {
	var members map[string]jsonrpc.Raw
	return object.Decode(&members) == nil && len(members) == 1 && len(members["text"]) > 0 && members["text"][0] == '"'
}

// isBare reports whether a part is only content, without further fields.
func isBare(p *agent.Part) bool {
	return p.Name == "" && p.MediaType == "" && p.Filename == "" && p.Metadata == nil
}

// inCall is the context key of a call's follower.
type inCall struct{}

// Do calls a tool.
func (l *link) Do(ctx context.Context, req *agent.Request, c agent.Caller) (*agent.Result, error) {
	if req.Run != "" {
		return nil, agent.ErrNoAttach
	}
	t, err := l.tool(ctx, req.Agent)
	if err != nil {
		return nil, err
	}
	args, meta, err := argumentsTo(&t, req.Input)
	if err != nil {
		return nil, err
	}
	if req.Metadata != nil {
		meta = meta.With(agent.MetaRequest, req.Metadata)
	}
	f := &follower{ctx: ctx, caller: c}
	l.mu.Lock()
	l.calls[f] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.calls, f)
		l.mu.Unlock()
	}()
	talk, release := agent.Outlive(ctx, f.leave)
	defer release()
	call, stop := context.WithCancelCause(context.WithValue(talk, inCall{}, f))
	defer stop(nil)
	f.mu.Lock()
	f.stop = stop
	f.mu.Unlock()
	result, err := l.client.CallTool(call, t.Name, args, &mcp.CallOptions{Progress: f.progress, Log: f.log, Meta: meta})
	switch why := f.unanswered(); {
	case why != nil:
		return nil, why
	case err != nil && ctx.Err() != nil:
		return &agent.Result{State: agent.Cancelled}, nil
	case err != nil:
		return nil, err
	}
	return f.result(result)
}

// elicit puts the question to the caller of the call that it belongs to.
func (l *link) elicit(ctx context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
	f, ok := ctx.Value(inCall{}).(*follower)
	if !ok {
		l.mu.Lock()
		if len(l.calls) == 1 {
			for f = range l.calls {
				ok = true
			}
		}
		l.mu.Unlock()
	}
	if !ok {
		return &mcp.ElicitResult{Action: mcp.ActionCancel}, nil
	}
	q := questionOf(e)
	f.mu.Lock()
	f.asking++
	f.mu.Unlock()
	a, err := f.caller.Ask(f.ctx, q)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking--
	if err == nil {
		q.Settle(a)
		return fill(e, a), nil
	}
	out := &mcp.ElicitResult{Action: mcp.ActionCancel}
	if f.ctx.Err() != nil { // between two rounds nothing else detects this
		f.gone = true
		out.Meta = out.Meta.With(agent.MetaResult, agent.Result{State: agent.Cancelled})
	} else {
		f.why = fmt.Errorf("mcpagent: %w: %.200q", err, q.Text)
	}
	return out, nil
}

// A follower tracks one call for its caller.
type follower struct {
	ctx    context.Context // the caller's
	caller agent.Caller

	mu     sync.Mutex // guards the fields below
	stop   context.CancelCauseFunc
	asking int   // open questions to the caller
	gone   bool  // the reply to one of them reported that the caller has gone
	why    error // a question that was not answered, or the caller's error
}

// leave ends the call when the caller has gone. If a question is open, its reply reports that
// instead.
func (f *follower) leave(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking == 0 && !f.gone && f.stop != nil {
		f.stop(context.Cause(f.ctx))
	}
}

// fail ends the call with an error of this side.
func (f *follower) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil && f.ctx.Err() == nil {
		f.why = err
	}
	f.stop(err)
}

func (f *follower) unanswered() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

func (f *follower) emit(e agent.Event) {
	if err := f.caller.Tell(f.ctx, e); err != nil {
		f.fail(err)
	}
}

// progress handles a progress notification.
func (f *follower) progress(p mcp.Progress) {
	e := agent.Event{Kind: agent.EventProgress, Progress: &agent.Progress{Message: p.Message, Done: p.Progress, Total: p.Total}}
	rest := make(agent.Metadata, len(p.Meta))
	for key, value := range p.Meta {
		rest[unknown+key] = value
	}
	e.Metadata = e.Metadata.Merge(rest)
	f.emit(e)
}

// log handles a log message.
func (f *follower) log(p *mcp.LogParams) {
	f.emit(agent.Event{Kind: agent.EventOther, Metadata: agent.Metadata{}.With("mcp/log", p)})
}

// result converts a tool's result.
func (f *follower) result(t *mcp.ToolResult) (*agent.Result, error) {
	r := &agent.Result{State: agent.Completed}
	var events []agent.Metadata
	var own agent.Result
	rest := make(agent.Metadata, len(t.Meta))
	for key, value := range t.Meta {
		switch {
		case key == agent.MetaEvent && value.Decode(&events) == nil:
		case key == agent.MetaResult && value.Decode(&own) == nil:
		default:
			rest[unknown+key] = value
		}
	}
	r.Metadata = r.Metadata.Merge(rest)
	for _, m := range events {
		f.emit(agent.Event{Kind: agent.EventOther, Metadata: m})
	}
	var output []agent.Part
	var why string
	for _, c := range t.Content {
		var last bool
		if c.Meta.Get(agent.MetaResult, &last) {
			why = c.Text
			continue
		}
		output = append(output, blockFrom(c))
	}
	if t.Structured != nil {
		if agent.TextOf(output) == string(t.Structured) || len(output) > 0 {
			r.Metadata = r.Metadata.With("mcp/structuredContent", t.Structured)
		} else {
			output = append(output, agent.Part{JSON: t.Structured})
		}
	}
	if t.IsError {
		if r.State, r.Text = agent.Failed, why; own.State != "" {
			r.State, r.Text = own.State, own.Text
			r.Metadata = r.Metadata.Merge(own.Metadata)
		} else { // the text of another implementation's tool is the reason of the failure
			r.Text, output = agent.TextOf(output), nil
		}
	}
	if len(output) > 0 {
		f.emit(agent.Event{Kind: agent.EventOutput, Parts: output})
	}
	if why := f.unanswered(); why != nil {
		return nil, why
	}
	return r, nil
}
