package acpagent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// New returns an agent of this protocol, for [acp.Server.Add].
func New(a *agent.Agent) acp.Agent {
	return acp.Agent{Manifest: Manifest(&a.Card), Run: func(ctx context.Context, j *acp.Job) error {
		ctx, done := agent.Cancels(ctx, acp.ErrCancelled)
		defer done()
		r := &agent.Run{ID: j.ID(), Session: j.SessionID(), Protocol: "acp", Caller: &caller{job: j}}
		for _, m := range j.Input() {
			if own, ok := m.Extra[agent.MetaRequest]; ok && r.Metadata == nil {
				_ = own.Decode(&r.Metadata) // another implementation may use the key differently
			}
			r.Input = append(r.Input, messageFrom(m))
		}
		return failure(ctx, a.Execute(ctx, r))
	}}
}

// failure ends a run of this protocol with a result; its only failure state is "failed".
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

// A caller is the caller of a run.
type caller struct {
	job *acp.Job

	mu      sync.Mutex // guards the fields below and the order of output
	message string
}

// Tell sends output as message parts and other events as generic events.
func (c *caller) Tell(ctx context.Context, e agent.Event) error {
	err := c.tell(ctx, e)
	if errors.Is(err, acp.ErrTooLarge) {
		return agent.Errorf("%s", strings.TrimPrefix(err.Error(), "acp: "))
	}
	return cancelled(err)
}

// cancelled returns err, or [agent.ErrCancelled] if the caller has cancelled the run. The job knows
// it before the context of the agent's function ends.
func cancelled(err error) error {
	if errors.Is(err, acp.ErrCancelled) {
		return agent.ErrCancelled
	}
	return err
}

func (c *caller) tell(ctx context.Context, e agent.Event) error {
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
		return c.job.Emit(ctx, split(partsTo(e.Parts), c.job.MaxPart())...)
	case agent.EventProgress:
		return c.job.Generic(ctx, progress{Type: "progress", Progress: *e.Progress, Metadata: e.Metadata})
	case agent.EventOther:
		return c.generic(ctx, e.Metadata)
	}
	return nil
}

// A progress is the generic event that reports a run's progress.
type progress struct {
	Type string `json:"type"` // "progress"
	agent.Progress
	Metadata agent.Metadata `json:"metadata,omitzero"`
}

// metaGeneric is the metadata key of a generic event of another implementation.
const metaGeneric = "acp/generic"

// generic sends data that the protocol has no field for. Data that came from this protocol is sent
// unchanged.
func (c *caller) generic(ctx context.Context, m agent.Metadata) error {
	if own, ok := m[metaGeneric]; ok && len(m) == 1 {
		return c.job.Generic(ctx, own)
	}
	return c.job.Generic(ctx, map[string]agent.Metadata{agent.MetaEvent: m})
}

// Ask makes the run await the answer.
func (c *caller) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	answer, err := c.job.Await(ctx, questionTo(q))
	if err != nil {
		return nil, cancelled(err)
	}
	return answerFrom(answer), nil
}

// questionTo converts a question: its content as parts, with the options in the metadata.
func questionTo(q *agent.Question) acp.Message {
	m := acp.Message{Parts: partsTo(q.Content())}
	if len(m.Parts) == 0 {
		m.Parts = []acp.MessagePart{acp.Text("")}
	}
	if rest := besideText(q); rest != nil {
		m.Extra = with(m.Extra, agent.MetaQuestion, rest)
	}
	if q.Options != nil { // clients of other implementations do not support options
		choices := acp.Text(q.Choices())
		choices.Extra = with(choices.Extra, agent.MetaChoices, jsonrpc.Raw("true"))
		m.Parts = append(m.Parts, choices)
	}
	return m
}

// besideText returns the fields of a question besides its content, or nil.
func besideText(q *agent.Question) jsonrpc.Raw {
	rest := *q
	rest.Text, rest.Parts = "", nil
	if rest.Options == nil && rest.Form == nil && !rest.Auth && rest.Metadata == nil {
		return nil
	}
	return text(rest)
}

// questionFrom converts an await request to a question.
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
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p acp.MessagePart) bool { return p.Extra[agent.MetaChoices] != nil })
		q.Parts = partsFrom(m.Parts)
		if len(q.Parts) > 0 && q.Parts[0].IsText() && q.Parts[0].Name == "" && q.Parts[0].Metadata == nil {
			q.Text, q.Parts = q.Parts[0].Text, nilIfEmpty(q.Parts[1:])
		}
		q.Metadata = q.Metadata.Merge(fromExtra(m.Extra, ""))
	}
	if a.Type != "message" || a.Message == nil {
		q.Metadata = q.Metadata.With("acp/await_request", a)
	}
	return q
}

// answerTo converts an answer. An answer without parts is sent as the text of its option or form
// value.
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
			rest.Parts = []agent.Part{} // they are in the message
		}
		out.Message.Extra = with(out.Message.Extra, agent.MetaAnswer, text(rest))
	}
	return out
}

// answerFrom converts a message to an answer.
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
	a.Metadata = a.Metadata.Merge(fromExtra(m.Extra, agent.MetaAnswer))
	return a
}
