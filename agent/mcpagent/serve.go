package mcpagent

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Tools are the agents that a server offers, with their runs that wait for an answer. It is safe for concurrent use.
type Tools struct {
	mu      sync.Mutex // guards what follows
	waiting map[string]*work
	order   []string // of waiting, oldest first
	closed  bool
}

// Bounds.
const (
	mostWaiting  = 1000      // runs that wait for a client to come back with an answer; one more ends the oldest
	waitTime     = time.Hour // how long they do
	waitingSteps = 256       // progress of one run that waits to be sent
)

// Add offers agents as tools of s, each by its name. It panics when s takes no tool of that name. Close ends the runs that wait.
func Add(s *mcp.Server, agents ...*agent.Agent) *Tools {
	t := &Tools{waiting: map[string]*work{}}
	for _, a := range agents {
		if err := s.AddTool(Tool(&a.Card), func(ctx context.Context, r *mcp.Request) (*mcp.ToolResult, error) { return t.call(ctx, a, r) }); err != nil {
			panic("mcpagent: " + err.Error())
		}
	}
	return t
}

// Close ends the runs that wait for an answer, and waits for them.
func (t *Tools) Close() {
	t.mu.Lock()
	t.closed = true
	all := t.waiting
	t.waiting, t.order = map[string]*work{}, nil
	t.mu.Unlock()
	for _, w := range all {
		w.give()
		<-w.done
	}
}

// Tool writes a card as a tool.
func Tool(c *agent.Card) mcp.Tool {
	t := mcp.Tool{Name: c.Name, Title: c.Title, Description: c.Description, InputSchema: inputSchema}
	var own mcp.Tool
	rest := *c
	rest.Metadata = nil
	for key, value := range c.Metadata {
		if key == metaTool && value.Decode(&own) == nil {
			t.Annotations, t.Icons, t.Meta = own.Annotations, own.Icons, own.Meta
			continue
		}
		rest.Metadata = rest.Metadata.With(key, value)
	}
	t.Meta = t.Meta.With(agent.MetaCard, rest)
	return t
}

// metaTool is where the tool of somebody else stands in a card.
const metaTool = "mcp/tool"

var inputSchema = jsonrpc.Raw(`{"type":"object","properties":{"text":{"type":"string","description":"What the agent is asked, in plain words."}},"required":["text"],"additionalProperties":false}`)

// A work is one run. It goes on from one round to the next.
type work struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the run is over
	result *agent.Result // settled when done is closed
	asked  chan *agent.Question
	answer chan reply

	question *agent.Question // that waits; whoever holds the work has it alone
	asks     int
	expire   *time.Timer

	steps chan step // waitingSteps of them; then the run waits

	mu     sync.Mutex // guards what follows
	parts  []agent.Part
	last   string // which message the last part belongs to
	events []agent.Metadata
	told   float64 // the last progress
	exact  bool    // the agent told some itself
}

// A reply is what comes of a question.
type reply struct {
	answer *agent.Answer
	err    error
}

var errGone = errors.New("mcpagent: the client did not come back with the answer")

// give ends a run that nobody will hear of.
func (w *work) give() {
	if w.expire != nil {
		w.expire.Stop()
	}
	w.cancel(errGone)
}

// call is one call of a tool, or a later round of one.
func (t *Tools) call(ctx context.Context, a *agent.Agent, r *mcp.Request) (*mcp.ToolResult, error) {
	key, err := mcp.Once(ctx, r, "parley/run", func(context.Context) (string, error) { return rand.Text(), nil })
	if err != nil {
		return nil, err
	}
	w := t.take(key)
	if w == nil {
		if w, err = begin(ctx, a, r); err != nil {
			return nil, err
		}
	}
	unhook := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer unhook()
	for {
		if w.question == nil {
			select {
			case s := <-w.steps:
				s.send(ctx, r)
				continue
			case w.question = <-w.asked:
				w.asks++
			case <-w.done:
				w.drain(ctx, r)
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return w.finish(), nil
			}
		}
		w.drain(ctx, r)
		said, err := r.Elicit(ctx, "question-"+strconv.Itoa(w.asks), formOf(w.question))
		if err != nil && ctx.Err() == nil && isRound(r, err) && unhook() {
			t.park(key, w)
			return nil, err // the client gets the question, and comes back
		}
		w.reply(said, err)
	}
}

// isRound reports whether the answer to a question comes with another call.
func isRound(r *mcp.Request, err error) bool {
	_, cannot := errors.AsType[*mcp.CapabilityError](err)
	_, said := errors.AsType[*jsonrpc.Error](err)
	return r.Version().Modern() && !cannot && !said
}

// reply gives the run what came of its question.
func (w *work) reply(said *mcp.ElicitResult, err error) {
	q := w.question
	w.question = nil
	var a *agent.Answer
	var end agent.Result
	switch {
	case err != nil:
	case said.Meta.Get(agent.MetaResult, &end) && end.State == agent.Cancelled: // whoever was asked has gone
		w.cancel(jsonrpc.ErrPeerCancelled)
		err = agent.ErrCancelled
	default:
		a, err = answerOf(q, said)
	}
	if _, cannot := errors.AsType[*mcp.CapabilityError](err); cannot {
		err = agent.ErrNoAnswer
	}
	w.answer <- reply{a, err} // holds one, and is empty
}

// take returns the run that a call goes on with, nil for none.
func (t *Tools) take(key string) *work {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waiting[key]
	if w == nil {
		return nil
	}
	t.dropLocked(key)
	if !w.expire.Stop() {
		return nil // it has just been given up
	}
	return w
}

// dropLocked takes a run out of those that wait.
func (t *Tools) dropLocked(key string) {
	delete(t.waiting, key)
	for i, k := range t.order {
		if k == key {
			t.order = append(t.order[:i:i], t.order[i+1:]...)
			return
		}
	}
}

// park lets a run wait for another call.
func (t *Tools) park(key string, w *work) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.expire = time.AfterFunc(waitTime, func() {
		t.mu.Lock()
		if t.waiting[key] == w {
			t.dropLocked(key)
		}
		t.mu.Unlock()
		w.cancel(errGone)
	})
	if t.closed {
		w.give()
		return
	}
	if len(t.order) >= mostWaiting {
		oldest := t.waiting[t.order[0]]
		t.dropLocked(t.order[0])
		oldest.give()
	}
	t.waiting[key] = w
	t.order = append(t.order, key)
}

// begin starts a run on a goroutine of its own, which ends with the call, or with Tools.
func begin(ctx context.Context, a *agent.Agent, call *mcp.Request) (*work, error) {
	var in struct {
		Text string `json:"text"`
	}
	if err := call.Arguments.Decode(&in); err != nil {
		return nil, jsonrpc.ErrInvalidParams
	}
	r := &agent.Run{Protocol: "mcp", Input: agent.Prompt(in.Text)}
	if n := call.Session(); n != nil {
		r.Session = n.ID
	}
	for key, value := range call.Meta() {
		switch key {
		case agent.MetaInput:
			var all []agent.Message
			if value.Decode(&all) == nil && len(all) > 0 {
				r.Input = all
			}
		case agent.MetaRequest:
			var own agent.Metadata
			_ = value.Decode(&own) // of somebody else, who means something else by it
			r.Metadata = r.Metadata.Merge(own)
		default:
			r.Metadata = r.Metadata.With(unknown+key, value.Clone()) // its bytes are the call's
		}
	}
	w := &work{done: make(chan struct{}), asked: make(chan *agent.Question), answer: make(chan reply, 1), steps: make(chan step, waitingSteps)}
	r.Caller = w
	var run context.Context
	run, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		defer close(w.done)
		defer w.cancel(nil)
		ctx, over := agent.Cancels(run, jsonrpc.ErrPeerCancelled, errGone)
		defer over()
		w.result = a.Execute(ctx, r)
	}()
	return w, nil
}

// A step is progress on its way out. The goroutine of the call alone speaks to the client.
type step struct {
	done, total float64
	message     string
}

func (s step) send(ctx context.Context, r *mcp.Request) {
	_ = r.Progress(ctx, s.done, s.total, s.message) // who does not take it has gone, and ctx says so
}

// drain sends the steps that wait: they come before what is sent next.
func (w *work) drain(ctx context.Context, r *mcp.Request) {
	for {
		select {
		case s := <-w.steps:
			s.send(ctx, r)
		default:
			return
		}
	}
}

// Tell keeps what is said for the result. Progress goes out at once, and so does text, as the message of a step, as long as the agent tells no progress itself.
func (w *work) Tell(ctx context.Context, e agent.Event) error {
	s, ok := w.keep(e)
	if !ok {
		return nil
	}
	select {
	case w.steps <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keep notes an event, and returns what of it is to go out at once.
func (w *work) keep(e agent.Event) (s step, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind != agent.EventStarted && e.Metadata != nil {
		w.events = append(w.events, e.Metadata)
	}
	switch e.Kind {
	case agent.EventOutput:
		if e.Message == w.last {
			w.parts = agent.Join(w.parts, e.Parts...)
		} else {
			w.parts, w.last = append(w.parts, e.Parts...), e.Message
		}
		s = step{done: w.told + 1, message: agent.TextOf(e.Parts)}
		if w.exact || s.message == "" {
			return s, false
		}
	case agent.EventProgress:
		w.exact = true
		s = step{e.Progress.Done, e.Progress.Total, e.Progress.Message}
	default:
		return s, false
	}
	if s.done <= w.told { // the protocol wants it to grow
		s.done = w.told + 1e-3
		if e.Progress != nil {
			w.events = append(w.events, agent.Metadata{}.With(agent.MetaProgress, e.Progress))
		}
	}
	w.told = s.done
	return s, true
}

// Ask lets the call ask.
func (w *work) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	select {
	case w.asked <- q:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case r := <-w.answer:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// finish makes the result of the tool.
func (w *work) finish() *mcp.ToolResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.result
	out := &mcp.ToolResult{Content: blocksTo(w.parts), IsError: r.State != agent.Completed}
	if out.IsError {
		said := mcp.Text(r.Text)
		if r.State == agent.Cancelled {
			said.Text = "The run was cancelled."
		}
		said.Meta = said.Meta.With(agent.MetaResult, true)
		out.Content = append(out.Content, said)
		out.Meta = out.Meta.With(agent.MetaResult, agent.Result{State: r.State, Text: r.Text, Metadata: r.Metadata})
	}
	if w.events != nil {
		out.Meta = out.Meta.With(agent.MetaEvent, w.events)
	}
	return out
}
