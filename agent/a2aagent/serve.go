package a2aagent

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
)

// New makes an agent of this protocol, for [a2a.NewServer].
func New(a *agent.Agent) a2a.Agent {
	return a2a.AgentFunc(func(ctx context.Context, run *a2a.Run) error {
		ctx, done := agent.Cancels(ctx, a2a.ErrCanceled)
		defer done()
		// It is a task from the start: the caller may know it, and cancel it, before there is something to say.
		if err := run.Working(ctx); err != nil {
			return err
		}
		r := &agent.Run{ID: run.TaskID, Session: run.ContextID, Protocol: "a2a", Input: inputFrom(run.Message), Metadata: metadataOf(run.Metadata),
			Caller: &caller{run: run, begun: map[string]bool{}}}
		return failure(ctx, a.Execute(ctx, r))
	})
}

// failure is how a result ends a task.
func failure(ctx context.Context, r *agent.Result) error {
	state := a2a.StateFailed
	switch {
	case r.State == agent.Completed:
		return nil
	case r.State == agent.Cancelled && ctx.Err() != nil:
		return context.Cause(ctx)
	case r.State == agent.Cancelled:
		state = a2a.StateCanceled
	case r.State == agent.Rejected:
		state = a2a.StateRejected
	}
	said := a2a.Text(r.Text)
	if r.Metadata != nil {
		said.Metadata = said.Metadata.With(agent.MetaResult, agent.Result{State: r.State, Metadata: r.Metadata})
	}
	return &a2a.Failure{State: state, Parts: []a2a.Part{said}}
}

// A caller is who sent the message.
type caller struct {
	run *a2a.Run

	mu    sync.Mutex // guards what follows, and the order of what is said
	begun map[string]bool
}

// result is the artifact that holds what has no name.
const result = "result"

// artifactTo names the artifact that a part belongs to: one for each name, and "result" for what has none.
func artifactTo(p *agent.Part, message string) a2a.Artifact {
	a := a2a.Artifact{ArtifactID: result, Name: result}
	if p.Name != "" {
		a.ArtifactID, a.Name = "name:"+p.Name, p.Name
	}
	if message != "" {
		a.ArtifactID += "#" + message
	}
	return a
}

// artifactFrom reads such a name, and those of others: each artifact of theirs is a message of its own.
func artifactFrom(a *a2a.Artifact) (name, message string) {
	if name = a.Name; name == result {
		name = ""
	}
	for _, own := range []string{result, "name:" + a.Name} {
		if rest, ok := strings.CutPrefix(a.ArtifactID, own); ok && (rest == "" || rest[0] == '#') {
			return name, strings.TrimPrefix(rest, "#")
		}
	}
	return name, a.ArtifactID
}

// Tell says parts as pieces of artifacts, and all else as news about the work.
func (c *caller) Tell(ctx context.Context, e agent.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Kind {
	case agent.EventOutput:
		for i := range e.Parts {
			a := artifactTo(&e.Parts[i], e.Message)
			a.Parts = []a2a.Part{partTo(e.Parts[i], false)}
			if i == 0 && e.Metadata != nil {
				a.Metadata = a.Metadata.With(agent.MetaEvent, e.Metadata)
			}
			if err := c.run.Chunk(ctx, a, c.begun[a.ArtifactID], false); err != nil {
				return err
			}
			c.begun[a.ArtifactID] = true
		}
	case agent.EventProgress:
		m := a2a.Metadata{}.With(agent.MetaProgress, e.Progress)
		if e.Metadata != nil {
			m = m.With(agent.MetaEvent, e.Metadata)
		}
		var parts []a2a.Part
		if e.Progress.Message != "" {
			parts = append(parts, a2a.Text(e.Progress.Message))
		}
		return c.run.Update(ctx, a2a.StateWorking, m, parts...)
	case agent.EventOther:
		return c.run.Update(ctx, a2a.StateWorking, a2a.Metadata{}.With(agent.MetaEvent, e.Metadata))
	}
	return nil
}

// Ask lets the task wait for the caller's next message.
func (c *caller) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	ask := c.run.Ask
	if q.Auth {
		ask = c.run.AskAuth
	}
	m, err := ask(ctx, questionTo(q)...)
	if err != nil {
		if errors.Is(err, a2a.ErrCanceled) {
			err = agent.ErrCancelled
		}
		return nil, err
	}
	return answerFrom(m), nil
}

// questionTo writes a question: what it says, and in the metadata of its first part what can be chosen.
func questionTo(q *agent.Question) []a2a.Part {
	parts := partsTo(q.Content())
	if len(parts) == 0 {
		parts = []a2a.Part{a2a.Text("")}
	}
	if q.Options != nil || q.Form != nil || q.Metadata != nil {
		rest := *q
		rest.Text, rest.Parts = "", nil
		parts[0].Metadata = parts[0].Metadata.With(agent.MetaQuestion, rest)
	}
	return parts
}

// questionFrom reads one.
func questionFrom(s a2a.TaskStatus) *agent.Question {
	q := new(agent.Question)
	if m := s.Message; m != nil {
		parts := append([]a2a.Part{}, m.Parts...)
		if len(parts) > 0 {
			if own, ok := parts[0].Metadata[agent.MetaQuestion]; ok && own.Decode(q) == nil {
				parts[0].Metadata = without(parts[0].Metadata, agent.MetaQuestion)
			}
		}
		q.Parts = partsFrom(parts)
		if len(q.Parts) > 0 && q.Parts[0].IsText() && q.Parts[0].Name == "" && q.Parts[0].Metadata == nil {
			q.Text, q.Parts = q.Parts[0].Text, q.Parts[1:]
		}
		if len(q.Parts) == 0 {
			q.Parts = nil
		}
		for key, value := range m.Metadata {
			q.Metadata = q.Metadata.With(key, value)
		}
	}
	q.Auth = s.State == a2a.StateAuthRequired
	return q
}

func without(m a2a.Metadata, key string) a2a.Metadata {
	var out a2a.Metadata
	for k, v := range m {
		if k != key {
			out = out.With(k, v)
		}
	}
	return out
}

// answerTo writes an answer to a task. One without parts says its option, or what was filled in.
func answerTo(a *agent.Answer, task, session string) *a2a.Message {
	m := a2a.UserMessage(partsTo(a.Parts)...)
	if len(m.Parts) == 0 {
		m.Parts = []a2a.Part{a2a.Text(a.Text())}
		if a.Value != nil {
			m.Parts = []a2a.Part{{Kind: a2a.KindData, Data: a.Value}}
		}
	}
	if a.Option != "" || a.Value != nil || a.Declined {
		rest := *a
		rest.Metadata = nil
		if rest.Parts != nil {
			rest.Parts = []agent.Part{} // they stand in the message
		}
		m.Metadata = m.Metadata.With(agent.MetaAnswer, rest)
	}
	for key, value := range a.Metadata {
		m.Metadata = m.Metadata.With(key, value)
	}
	m.TaskID, m.ContextID = task, session
	return m
}

// answerFrom reads one.
func answerFrom(m *a2a.Message) *agent.Answer {
	a := new(agent.Answer)
	parts := partsFrom(m.Parts)
	own, ok := m.Metadata[agent.MetaAnswer]
	if ok && own.Decode(a) == nil {
		if a.Parts != nil {
			a.Parts = parts
		}
	} else {
		a.Parts = parts
	}
	for key, value := range m.Metadata {
		if key != agent.MetaAnswer {
			a.Metadata = a.Metadata.With(key, value)
		}
	}
	return a
}
