package acpagent

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// New makes an agent of this protocol, for [acp.Server.Add].
func New(a *agent.Agent) acp.Agent {
	return acp.Agent{Manifest: Manifest(&a.Card), Run: func(ctx context.Context, j *acp.Job) error {
		ctx, done := agent.Cancels(ctx, acp.ErrCancelled)
		defer done()
		r := &agent.Run{ID: j.ID(), Session: j.SessionID(), Protocol: "acp", Caller: &caller{job: j}}
		for _, m := range j.Input() {
			if own, ok := m.Extra[agent.MetaRequest]; ok && r.Metadata == nil {
				_ = own.Decode(&r.Metadata) // of somebody else, who means something else by it
			}
			r.Input = append(r.Input, messageFrom(m))
		}
		return failure(ctx, a.Execute(ctx, r))
	}}
}

// failure is how a result ends a run of this protocol, whose only failure is "failed".
func failure(ctx context.Context, r *agent.Result) error {
	switch {
	case r.State == agent.Completed:
		return nil
	case r.State == agent.Cancelled && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	said := r.Text
	if said == "" {
		said = "The run was cancelled."
	}
	e := acp.Errorf("%s", said)
	if r.State != agent.Failed || r.Metadata != nil {
		e.Data = text(agent.Metadata{}.With(agent.MetaResult, agent.Result{State: r.State, Metadata: r.Metadata}))
	}
	return e
}

// A caller is who started a run.
type caller struct {
	job *acp.Job

	mu      sync.Mutex // guards what follows, and the order of what is said
	message string
}

// Tell says parts as parts, and all else as generic events.
func (c *caller) Tell(ctx context.Context, e agent.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case agent.EventOutput:
		if e.Message != c.message {
			if err := c.job.End(ctx); err != nil {
				return err
			}
			c.message = e.Message
		}
		if e.Metadata != nil {
			if err := c.generic(ctx, e.Metadata); err != nil {
				return err
			}
		}
		return c.job.Emit(ctx, partsTo(e.Parts)...)
	case agent.EventProgress:
		return c.job.Generic(ctx, progress{Type: "progress", Progress: *e.Progress, Metadata: e.Metadata})
	case agent.EventOther:
		return c.generic(ctx, e.Metadata)
	}
	return nil
}

// progress is the generic event that tells how far a run is.
type progress struct {
	Type string `json:"type"` // "progress"
	agent.Progress
	Metadata agent.Metadata `json:"metadata,omitzero"`
}

// metaGeneric is where a generic event of somebody else stands.
const metaGeneric = "acp/generic"

// generic says what there is no word for. What came from this protocol goes out as it came.
func (c *caller) generic(ctx context.Context, m agent.Metadata) error {
	if own, ok := m[metaGeneric]; ok && len(m) == 1 {
		return c.job.Generic(ctx, own)
	}
	return c.job.Generic(ctx, map[string]agent.Metadata{agent.MetaEvent: m})
}

// Ask lets the run await the answer.
func (c *caller) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	answer, err := c.job.Await(ctx, questionTo(q))
	if err != nil {
		if errors.Is(err, acp.ErrCancelled) {
			err = agent.ErrCancelled
		}
		return nil, err
	}
	return answerFrom(answer), nil
}

// questionTo writes a question: what it says, and beside it what can be chosen.
func questionTo(q *agent.Question) acp.Message {
	m := acp.Message{Parts: partsTo(q.Content())}
	if len(m.Parts) == 0 {
		m.Parts = []acp.MessagePart{acp.Text("")}
	}
	if rest := besideText(q); rest != nil {
		m.Extra = with(m.Extra, agent.MetaQuestion, rest)
	}
	return m
}

// besideText is what a question has beside its content, nil for nothing.
func besideText(q *agent.Question) jsonrpc.Raw {
	rest := *q
	rest.Text, rest.Parts = "", nil
	if rest.Options == nil && rest.Form == nil && !rest.Auth && rest.Metadata == nil {
		return nil
	}
	return text(rest)
}

// questionFrom reads one.
func questionFrom(a *acp.AwaitRequest) *agent.Question {
	q := new(agent.Question)
	if a == nil {
		return q
	}
	if a.Message != nil {
		m := *a.Message
		if own, ok := m.Extra[agent.MetaQuestion]; ok && own.Decode(q) == nil {
			m.Extra = cloned(m.Extra)
			delete(m.Extra, agent.MetaQuestion)
		}
		q.Parts = partsFrom(m.Parts)
		if len(q.Parts) > 0 && q.Parts[0].IsText() && q.Parts[0].Name == "" && q.Parts[0].Metadata == nil {
			q.Text, q.Parts = q.Parts[0].Text, nilIfEmpty(q.Parts[1:])
		}
		for key, value := range m.Extra {
			q.Metadata = q.Metadata.With(unknown+key, value)
		}
	}
	if a.Type != "message" || a.Message == nil {
		q.Metadata = q.Metadata.With("acp/await_request", a)
	}
	return q
}

// answerTo writes an answer. One without parts says its option, or what was filled in.
func answerTo(a *agent.Answer) acp.AwaitResume {
	if own, ok := a.Metadata["acp/await_resume"]; ok {
		var raw acp.AwaitResume
		if own.Decode(&raw) == nil {
			return raw
		}
	}
	parts := partsTo(a.Parts)
	if len(parts) == 0 {
		parts = []acp.MessagePart{acp.Text(a.Text())}
	}
	out := acp.Answer(parts...)
	if a.Option != "" || a.Value != nil || a.Declined || a.Metadata != nil {
		rest := *a
		if rest.Parts != nil {
			rest.Parts = []agent.Part{} // they stand in the message
		}
		out.Message.Extra = with(out.Message.Extra, agent.MetaAnswer, text(rest))
	}
	return out
}

// answerFrom reads one.
func answerFrom(m acp.Message) *agent.Answer {
	a := new(agent.Answer)
	parts := partsFrom(m.Parts)
	own, ok := m.Extra[agent.MetaAnswer]
	if ok && own.Decode(a) == nil {
		if a.Parts != nil {
			a.Parts = parts
		}
	} else {
		a.Parts = parts
	}
	for key, value := range m.Extra {
		if key != agent.MetaAnswer {
			a.Metadata = a.Metadata.With(unknown+key, value)
		}
	}
	return a
}
