package a2aagent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
)

// Client makes a client of the agent behind c, which it owns. card is what the agent says about itself; nil asks for it where the
// carrier has a way, which over HTTP is [a2ahttp.Dial]'s.
func Client(c *a2a.Client, card *a2a.AgentCard) *agent.Client {
	return &agent.Client{Link: &link{client: c, card: card}}
}

type link struct {
	client *a2a.Client

	mu   sync.Mutex // guards what follows
	card *a2a.AgentCard
}

func (l *link) Close() error { return l.client.Close() }

// about returns the card.
func (l *link) about(ctx context.Context) (*a2a.AgentCard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.card != nil {
		return l.card, nil
	}
	card, err := l.client.Card(ctx)
	if err == nil {
		l.card = card
	}
	return card, err
}

// Agents tells of the one that there is.
func (l *link) Agents(ctx context.Context) ([]agent.Card, error) {
	card, err := l.about(ctx)
	if err != nil {
		return nil, err
	}
	return []agent.Card{CardOf(card)}, nil
}

// Do sends a message, and follows what comes of it. The name of the agent is not looked at: there is one.
func (l *link) Do(ctx context.Context, req *agent.Request, c agent.Caller) (*agent.Result, error) {
	f := l.follower(ctx, c)
	talk, release := agent.Outlive(ctx, f.Stop)
	defer release()
	send := &a2a.SendRequest{Message: inputTo(req.Input), Metadata: a2a.Metadata(req.Metadata)}
	send.Message.ContextID = req.Session
	var before *a2a.Task
	if req.Run != "" {
		if req.Answer == nil {
			return nil, errors.New("a2aagent: a task that waits needs an answer")
		}
		task, err := l.client.Task(ctx, &a2a.GetTaskRequest{ID: req.Run})
		if err != nil {
			return nil, err
		}
		for _, a := range task.Artifacts { // they were told to who asked first
			f.told[a.ArtifactID] = len(a.Parts)
		}
		send.Message, before = answerTo(req.Answer, req.Run, task.ContextID), task
	}
	return f.follow(talk, l.send(talk, send, before))
}

// Attach hears of a task from its beginning, as far as its artifacts tell, and stays with it.
func (l *link) Attach(ctx context.Context, id string, c agent.Caller) (*agent.Result, error) {
	f := l.follower(ctx, c)
	if task, err := l.client.Task(ctx, &a2a.GetTaskRequest{ID: id}); err != nil {
		return nil, err
	} else if task.Status.State.Terminal() { // which nobody can subscribe to
		return f.follow(ctx, func(yield func(a2a.Event, error) bool) { yield(a2a.Event{Task: task}, nil) })
	}
	return f.follow(ctx, l.client.Subscribe(ctx, id, 0))
}

// send streams where the agent streams, and else waits for the end. A stream that is refused (-32004) is tried without: before is the task that the
// message belongs to, nil for none, as it was, so that a message which was taken nevertheless is not sent twice.
func (l *link) send(ctx context.Context, r *a2a.SendRequest, before *a2a.Task) iter.Seq2[a2a.Event, error] {
	l.mu.Lock()
	whole := l.card != nil && !l.card.Capabilities.Streaming
	l.mu.Unlock()
	if whole {
		return func(yield func(a2a.Event, error) bool) { yield(l.client.Send(ctx, r)) }
	}
	return func(yield func(a2a.Event, error) bool) {
		begun := false
		for e, err := range l.client.Stream(ctx, r) {
			if err != nil && !begun && errors.Is(err, a2a.ErrUnsupportedOperation) {
				l.sendWhole(ctx, r, before, yield)
				return
			}
			begun = true
			if !yield(e, err) {
				return
			}
		}
	}
}

// sendWhole sends a message whose stream was refused, and waits for the end. Servers made with @a2a-js/sdk refuse the stream of an answer, when their
// agent does not begin with the task, after the agent has got it.
func (l *link) sendWhole(ctx context.Context, r *a2a.SendRequest, before *a2a.Task, yield func(a2a.Event, error) bool) {
	if before != nil {
		now, err := l.client.Task(ctx, &a2a.GetTaskRequest{ID: before.ID})
		switch {
		case err != nil:
			yield(a2a.Event{}, err)
			return
		case now.Status.State.Terminal():
			yield(a2a.Event{Task: now}, nil)
			return
		case now.Status.State != before.Status.State || !now.Status.Timestamp.Equal(before.Status.Timestamp.Time):
			for e, err := range l.client.Subscribe(ctx, before.ID, 0) {
				if !yield(e, err) || e.State().Rests() {
					return
				}
			}
			return
		}
	}
	yield(l.client.Send(ctx, r))
}

// A follower is one task, as its caller hears of it.
type follower struct {
	*agent.Remote
	link *link

	task  a2a.Task
	told  map[string]int // how many parts of each artifact; those of a task that comes whole again are not new
	spoke bool           // a message instead of a task
}

// follower makes the follower of a task that c asked for.
func (l *link) follower(ctx context.Context, c agent.Caller) *follower {
	return &follower{link: l, told: map[string]int{}, Remote: agent.NewRemote(ctx, c, func(ctx context.Context, id string) {
		_, _ = l.client.Cancel(ctx, id) // it may be over
	})}
}

// started notes which task it is.
func (f *follower) started(id, session string) {
	if f.task.ID == "" {
		f.task.ID, f.task.ContextID = id, session
	}
	f.Started(id, session)
}

// event hears one thing that comes of the message.
func (f *follower) event(e a2a.Event) {
	switch {
	case e.Message != nil:
		f.spoke = true
		f.task.ContextID = e.Message.ContextID
		f.started(e.Message.TaskID, e.Message.ContextID)
		f.Tell(agent.Event{Kind: agent.EventOutput, Parts: partsFrom(e.Message.Parts), Metadata: metadataOf(e.Message.Metadata)})
	case e.Task != nil:
		f.started(e.Task.ID, e.Task.ContextID)
		f.task = *e.Task
		for i := range e.Task.Artifacts {
			a := &e.Task.Artifacts[i]
			f.artifact(a, a.Parts[min(f.told[a.ArtifactID], len(a.Parts)):], nil)
		}
		f.status(e.Task.Status, nil)
	case e.Artifact != nil:
		f.started(e.Artifact.TaskID, e.Artifact.ContextID)
		f.task.Apply(e)
		a := &e.Artifact.Artifact
		m := metadataOf(e.Artifact.Metadata)
		if !e.Artifact.Append && f.told[a.ArtifactID] > 0 {
			m = m.With("a2a/replaces", a.ArtifactID)
			f.told[a.ArtifactID] = 0
		}
		f.artifact(a, a.Parts, m)
	case e.Status != nil:
		f.started(e.Status.TaskID, e.Status.ContextID)
		f.task.Apply(e)
		f.status(e.Status.Status, e.Status.Metadata)
	}
}

// artifact tells parts that are new.
func (f *follower) artifact(a *a2a.Artifact, parts []a2a.Part, m agent.Metadata) {
	if len(parts) == 0 {
		return
	}
	out := agent.Event{Kind: agent.EventOutput, Parts: partsFrom(parts), Metadata: m}
	var name string
	if name, out.Message = artifactFrom(a); name != "" {
		for i := range out.Parts {
			out.Parts[i].Name = name
		}
	}
	var own agent.Metadata
	if a.Metadata.Get(agent.MetaEvent, &own) {
		out.Metadata = out.Metadata.Merge(own)
	}
	if rest := without(a.Metadata, agent.MetaEvent); f.told[a.ArtifactID] == 0 && (rest != nil || a.Description != "" || a.Extensions != nil) {
		about := *a
		about.Parts, about.Metadata = []a2a.Part{}, rest
		out.Metadata = out.Metadata.With("a2a/artifact", about)
	}
	f.told[a.ArtifactID] += len(parts)
	f.Tell(out)
}

// status tells what the agent says about its work. What ends the task, or asks, is for later.
func (f *follower) status(s a2a.TaskStatus, about a2a.Metadata) {
	if s.State == a2a.StateCompleted && s.Message != nil {
		f.Tell(agent.Event{Kind: agent.EventOutput, Message: "status", Parts: partsFrom(s.Message.Parts), Metadata: metadataOf(s.Message.Metadata)})
		return
	}
	if s.State.Rests() {
		return
	}
	e := agent.Event{Kind: agent.EventOther}
	var p agent.Progress
	switch {
	case about.Get(agent.MetaProgress, &p):
		e.Kind, e.Progress = agent.EventProgress, &p
	case s.Message != nil:
		e.Kind, e.Progress = agent.EventProgress, &agent.Progress{Message: a2a.TextOf(s.Message.Parts)}
		e.Metadata = e.Metadata.With(metaMessage, s.Message)
	}
	for key, value := range about {
		var own agent.Metadata
		switch {
		case key == agent.MetaProgress:
		case key == agent.MetaEvent && value.Decode(&own) == nil:
			e.Metadata = e.Metadata.Merge(own)
		default:
			e.Metadata = e.Metadata.With(key, value)
		}
	}
	if e.Kind == agent.EventOther && e.Metadata == nil {
		return // it is at work, and has nothing to say
	}
	f.Tell(e)
}

// follow hears what comes of the message, and answers questions, until the task is over.
func (f *follower) follow(talk context.Context, events iter.Seq2[a2a.Event, error]) (*agent.Result, error) {
	for {
		for e, err := range events {
			if err != nil {
				if f.Err() != nil {
					err = f.Err()
				}
				return nil, err
			}
			f.event(e)
		}
		s := f.task.Status
		switch {
		case f.Err() != nil:
			return nil, f.Err()
		case f.spoke:
			return &agent.Result{State: agent.Completed, ID: f.ID(), Session: f.task.ContextID}, nil
		case !s.State.Interrupted():
			return f.result(), nil
		}
		q := questionFrom(s)
		answer, why := f.Ask(q)
		switch {
		case errors.Is(why, agent.ErrLater):
			return &agent.Result{State: agent.Waiting, ID: f.task.ID, Session: f.task.ContextID, Question: q}, nil
		case why != nil:
			task, err := f.link.client.Cancel(talk, f.task.ID) // nobody will come back to it
			if !f.Gone() {
				return nil, fmt.Errorf("a2aagent: %w: %.200q", why, q.Text)
			}
			if err != nil {
				task, err = f.link.client.Task(talk, &a2a.GetTaskRequest{ID: f.task.ID})
			}
			if err != nil {
				return nil, err
			}
			f.task = *task
			return f.result(), nil
		}
		before := f.task
		events = f.link.send(talk, &a2a.SendRequest{Message: answerTo(answer, f.task.ID, f.task.ContextID)}, &before)
	}
}

// result reads how the task ended.
func (f *follower) result() *agent.Result {
	t := &f.task
	r := &agent.Result{ID: t.ID, Session: t.ContextID, Metadata: metadataOf(t.Metadata)}
	switch t.Status.State {
	case a2a.StateCompleted:
		r.State = agent.Completed
	case a2a.StateCanceled:
		r.State = agent.Cancelled
	case a2a.StateRejected:
		r.State = agent.Rejected
	default:
		r.State = agent.Failed
		if t.Status.State != a2a.StateFailed {
			r.Metadata = r.Metadata.With("a2a/state", string(t.Status.State))
		}
	}
	if m := t.Status.Message; m != nil && r.State != agent.Completed {
		r.Text = a2a.TextOf(m.Parts)
		for _, p := range m.Parts {
			var own agent.Result
			if p.Metadata.Get(agent.MetaResult, &own) {
				r.Metadata = r.Metadata.Merge(own.Metadata)
			}
		}
	}
	return r
}
