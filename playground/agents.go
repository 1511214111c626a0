package playground

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stdio"
	"github.com/da1ed7bb/parley/transport/stream"
)

// maxRuns is the maximum number of concurrent agent runs.
const maxRuns = 32

// An agentLink is a recorded connection to agents, with the resources to close after it.
type agentLink struct {
	*agent.Client
	wire *capture.Wire
	idle func()
	ends bool // conversations end with the connection: the agent is a program of its own
}

func (l *agentLink) close() {
	err := l.Client.Close()
	if l.idle != nil {
		l.idle()
	}
	l.wire.Close(cmp.Or(err, capture.ErrHungUp))
}

// dialAgent opens a separate conversation with the agents of a target. The client of the target's
// protocol makes the calls.
func (p *Playground) dialAgent(ctx context.Context, name string) (*agentLink, error) {
	t, err := p.find(name, "")
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	spec := t.Target
	p.mu.Unlock()
	if token, signedIn := p.bearer(ctx, name); signedIn {
		spec.Token = token
	}
	if spec.Problem != "" {
		return nil, unavailable("%s: %s", name, spec.Problem)
	}
	l := &agentLink{}
	where := parley.Target{Scheme: "exec", Argv: spec.Command}
	if len(spec.Command) == 0 {
		if where, err = parley.ParseTarget(spec.Address); err != nil || isExec(where) {
			return nil, badParam("/target", "%s is not an address", name)
		}
	}
	l.wire = p.rec.Wire(capture.WireInfo{Target: name, Carrier: where.Scheme, Title: "agents of " + name, Peer: spec.show()})
	if where.Scheme == "http" || where.Scheme == "https" {
		err = p.dialAgentHTTP(ctx, l, &spec, where)
	} else {
		err = p.dialAgentStream(ctx, l, &spec, where)
	}
	if err != nil {
		l.wire.Close(err)
		if l.idle != nil {
			l.idle()
		}
		if _, known := errors.AsType[*jsonrpc.Error](err); known {
			return nil, err
		}
		return nil, unavailable("%s: %s", name, reason(err))
	}
	return l, nil
}

func (p *Playground) implementation() mcp.Implementation {
	return mcp.Implementation{Name: "parley", Version: orDefault(p.options.Version, "devel")}
}

func (p *Playground) dialAgentHTTP(ctx context.Context, l *agentLink, spec *Target, where parley.Target) (err error) {
	client, idle := p.recordedClient(spec, l.wire, nil)
	l.idle = idle
	switch spec.protocol() {
	case ProtocolMCP:
		l.Client, err = mcpagent.Client(nil, func(o *mcp.ClientOptions) (*mcp.Client, error) {
			return mcphttp.Connect(ctx, where.URL(), p.implementation(), &mcphttp.ClientOptions{Client: *o, HTTP: client})
		})
	case ProtocolA2A:
		var c *a2a.Client
		var card *a2a.AgentCard
		if c, card, err = a2ahttp.Dial(ctx, where.URL(), &a2ahttp.Options{HTTP: client}); err == nil {
			l.Client = a2aagent.Client(c, card)
		}
	case ProtocolACP:
		link := httprpc.NewClient(where.URL(), &httprpc.Options{HTTP: client, Open: acp.Open})
		l.Client = acpagent.Client(acp.NewClient(link, nil))
	default:
		err = badParam("/target", "%s does not use an agent protocol", spec.Name)
	}
	return err
}

func (p *Playground) dialAgentStream(ctx context.Context, l *agentLink, spec *Target, where parley.Target) (err error) {
	var t jsonrpc.Transport
	if len(spec.Command) > 0 {
		child, err := stdio.Start(ctx, spec.Command, &stdio.Options{
			Options: stream.Options{MaxMessage: maxMessage}, Framing: spec.Framing, Dir: spec.Dir, Env: spec.Env,
			Stderr: func(line string) { l.wire.Stderr([]byte(line)) },
		})
		if err != nil {
			return err
		}
		p.options.Log(spec.Name + " started (pid " + strconv.Itoa(child.PID()) + "): " + spec.show())
		t, l.ends = child, true
	} else {
		dialer := parley.Dialer{TLS: p.options.TLS, Header: spec.Header, Token: spec.Token, MaxMessage: maxMessage}
		if t, err = dialer.Open(ctx, where); err != nil {
			return err
		}
	}
	t = l.wire.Transport(t)
	switch spec.protocol() {
	case ProtocolMCP:
		l.Client, err = mcpagent.Connect(ctx, t, p.implementation(), nil)
	case ProtocolA2A:
		l.Client = a2aagent.Client(a2a.Connect(ctx, t, nil), nil)
	case ProtocolACP:
		l.Client = acpagent.Client(acp.Connect(ctx, t, nil))
	case ProtocolEditor:
		dir := spec.Dir
		if dir == "" {
			dir, _ = os.Getwd() // if it fails, dir is "", which means "/"
		}
		l.Client, err = editoragent.Connect(ctx, t, &editoragent.ClientOptions{CWD: dir})
	default:
		err = badParam("/target", "%s does not use an agent protocol", spec.Name)
	}
	if err != nil {
		_ = t.Close() // err has the cause
	}
	return err
}

type agentsResult struct {
	Agents []agent.Card `json:"agents"`
}

func (p *Playground) agentsList(ctx context.Context, in targetName) (agentsResult, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*openTime)
	defer cancel()
	l, err := p.dialAgent(ctx, in.Target)
	if err != nil {
		return agentsResult{}, err
	}
	defer l.close()
	cards, err := l.Agents(ctx)
	if err != nil {
		return agentsResult{}, unavailable("%s: %s", in.Target, sentence(err))
	}
	return agentsResult{append([]agent.Card{}, cards...)}, nil
}

type agentParams struct {
	Target  string       `json:"target"`
	Agent   string       `json:"agent,omitzero"`
	Text    string       `json:"text,omitzero"`
	Session string       `json:"session,omitzero"`
	Run     string       `json:"run,omitzero"`
	Answer  *answerWords `json:"answer"`
	// Later leaves the run waiting when it asks, if its protocol supports that.
	Later bool `json:"later,omitzero"`
}

// answerWords is an answer as the page sends it.
type answerWords struct {
	Text     string      `json:"text,omitzero"`
	Option   string      `json:"option,omitzero"`
	Value    jsonrpc.Raw `json:"value,omitzero"`
	Declined bool        `json:"declined,omitzero"`
	// Later means not now: the run is left waiting, if its protocol supports that.
	Later bool `json:"later,omitzero"`
}

func (a *answerWords) answer() *agent.Answer {
	if a == nil {
		return nil
	}
	out := &agent.Answer{Option: a.Option, Value: a.Value.Clone(), Declined: a.Declined}
	if a.Text != "" {
		out.Parts = []agent.Part{agent.Text(a.Text)}
	}
	return out
}

// runView is one event of a run as the page receives it.
type runView struct {
	Run      string          `json:"run"`
	Kind     string          `json:"kind"`
	Text     string          `json:"text,omitzero"`
	Parts    []agent.Part    `json:"parts,omitempty"`
	Done     float64         `json:"done,omitzero"`
	Total    float64         `json:"total,omitzero"`
	Question *agent.Question `json:"question,omitzero"`
	ID       string          `json:"id,omitzero"` // the server's ID of the run
	Session  string          `json:"session,omitzero"`
	Message  string          `json:"message,omitzero"`
}

type runEnd struct {
	State    agent.State     `json:"state"`
	Text     string          `json:"text"`
	Output   []agent.Part    `json:"output"`
	Run      string          `json:"run,omitzero"` // to continue the run: {"run", "answer"}
	Session  string          `json:"session,omitzero"`
	Question *agent.Question `json:"question,omitzero"`
	Why      string          `json:"why,omitzero"`
}

// An agentRun is an active run. It is the caller of the agent and forwards its events to the page.
type agentRun struct {
	id     string
	page   jsonrpc.Peer
	ctx    context.Context // the page's context: the final events of a cancelled run are sent, too
	cancel context.CancelCauseFunc
	later  bool // leave every question unanswered

	mu      sync.Mutex // guards the fields below
	waiting chan *answerWords
}

// Tell sends an event to the page.
func (r *agentRun) Tell(_ context.Context, e agent.Event) error {
	v := runView{Run: r.id, Kind: e.Kind, Parts: e.Parts, ID: e.ID, Session: e.Session, Message: e.Message, Question: e.Question}
	var text strings.Builder
	for i := range e.Parts {
		if e.Parts[i].IsText() {
			text.WriteString(e.Parts[i].Text)
		}
	}
	v.Text = text.String()
	if e.Progress != nil {
		v.Text, v.Done, v.Total = e.Progress.Message, e.Progress.Done, e.Progress.Total
	}
	return r.page.Notify(r.ctx, "run", raw(v))
}

// Ask shows a question on the page and waits for the answer.
func (r *agentRun) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	answer := make(chan *answerWords, 1)
	r.mu.Lock()
	r.waiting = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting = nil
	}()
	if r.later {
		return nil, agent.ErrLater
	}
	if err := r.Tell(ctx, agent.Event{Kind: agent.EventQuestion, Question: q}); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		if a.Later {
			return nil, agent.ErrLater
		}
		return a.answer(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answer passes a to the waiting question and reports whether there was one.
func (r *agentRun) answer(a *answerWords) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		return false
	}
	r.waiting <- a // has capacity 1 and is empty
	r.waiting = nil
	return true
}

// agentsRun runs an agent and sends its events to the page. It returns when the run ends; it
// cancels the run if the page disconnects.
func (p *Playground) agentsRun(ctx context.Context, page jsonrpc.Peer, in agentParams) (runEnd, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(p.ctx, func() { stop(nil) })()
	dialing, cancel := context.WithTimeout(ctx, 2*openTime)
	l, err := p.dialAgent(dialing, in.Target)
	cancel()
	if err != nil {
		return runEnd{}, err
	}
	defer l.close()
	request := &agent.Request{Agent: in.Agent, Session: in.Session, Run: in.Run, Answer: in.Answer.answer()}
	if in.Run == "" {
		request.Input = agent.Prompt(in.Text)
	}
	if l.ends {
		request.Session = ""
	}
	going, give := context.WithCancelCause(ctx)
	defer give(nil)
	run := &agentRun{page: page, ctx: ctx, cancel: give, later: in.Later}
	if err := p.runs.add(run); err != nil {
		return runEnd{}, err
	}
	defer p.runs.remove(run.id)
	// This event allows the page to cancel the run before the first event of the agent.
	if err := page.Notify(ctx, "run", raw(runView{Run: run.id, Kind: "begun"})); err != nil {
		return runEnd{}, err
	}
	r, err := l.Run(going, request, run)
	end := runEnd{Output: []agent.Part{}}
	if r != nil {
		end.State, end.Text, end.Run, end.Session, end.Question, end.Why = r.State, r.String(), r.ID, r.Session, r.Question, r.Text
		end.Output = append(end.Output, r.Output...)
	}
	if l.ends {
		end.Session = ""
	}
	switch failure, failed := errors.AsType[*agent.Failure](err); {
	case errors.Is(context.Cause(going), agent.ErrCancelled) && (err == nil || r == nil || r.State == agent.Cancelled):
		end.State = agent.Cancelled
	case failed:
		end.State, end.Why = failure.State, failure.Text
	case errors.Is(err, agent.ErrCancelled), errors.Is(err, context.Canceled):
		end.State = agent.Cancelled
	case err != nil && end.State != agent.Waiting:
		return end, unavailable("%s: %s", in.Target, sentence(err))
	}
	return end, nil
}

// runs contains the active runs. The zero value is ready for use.
type runs struct {
	mu   sync.Mutex
	byID map[string]*agentRun
	last int // number of the newest
}

// add gives a run its ID, unless there are maxRuns.
func (s *runs) add(r *agentRun) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxRuns {
		return badParam("", "%d runs are active, which is the limit", maxRuns)
	}
	if s.byID == nil {
		s.byID = make(map[string]*agentRun)
	}
	s.last++
	r.id = "r" + strconv.Itoa(s.last)
	s.byID[r.id] = r
	return nil
}

func (s *runs) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

func (s *runs) find(id string) (*agentRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.byID[id]; r != nil {
		return r, nil
	}
	return nil, badParam("/run", "run %q no longer exists", id)
}

type runAnswer struct {
	Run      string      `json:"run"`
	Text     string      `json:"text,omitzero"`
	Option   string      `json:"option,omitzero"`
	Value    jsonrpc.Raw `json:"value,omitzero"`
	Declined bool        `json:"declined,omitzero"`
	Later    bool        `json:"later,omitzero"`
}

func (p *Playground) agentsAnswer(_ context.Context, in runAnswer) (none, error) {
	r, err := p.runs.find(in.Run)
	if err != nil {
		return none{}, err
	}
	if !r.answer(&answerWords{in.Text, in.Option, in.Value.Clone(), in.Declined, in.Later}) {
		return none{}, badParam("/run", "the run has no open question")
	}
	return none{}, nil
}

type runName struct {
	Run string `json:"run"`
}

func (p *Playground) agentsCancel(_ context.Context, in runName) (none, error) {
	r, err := p.runs.find(in.Run)
	if err != nil {
		return none{}, err
	}
	r.cancel(agent.ErrCancelled)
	return none{}, nil
}
