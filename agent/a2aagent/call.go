package a2aagent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
)

// Client returns an [agent.Client] that calls an agent through c, which it owns. card is the
// agent's card. If nil, the card is requested from the agent if the transport supports that; over
// HTTP it does with [a2ahttp.Dial].
func Client(c *a2a.Client, card *a2a.AgentCard) *agent.Client {
	return &agent.Client{Link: &link{client: c, card: card}}
}

type link struct {
	client *a2a.Client

	mu   sync.Mutex // guards the fields below
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

// Agents returns the card of the only agent.
func (l *link) Agents(ctx context.Context) ([]agent.Card, error) {
	card, err := l.about(ctx)
	if err != nil {
		return nil, err
	}
	return []agent.Card{CardOf(card)}, nil
}

// Do sends a message and follows the resulting task. The agent's name is ignored because there is
// only one agent.
func (l *link) Do(ctx context.Context, req *agent.Request, c agent.Caller) (*agent.Result, error) {
	f := l.follower(ctx, c)
	talk, release := agent.Outlive(ctx, f.Stop)
	defer release()
	send := &a2a.SendRequest{Message: inputTo(req.Input), Metadata: a2a.Metadata(req.Metadata)}
	send.Message.ContextID = req.Session
	var before *a2a.Task
	if req.Run != "" {
		if req.Answer == nil {
			return nil, errors.New("a2aagent: the waiting task needs an answer")
		}
		task, err := l.client.Task(ctx, &a2a.GetTaskRequest{ID: req.Run})
		if err != nil {
			return nil, err
		}
		for _, a := range task.Artifacts { // they were already sent to the first caller
			f.count(a.ArtifactID, len(a.Parts))
		}
		send.Message, before = answerTo(req.Answer, req.Run, task.ContextID), task
	}
	return f.follow(talk, l.send(talk, send, before))
}

// Attach follows a task, from its beginning as far as its artifacts contain it.
func (l *link) Attach(ctx context.Context, id string, c agent.Caller) (*agent.Result, error) {
	f := l.follower(ctx, c)
	if task, err := l.client.Task(ctx, &a2a.GetTaskRequest{ID: id}); err != nil {
		return nil, err
	} else if task.Status.State.Terminal() { // it cannot be subscribed to
		return f.follow(ctx, func(yield func(a2a.Event, error) bool) { yield(a2a.Event{Task: task}, nil) })
	}
	return f.follow(ctx, l.client.Subscribe(ctx, id, 0))
}

// send streams if the agent supports streaming; otherwise it waits for the end. If a stream is
// refused (-32004), it falls back to waiting. before is the previous state of the task that the
// message belongs to, or nil; with it, a message that was accepted despite the refusal is not sent
// twice.
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

// sendWhole sends a message whose stream was refused, and waits for the end. Servers built with
// @a2a-js/sdk refuse the stream of an answer after the agent has received it, if their agent does
// not publish the task first.
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

// A follower tracks one task for its caller.
type follower struct {
	*agent.Remote
	link *link

	task a2a.Task // without its artifacts and history, which the caller receives
	// told counts the parts seen of each artifact. Parts of a task that is sent again are not new.
	told  map[string]int
	holds int   // the weight of told and of the metadata of task
	full  error // set when it is over mostFollowed
	spoke bool  // the agent sent a message instead of a task
}

// mostFollowed bounds what is stored of a task while it is followed: the IDs of its artifacts and
// its metadata, in bytes, with followedWeight for each. Beyond it the task is cancelled.
const (
	mostFollowed   = 16 << 20
	followedWeight = 1 << 10
)

// hold counts bytes that are stored until the task has ended.
func (f *follower) hold(bytes int) {
	f.holds += followedWeight + bytes
	if f.holds > mostFollowed && f.full == nil {
		f.full = fmt.Errorf("a2aagent: the IDs of its artifacts and its metadata are over %d MiB: %w", mostFollowed>>20, agent.ErrTooLarge)
	}
}

// store adds metadata to that of the task, which is part of the result.
func (f *follower) store(m a2a.Metadata) {
	for key, value := range m {
		f.hold(len(key) + len(value))
		if f.task.Metadata == nil {
			f.task.Metadata = make(a2a.Metadata)
		}
		f.task.Metadata[key] = value
	}
}

// count counts parts of an artifact that were passed to the caller.
func (f *follower) count(id string, n int) {
	if _, ok := f.told[id]; !ok {
		f.hold(len(id))
	}
	f.told[id] += n
}

// follower returns the follower of a task whose caller is c.
func (l *link) follower(ctx context.Context, c agent.Caller) *follower {
	return &follower{link: l, told: map[string]int{}, Remote: agent.NewRemote(ctx, c, func(ctx context.Context, id string) {
		_, _ = l.client.Cancel(ctx, id) // it may have ended
	})}
}

// started sets the IDs of the task.
func (f *follower) started(id, session string) {
	if f.task.ID == "" {
		f.task.ID, f.task.ContextID = id, session
	}
	f.Started(id, session)
}

// event handles one event of the response.
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
		f.task.Artifacts, f.task.History, f.task.Metadata = nil, nil, nil
		f.store(e.Task.Metadata)
		for i := range e.Task.Artifacts {
			a := &e.Task.Artifacts[i]
			if parts := a.Parts[min(f.told[a.ArtifactID], len(a.Parts)):]; len(parts) > 0 {
				f.artifact(a, parts, nil)
			}
		}
		f.status(e.Task.Status, nil)
	case e.Artifact != nil:
		f.started(e.Artifact.TaskID, e.Artifact.ContextID)
		a := &e.Artifact.Artifact
		m := metadataOf(e.Artifact.Metadata)
		if e.Artifact.Ends() {
			a.Parts = nil // empty texts, which are not part of the artifact
		}
		if !e.Artifact.Append && f.told[a.ArtifactID] > 0 {
			m = m.With("a2a/replaces", a.ArtifactID)
			f.told[a.ArtifactID] = 0
		}
		f.artifact(a, a.Parts, m)
	case e.Status != nil:
		f.started(e.Status.TaskID, e.Status.ContextID)
		f.task.Status = e.Status.Status
		f.store(e.Status.Metadata)
		f.status(e.Status.Status, e.Status.Metadata)
	}
}

// artifact passes new parts of an artifact, and its metadata, to the caller. The metadata of a
// chunk without parts is an event of its own.
func (f *follower) artifact(a *a2a.Artifact, parts []a2a.Part, m agent.Metadata) {
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
	first := f.told[a.ArtifactID] == 0
	if rest := without(a.Metadata, agent.MetaEvent); rest != nil || first && (a.Description != "" || a.Extensions != nil) {
		about := *a
		about.Parts, about.Metadata = []a2a.Part{}, rest
		out.Metadata = out.Metadata.With("a2a/artifact", about)
	}
	f.count(a.ArtifactID, len(parts))
	if len(parts) == 0 {
		if out.Metadata == nil {
			return
		}
		out.Kind, out.Parts = agent.EventOther, nil
	}
	f.Tell(out)
}

// status passes a status to the caller. The end of the task and questions are handled later.
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
	rest := make(agent.Metadata, len(about))
	for key, value := range about {
		var own agent.Metadata
		switch {
		case key == agent.MetaProgress:
		case key == agent.MetaEvent && value.Decode(&own) == nil:
			e.Metadata = e.Metadata.Merge(own)
		default:
			rest[key] = value
		}
	}
	e.Metadata = e.Metadata.Merge(rest)
	if e.Kind == agent.EventOther && e.Metadata == nil {
		return // it is working and has no message
	}
	f.Tell(e)
}

// follow handles the events of the response and answers questions until the task has ended.
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
			if f.full != nil {
				f.Stop(talk)
				return nil, f.full
			}
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
			task, err := f.link.client.Cancel(talk, f.task.ID) // the task will not be continued
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

// result converts the end of the task.
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
		rest := agent.Metadata{}
		for _, p := range m.Parts {
			var own agent.Result
			if p.Metadata.Get(agent.MetaResult, &own) {
				maps.Copy(rest, own.Metadata)
			}
		}
		r.Metadata = r.Metadata.Merge(rest)
	}
	return r
}
