package agent

import (
	"context"
	"sync"
)

// A Request asks an agent to do something.
type Request struct {
	Agent    string    `json:"agent,omitzero"`   // its name; may be empty where there is only one
	Session  string    `json:"session,omitzero"` // goes on with a conversation; empty begins one
	Input    []Message `json:"input"`
	Metadata Metadata  `json:"metadata,omitzero"`

	// Run and Answer go on with a run that was left Waiting, where the protocol can: Input is not looked at then.
	Run    string  `json:"run,omitzero"`
	Answer *Answer `json:"answer,omitzero"`
}

// A Link is the way to agents elsewhere, in one protocol. It is safe for concurrent use.
type Link interface {
	// Agents tells which agents there are.
	Agents(ctx context.Context) ([]Card, error)

	// Do has a request done and returns how it ended; each part of the answer goes to c exactly once. When ctx ends the run is cancelled at
	// the other side, whose last word is waited for a few seconds. An error says that nobody knows how it ended, or that
	// it never began.
	Do(ctx context.Context, req *Request, c Caller) (*Result, error)

	// Attach takes part in a run that goes on elsewhere, from its beginning as far as the protocol remembers it. It is as Do otherwise, but when
	// ctx ends the run goes on. It returns ErrNoAttach where the protocol has no way back.
	Attach(ctx context.Context, id string, c Caller) (*Result, error)

	// Close gives the link up.
	Close() error
}

// A Client calls agents through a Link. It is safe for concurrent use.
type Client struct {
	Link Link
}

// Funcs are a Caller of functions. A nil OnEvent drops events; a nil OnAsk answers ErrNoAnswer.
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

// Agents tells which agents there are.
func (c *Client) Agents(ctx context.Context) ([]Card, error) { return c.Link.Agents(ctx) }

// Close gives the link up.
func (c *Client) Close() error { return c.Link.Close() }

// Run has a request done. Events and questions go to by, which may be nil. The Result holds all of the answer; it comes with an error,
// that of [Result.Err], when the agent did not do what it was asked. When ctx ends the error is its cause.
func (c *Client) Run(ctx context.Context, req *Request, by Caller) (*Result, error) {
	return collect(ctx, by, func(by Caller) (*Result, error) { return c.Link.Do(ctx, req, by) })
}

// Attach takes part in a run that goes on elsewhere; see [Link.Attach]. The rest is as in Run.
func (c *Client) Attach(ctx context.Context, id string, by Caller) (*Result, error) {
	return collect(ctx, by, func(by Caller) (*Result, error) { return c.Link.Attach(ctx, id, by) })
}

func collect(ctx context.Context, by Caller, do func(Caller) (*Result, error)) (*Result, error) {
	if by == nil {
		by = Funcs{}
	}
	all := &collector{by: by}
	r, err := do(all)
	if err != nil {
		return nil, err
	}
	all.into(r)
	if ctx.Err() != nil && r.State == Cancelled {
		return r, context.Cause(ctx)
	}
	return r, r.Err()
}

// A collector is a Caller that keeps the answer.
type collector struct {
	by Caller

	mu          sync.Mutex // guards what follows
	parts       []Part
	message     string
	id, session string
}

// Tell keeps parts and passes everything on.
func (c *collector) Tell(ctx context.Context, e Event) error {
	c.mu.Lock()
	switch e.Kind {
	case EventStarted:
		c.id, c.session = e.ID, e.Session
	case EventOutput:
		if c.message != e.Message { // text of another message does not go on with this one's
			c.parts = append(c.parts, e.Parts[:min(1, len(e.Parts))]...)
			c.parts = Join(c.parts, e.Parts[min(1, len(e.Parts)):]...)
			c.message = e.Message
		} else {
			c.parts = Join(c.parts, e.Parts...)
		}
	}
	c.mu.Unlock()
	return c.by.Tell(ctx, e)
}

// Ask passes the question on.
func (c *collector) Ask(ctx context.Context, q *Question) (*Answer, error) {
	a, err := c.by.Ask(ctx, q)
	if err == nil {
		q.Settle(a)
	}
	return a, err
}

// into completes a result.
func (c *collector) into(r *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Output = c.parts
	if r.ID == "" {
		r.ID = c.id
	}
	if r.Session == "" {
		r.Session = c.session
	}
}

// Agent makes an agent of one that is called through c, to be served in another protocol, or in the same. It remembers up to 10,000
// conversations, and what they are called at the other side.
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

// A relay passes on what a run elsewhere has to say. By which names that is known there is not for its caller.
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
