package agent

import (
	"context"
	"sync"
)

// A Request is a request to an agent.
type Request struct {
	// Agent is the agent's name. It may be empty if there is only one agent.
	Agent string `json:"agent,omitzero"`
	// Session continues a conversation. If empty, a new one starts.
	Session  string    `json:"session,omitzero"`
	Input    []Message `json:"input"`
	Metadata Metadata  `json:"metadata,omitzero"`

	// Run and Answer continue a run that was left Waiting, in protocols that support it. Input is
	// then ignored.
	Run    string  `json:"run,omitzero"`
	Answer *Answer `json:"answer,omitzero"`
}

// A Link is a connection to remote agents in one protocol. It is safe for concurrent use.
type Link interface {
	// Agents returns the cards of the available agents.
	Agents(ctx context.Context) ([]Card, error)

	// Do runs a request and returns its result. Each output part is passed to c exactly once. When
	// ctx ends, Do cancels the remote run and waits up to a few seconds for its end. It returns an
	// error if the outcome is unknown or the run never started.
	Do(ctx context.Context, req *Request, c Caller) (*Result, error)

	// Attach follows a running remote run, from its beginning as far as the protocol retains it. It
	// is like Do otherwise, but the run continues when ctx ends. It returns ErrNoAttach if the
	// protocol does not support it.
	Attach(ctx context.Context, id string, c Caller) (*Result, error)

	// Close closes the link.
	Close() error
}

// A Client calls agents through a Link. It is safe for concurrent use.
type Client struct {
	Link Link

	// MaxOutput is the limit of the output that Run, Attach and Start collect for the Result, as in
	// [Output]: in bytes, 64 MiB if zero, none if negative. A longer run is cancelled, and the error
	// is ErrTooLarge. [Link.Do] collects nothing.
	MaxOutput int64
}

// Funcs implements [Caller] with functions. If OnEvent is nil, events are dropped; if OnAsk is nil,
// Ask returns ErrNoAnswer.
type Funcs struct {
	OnEvent func(ctx context.Context, e Event) error
	OnAsk   func(ctx context.Context, q *Question) (*Answer, error)
}

// Tell calls OnEvent.
func (f Funcs) Tell(ctx context.Context, e Event) error {
	if f.OnEvent == nil {
		return nil
	}
	return f.OnEvent(ctx, e)
}

// Ask calls OnAsk.
func (f Funcs) Ask(ctx context.Context, q *Question) (*Answer, error) {
	if f.OnAsk == nil {
		return nil, ErrNoAnswer
	}
	return f.OnAsk(ctx, q)
}

// Agents returns the cards of the available agents.
func (c *Client) Agents(ctx context.Context) ([]Card, error) { return c.Link.Agents(ctx) }

// Close closes the link.
func (c *Client) Close() error { return c.Link.Close() }

// Run runs a request. Events and questions go to by, which may be nil. The Result holds the whole
// output. If the run failed, was rejected or was cancelled, Run returns the Result together with
// the error of [Result.Err]. If ctx ends, the error is its cause. If the output is over MaxOutput,
// the run is cancelled, and the error is ErrTooLarge.
func (c *Client) Run(ctx context.Context, req *Request, by Caller) (*Result, error) {
	return c.collect(ctx, by, func(ctx context.Context, by Caller) (*Result, error) { return c.Link.Do(ctx, req, by) })
}

// Attach follows a running remote run; see [Link.Attach]. Otherwise it is like [Client.Run].
func (c *Client) Attach(ctx context.Context, id string, by Caller) (*Result, error) {
	return c.collect(ctx, by, func(ctx context.Context, by Caller) (*Result, error) { return c.Link.Attach(ctx, id, by) })
}

func (c *Client) collect(ctx context.Context, by Caller, do func(context.Context, Caller) (*Result, error)) (*Result, error) {
	if by == nil {
		by = Funcs{}
	}
	// A remote agent that ignores its cancellation is left after a few seconds.
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := &collector{by: by, output: Output{Max: c.MaxOutput}, cancel: cancel}
	r, err := do(own, all)
	if err == nil && all.isFull() {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	all.into(r)
	if ctx.Err() != nil && r.State == Cancelled {
		return r, context.Cause(ctx)
	}
	return r, r.Err()
}

// A collector is a Caller that collects the output.
type collector struct {
	by     Caller
	cancel context.CancelCauseFunc // of the run

	mu          sync.Mutex // guards the fields below
	output      Output
	full        bool // it has not room for an event
	id, session string
}

// Tell stores output parts and forwards every event.
func (c *collector) Tell(ctx context.Context, e Event) error {
	if err := c.store(&e); err != nil {
		return err
	}
	return c.by.Tell(ctx, e)
}

func (c *collector) store(e *Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case EventStarted:
		c.id, c.session = e.ID, e.Session
	case EventOutput:
		if err := c.output.Add(e); err != nil {
			c.full = true
			c.cancel(err)
			return err
		}
	}
	return nil
}

func (c *collector) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full
}

// Ask forwards the question.
func (c *collector) Ask(ctx context.Context, q *Question) (*Answer, error) {
	a, err := c.by.Ask(ctx, q)
	if err == nil {
		q.Settle(a)
	}
	return a, err
}

// into adds the output to a result.
func (c *collector) into(r *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Output = c.output.Parts()
	if r.ID == "" {
		r.ID = c.id
	}
	if r.Session == "" {
		r.Session = c.session
	}
}

// Agent returns an agent that forwards its requests through c, so that it can be served in another
// protocol or in the same one. It stores the remote IDs of up to 10,000 conversations.
func (c *Client) Agent(card Card) *Agent {
	known := new(sessions)
	return &Agent{Card: card, Run: func(ctx context.Context, r *Run) error {
		req := &Request{Agent: card.Name, Session: known.get(r.Session), Input: r.Input, Metadata: r.Metadata}
		out, err := c.Link.Do(ctx, req, relay{r, known})
		if err != nil {
			return err
		}
		known.put(r.Session, out.Session)
		return out.Err()
	}}
}

// A relay forwards the events of a remote run, without the remote run's IDs.
type relay struct {
	run   *Run
	known *sessions
}

func (r relay) Tell(ctx context.Context, e Event) error {
	if e.Kind == EventStarted {
		r.known.put(r.run.Session, e.Session)
		return nil
	}
	return r.run.Tell(ctx, e)
}

func (r relay) Ask(ctx context.Context, q *Question) (*Answer, error) { return r.run.Ask(ctx, q) }
