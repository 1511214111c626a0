package a2aagent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
)

// New returns an agent of this protocol, for [a2a.NewServer].
func New(a *agent.Agent) a2a.Agent {
	return a2a.AgentFunc(func(ctx context.Context, run *a2a.Run) error {
		ctx, done := agent.Cancels(ctx, a2a.ErrCanceled)
		defer done()
		// Create the task at once: the caller can then see and cancel it before there is output.
		if err := run.Working(ctx); err != nil {
			return err
		}
		c := newCaller(run)
		r := &agent.Run{ID: run.TaskID, Session: run.ContextID, Protocol: "a2a", Input: inputFrom(run.Message), Metadata: metadataOf(run.Metadata),
			Caller: c}
		result := a.Execute(ctx, r)
		c.finish(ctx)
		return failure(ctx, result)
	})
}

// failure ends a task with a result.
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

// A caller is the sender of the message.
type caller struct {
	run *a2a.Run

	mu    sync.Mutex // guards the fields below and the order of output
	begun map[string]bool
	open  []a2a.Artifact // without parts: those of this run that may get more, in order
}

// newCaller returns the caller of a run. A run may continue a task that has artifacts: their
// output is appended to.
func newCaller(run *a2a.Run) *caller {
	c := &caller{run: run, begun: map[string]bool{}}
	task := run.Task()
	for i := range task.Artifacts {
		c.begun[task.Artifacts[i].ArtifactID] = true
	}
	return c
}

// finish sends the last chunk of each artifact, for clients that wait for it: only the end of the
// run shows that no output follows. The chunk is an empty text, because an artifact has at least
// one part (A2A 1.0.1, sections 4.1.7 and 4.2.2), and is not added to the artifact. If the task
// waits for its caller, output may follow.
func (c *caller) finish(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == 0 || c.run.Task().Status.State.Interrupted() {
		return
	}
	for _, a := range c.open {
		a.Parts = []a2a.Part{a2a.Text("")}
		if c.run.Chunk(ctx, a, true, true) != nil {
			return // the task is cancelled, or full: its end follows anyway
		}
	}
	c.open = nil
}

// result is the artifact that holds unnamed output.
const result = "result"

// artifactTo returns the artifact of a part: one for each name, and "result" for unnamed parts.
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

// artifactFrom reads the name of such an artifact. Each artifact of another implementation is a
// message of its own.
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

// Tell sends parts as artifact updates and other events as status updates.
func (c *caller) Tell(ctx context.Context, e agent.Event) error {
	err := c.tell(ctx, e)
	if errors.Is(err, a2a.ErrTooLarge) {
		return agent.Errorf("The output of the agent exceeds the limit of a task.")
	}
	return err
}

func (c *caller) tell(ctx context.Context, e agent.Event) error {
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
			if !slices.ContainsFunc(c.open, func(o a2a.Artifact) bool { return o.ArtifactID == a.ArtifactID }) {
				c.open = append(c.open, a2a.Artifact{ArtifactID: a.ArtifactID, Name: a.Name})
			}
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

// Ask makes the task wait for the caller's next message.
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

// questionTo converts a question: its content as parts, with the options in the metadata of the
// first part.
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
	if q.Options != nil { // clients of other implementations do not support options
		choices := a2a.Text(q.Choices())
		choices.Metadata = choices.Metadata.With(agent.MetaChoices, true)
		parts = append(parts, choices)
	}
	return parts
}

// questionFrom converts a status to a question.
func questionFrom(s a2a.TaskStatus) *agent.Question {
	q := new(agent.Question)
	if m := s.Message; m != nil {
		parts := append([]a2a.Part{}, m.Parts...)
		if len(parts) > 0 {
			if own, ok := parts[0].Metadata[agent.MetaQuestion]; ok && own.Decode(q) == nil {
				parts[0].Metadata = without(parts[0].Metadata, agent.MetaQuestion)
			}
		}
		parts = slices.DeleteFunc(parts, func(p a2a.Part) bool { return p.Metadata[agent.MetaChoices] != nil })
		q.Parts = partsFrom(parts)
		if len(q.Parts) > 0 && q.Parts[0].IsText() && q.Parts[0].Name == "" && q.Parts[0].Metadata == nil {
			q.Text, q.Parts = q.Parts[0].Text, q.Parts[1:]
		}
		if len(q.Parts) == 0 {
			q.Parts = nil
		}
		q.Metadata = q.Metadata.Merge(agent.Metadata(m.Metadata))
	}
	q.Auth = s.State == a2a.StateAuthRequired
	return q
}

func without(m a2a.Metadata, key string) a2a.Metadata {
	if _, ok := m[key]; ok {
		m = maps.Clone(m)
		delete(m, key)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// answerTo converts an answer to a message of a task. An answer without parts is sent as the text
// of its option or form value.
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
			rest.Parts = []agent.Part{} // they are in the message
		}
		m.Metadata = m.Metadata.With(agent.MetaAnswer, rest)
	}
	m.Metadata = m.Metadata.Merge(a2a.Metadata(a.Metadata))
	m.TaskID, m.ContextID = task, session
	return m
}

// answerFrom converts a message to an answer.
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
	a.Metadata = a.Metadata.Merge(agent.Metadata(without(m.Metadata, agent.MetaAnswer)))
	return a
}
