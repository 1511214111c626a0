package mcpagent

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Connect makes a client of the tools of the server at the other end of t, which it owns. The options' Elicit is not used: who started a run is asked.
func Connect(ctx context.Context, t jsonrpc.Transport, info mcp.Implementation, o *mcp.ClientOptions) (*agent.Client, error) {
	return Client(o, func(o *mcp.ClientOptions) (*mcp.Client, error) { return mcp.Connect(ctx, t, info, o) })
}

// Client makes a client of the tools of a server that dial reaches, with options that have the questions answered here: for carriers such as
// HTTP. It owns what dial returns.
//
// Servers older than 2026-07-28 do not say which call a question is about. It goes to the one call that is under way; when there are
// several, it is answered with a cancel.
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

	mu    sync.Mutex // guards what follows
	tools map[string]mcp.Tool
	calls map[*follower]struct{}
}

func (l *link) Close() error { return l.client.Close() }

func (l *link) Attach(context.Context, string, agent.Caller) (*agent.Result, error) {
	return nil, agent.ErrNoAttach // a broken stream is the carrier's to mend
}

// Agents tells of the tools.
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

// CardOf reads a tool.
func CardOf(t *mcp.Tool) agent.Card {
	c := agent.Card{Title: t.Title}
	own := *t
	if t.Meta.Get(agent.MetaCard, &c) {
		own.Meta = nil
		for key, value := range t.Meta {
			if key != agent.MetaCard {
				own.Meta = own.Meta.With(key, value)
			}
		}
	}
	c.Name, c.Description = t.Name, t.Description
	c.Metadata = c.Metadata.With(metaTool, own)
	return c
}

// tool returns what is known of a tool, and lists them if that is nothing.
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

// argumentsTo writes an input as the arguments of a tool: JSON that is an object as it is, and text into the member that takes it. Beside it goes
// all of the input, if that is more. A tool that is an agent of ours takes any input, and an object of JSON is a part for it like all others,
// unless it is what the tool asks for by its schema.
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
	for _, one := range s.Required { // the one that must be there
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
	switch said := r.Text(); {
	case name != "":
		return text(map[string]string{name: said}), meta, nil
	case said == "" && len(s.Required) == 0:
		return jsonrpc.Raw("{}"), meta, nil
	}
	return nil, nil, fmt.Errorf("mcpagent: %s takes no text; give it a JSON object", t.Name)
}

// isText reports whether an object is what inputSchema asks for.
func isText(object jsonrpc.Raw) bool {
	var members map[string]jsonrpc.Raw
	return object.Decode(&members) == nil && len(members) == 1 && len(members["text"]) > 0 && members["text"][0] == '"'
}

// isBare reports whether a part is its content and nothing else.
func isBare(p *agent.Part) bool {
	return p.Name == "" && p.MediaType == "" && p.Filename == "" && p.Metadata == nil
}

// inCall is where the context of a call has its follower.
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

// elicit asks whoever made the call that the question is about.
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
	if f.ctx.Err() != nil { // between two rounds there is nothing else that says so
		f.said = true
		out.Meta = out.Meta.With(agent.MetaResult, agent.Result{State: agent.Cancelled})
	} else {
		f.why = fmt.Errorf("mcpagent: %w: %.200q", err, q.Text)
	}
	return out, nil
}

// A follower is one call, as its caller hears of it.
type follower struct {
	ctx    context.Context // the caller's
	caller agent.Caller

	mu     sync.Mutex // guards what follows
	stop   context.CancelCauseFunc
	asking int   // questions that wait for the caller
	said   bool  // the answer to one of them was that the caller has gone
	why    error // a question that nobody answered, or a caller who does not listen
}

// leave ends the call when the caller has gone. If a question waits, its answer says so instead.
func (f *follower) leave(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking == 0 && !f.said && f.stop != nil {
		f.stop(context.Cause(f.ctx))
	}
}

// fail ends the call for a reason of this side.
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

func (f *follower) tell(e agent.Event) {
	if err := f.caller.Tell(f.ctx, e); err != nil {
		f.fail(err)
	}
}

// progress hears how far the call is.
func (f *follower) progress(p mcp.Progress) {
	e := agent.Event{Kind: agent.EventProgress, Progress: &agent.Progress{Message: p.Message, Done: p.Progress, Total: p.Total}}
	for key, value := range p.Meta {
		e.Metadata = e.Metadata.With(unknown+key, value)
	}
	f.tell(e)
}

// log hears a log message.
func (f *follower) log(p *mcp.LogParams) {
	f.tell(agent.Event{Kind: agent.EventOther, Metadata: agent.Metadata{}.With("mcp/log", p)})
}

// result reads what the tool gave.
func (f *follower) result(t *mcp.ToolResult) (*agent.Result, error) {
	r := &agent.Result{State: agent.Completed}
	var events []agent.Metadata
	var own agent.Result
	for key, value := range t.Meta {
		switch {
		case key == agent.MetaEvent && value.Decode(&events) == nil:
		case key == agent.MetaResult && value.Decode(&own) == nil:
		default:
			r.Metadata = r.Metadata.With(unknown+key, value)
		}
	}
	for _, m := range events {
		f.tell(agent.Event{Kind: agent.EventOther, Metadata: m})
	}
	var said []agent.Part
	var why string
	for _, c := range t.Content {
		var last bool
		if c.Meta.Get(agent.MetaResult, &last) {
			why = c.Text
			continue
		}
		said = append(said, blockFrom(c))
	}
	if t.Structured != nil {
		if agent.TextOf(said) == string(t.Structured) || len(said) > 0 {
			r.Metadata = r.Metadata.With("mcp/structuredContent", t.Structured)
		} else {
			said = append(said, agent.Part{JSON: t.Structured})
		}
	}
	if t.IsError {
		if r.State, r.Text = agent.Failed, why; own.State != "" {
			r.State, r.Text = own.State, own.Text
			r.Metadata = r.Metadata.Merge(own.Metadata)
		} else { // what somebody else's tool says is why it failed
			r.Text, said = agent.TextOf(said), nil
		}
	}
	if len(said) > 0 {
		f.tell(agent.Event{Kind: agent.EventOutput, Parts: said})
	}
	if why := f.unanswered(); why != nil {
		return nil, why
	}
	return r, nil
}
