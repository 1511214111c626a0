package mcpagent

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/bounded"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Tools holds the agents that a server offers and their runs that wait for an answer. It is safe
// for concurrent use.
type Tools struct {
	mu      sync.Mutex // guards the fields below
	waiting map[string]*work
	order   []string // of waiting, oldest first
	closed  bool
}

// Bounds.
const (
	mostWaiting  = 1000      // runs that wait for a client's answer; one more ends the oldest
	waitTime     = time.Hour // how long such a run waits
	waitingSteps = 256       // unsent progress of one run
	waitingBytes = 1 << 20   // of it, with 1 KiB for each step
)

// Add offers agents as tools of s under their names. It panics if s rejects a tool's name. Close
// ends the waiting runs.
func Add(s *mcp.Server, agents ...*agent.Agent) *Tools {
	t := &Tools{waiting: map[string]*work{}}
	for _, a := range agents {
		if err := s.AddTool(Tool(&a.Card), func(ctx context.Context, r *mcp.Request) (*mcp.ToolResult, error) { return t.call(ctx, a, r) }); err != nil {
			panic("mcpagent: " + err.Error())
		}
	}
	return t
}

// Close ends the runs that wait for an answer and waits until they have ended, at most 5 s.
func (t *Tools) Close() {
	t.mu.Lock()
	t.closed = true
	all := t.waiting
	t.waiting, t.order = map[string]*work{}, nil
	t.mu.Unlock()
	for _, w := range all {
		w.give()
	}
	until := time.Now().Add(grace.Time) // for all of them; an agent may ignore its context
	for _, w := range all {
		grace.Closed(w.done, time.Until(until))
	}
}

// Tool converts a card to a tool.
func Tool(c *agent.Card) mcp.Tool {
	t := mcp.Tool{Name: c.Name, Title: c.Title, Description: c.Description, InputSchema: inputSchema}
	var own mcp.Tool
	rest := *c
	if value, ok := c.Metadata[metaTool]; ok && value.Decode(&own) == nil {
		t.Annotations, t.Icons, t.Meta = own.Annotations, own.Icons, own.Meta
		rest.Metadata = maps.Clone(c.Metadata)
		delete(rest.Metadata, metaTool)
	}
	if len(rest.Metadata) == 0 {
		rest.Metadata = nil
	}
	t.Meta = t.Meta.With(agent.MetaCard, rest)
	return t
}

// metaTool is the metadata key of the original tool in a card that was read from another
// implementation.
const metaTool = "mcp/tool"

var inputSchema = jsonrpc.Raw(`{"type":"object","properties":{"text":{"type":"string","description":"The prompt for the agent."}},"required":["text"],"additionalProperties":false}`)

// A work is one run. It can span several rounds of a call.
type work struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the run ends
	result *agent.Result // set before done is closed
	asked  chan *agent.Question
	answer chan reply

	question *agent.Question // the open question; owned by the holder of the work
	asks     int
	expire   *time.Timer

	steps *bounded.Queue[step] // when it is full, the run waits

	mu     sync.Mutex   // guards the fields below
	output agent.Output // its limit is that of events too
	events []agent.Metadata
	told   float64 // the last progress sent
	exact  bool    // the agent reports progress itself
}

// A reply is the result of a question.
type reply struct {
	answer *agent.Answer
	err    error
}

var errGone = errors.New("mcpagent: the client did not send the answer")

// give cancels a run whose result will not be read.
func (w *work) give() {
	if w.expire != nil {
		w.expire.Stop()
	}
	w.cancel(errGone)
}

// call handles one call of a tool, or a later round of one.
func (t *Tools) call(ctx context.Context, a *agent.Agent, r *mcp.Request) (*mcp.ToolResult, error) {
	key, err := mcp.Once(ctx, r, "parley/run", func(context.Context) (string, error) { return rand.Text(), nil })
	if err != nil {
		return nil, err
	}
	w := t.takeWaiting(key)
	if w == nil {
		if w, err = startWork(ctx, a, r); err != nil {
			return nil, err
		}
	}
	unhook := context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })
	defer unhook()
	for {
		if w.question == nil {
			select {
			case i := <-w.steps.C:
				w.steps.Take(i).send(ctx, r)
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
		result, err := r.Elicit(ctx, "question-"+strconv.Itoa(w.asks), formOf(w.question))
		if err != nil && ctx.Err() == nil && isRound(r, err) && unhook() {
			t.park(key, w)
			return nil, err // the client gets the question and calls again
		}
		w.reply(ctx, result, err)
	}
}

// isRound reports whether the answer to a question arrives with another call.
func isRound(r *mcp.Request, err error) bool {
	_, cannot := errors.AsType[*mcp.CapabilityError](err)
	_, refused := errors.AsType[*jsonrpc.Error](err)
	return r.Version().Modern() && !cannot && !refused
}

// reply passes the result of a question to the run, and cancels the run if the caller has gone. ctx
// is that of the call.
func (w *work) reply(ctx context.Context, result *mcp.ElicitResult, err error) {
	q := w.question
	w.question = nil
	var a *agent.Answer
	var end agent.Result
	switch {
	case ctx.Err() != nil:
		w.cancel(context.Cause(ctx))
		err = agent.ErrCancelled
	case err != nil:
	case result.Meta.Get(agent.MetaResult, &end) && end.State == agent.Cancelled: // the asked caller has gone
		w.cancel(jsonrpc.ErrPeerCancelled)
		err = agent.ErrCancelled
	default:
		a, err = answerOf(q, result)
	}
	if _, cannot := errors.AsType[*mcp.CapabilityError](err); cannot {
		err = agent.ErrNoAnswer
	}
	w.answer <- reply{a, err} // buffer of one, empty here
}

// takeWaiting returns the waiting run that a call continues, or nil.
func (t *Tools) takeWaiting(key string) *work {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waiting[key]
	if w == nil {
		return nil
	}
	t.dropLocked(key)
	if !w.expire.Stop() {
		return nil // it has just been abandoned
	}
	return w
}

// dropLocked removes a run from the waiting runs.
func (t *Tools) dropLocked(key string) {
	delete(t.waiting, key)
	for i, k := range t.order {
		if k == key {
			t.order = append(t.order[:i:i], t.order[i+1:]...)
			return
		}
	}
}

// park makes a run wait for another call.
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

// startWork starts a run on its own goroutine, which ends with the call or with Tools.
func startWork(ctx context.Context, a *agent.Agent, call *mcp.Request) (*work, error) {
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
	rest := agent.Metadata{}
	for key, value := range call.Meta() {
		switch key {
		case agent.MetaInput:
			var all []agent.Message
			if value.Decode(&all) == nil && len(all) > 0 {
				r.Input = all
			}
		case agent.MetaRequest:
			var own agent.Metadata
			_ = value.Decode(&own) // another implementation may use the key differently
			r.Metadata = r.Metadata.Merge(own)
		default:
			rest[unknown+key] = value.Clone() // the bytes belong to the call
		}
	}
	r.Metadata = r.Metadata.Merge(rest)
	w := &work{done: make(chan struct{}), asked: make(chan *agent.Question), answer: make(chan reply, 1), steps: bounded.New(waitingSteps, waitingBytes, stepCost)}
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

// A step is progress that waits to be sent. Only the goroutine of the call sends to the client.
type step struct {
	done, total float64
	message     string
}

func stepCost(s *step) int { return 1<<10 + len(s.message) }

func (s step) send(ctx context.Context, r *mcp.Request) {
	// On failure the client has gone, and ctx reports it.
	_ = r.Progress(ctx, s.done, s.total, s.message)
}

// drain sends the waiting steps, which must precede the next message.
func (w *work) drain(ctx context.Context, r *mcp.Request) {
	for {
		select {
		case i := <-w.steps.C:
			w.steps.Take(i).send(ctx, r)
		default:
			return
		}
	}
}

// Tell stores output for the result. Progress is sent at once. While the agent reports no progress
// itself, text is sent too, as the message of a step.
func (w *work) Tell(ctx context.Context, e agent.Event) error {
	s, ok, err := w.keep(e)
	if !ok {
		return err
	}
	return w.steps.Send(ctx, s)
}

// metadataWeight is what the metadata of one event weighs besides its bytes, in bytes.
const metadataWeight = 1 << 10

// storeMetadata stores the metadata of an event, which is part of the result.
func (w *work) storeMetadata(m agent.Metadata) error {
	bytes := metadataWeight
	for key, value := range m {
		bytes += len(key) + len(value)
	}
	if err := w.output.Spend(bytes); err != nil {
		return err
	}
	w.events = append(w.events, m)
	return nil
}

// keep stores an event and returns the step to send at once, if any. The error is ErrTooLarge.
func (w *work) keep(e agent.Event) (s step, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind != agent.EventStarted && e.Metadata != nil {
		if err := w.storeMetadata(e.Metadata); err != nil {
			return s, false, err
		}
	}
	switch e.Kind {
	case agent.EventOutput:
		if err := w.output.Add(&e); err != nil {
			return s, false, err
		}
		s = step{done: w.told + 1, message: agent.TextOf(e.Parts)}
		if w.exact || s.message == "" {
			return s, false, nil
		}
	case agent.EventProgress:
		w.exact = true
		s = step{e.Progress.Done, e.Progress.Total, e.Progress.Message}
	default:
		return s, false, nil
	}
	if s.done <= w.told { // progress must increase
		s.done = w.told + 1e-3
		if e.Progress != nil {
			if err := w.storeMetadata(agent.Metadata{}.With(agent.MetaProgress, e.Progress)); err != nil {
				return s, false, err
			}
		}
	}
	w.told = s.done
	return s, true, nil
}

// Ask asks through the current call.
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

// finish returns the result of the tool.
func (w *work) finish() *mcp.ToolResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.result
	out := &mcp.ToolResult{Content: blocksTo(w.output.Parts()), IsError: r.State != agent.Completed}
	if out.IsError {
		block := mcp.Text(r.Text)
		if r.State == agent.Cancelled {
			block.Text = "The run was cancelled."
		}
		block.Meta = block.Meta.With(agent.MetaResult, true)
		out.Content = append(out.Content, block)
		out.Meta = out.Meta.With(agent.MetaResult, agent.Result{State: r.State, Text: r.Text, Metadata: r.Metadata})
	}
	if w.events != nil {
		out.Meta = out.Meta.With(agent.MetaEvent, w.events)
	}
	return out
}
