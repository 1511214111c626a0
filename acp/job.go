package acp

import (
	"context"
	"errors"
	"fmt"
)

// A Job is a run as its agent sees it: what was asked, and the way to answer. Its methods may be called from several goroutines; what each of
// them says goes out whole, and is kept before they return. After a cancel they return [ErrCancelled], after the end of
// the run [ErrOver].
type Job struct{ run *run }

// ID is the id of the run.
func (j *Job) ID() string { return j.run.entry.id }

// SessionID is the id of the session that the run belongs to.
func (j *Job) SessionID() string { return j.run.entry.session }

// Input is what the agent is asked. It is not to be changed.
func (j *Job) Input() []Message { return j.run.input }

// Text is the text of the whole input.
func (j *Job) Text() string {
	text := ""
	for _, m := range j.run.input {
		text += m.Text()
	}
	return text
}

// History returns the messages of earlier runs in the session, oldest first. Those that other servers keep are fetched, if Options.Fetch
// says how.
func (j *Job) History(ctx context.Context) ([]Message, error) { return j.run.s.history(ctx, j.run) }

// Say adds text to the message that is being written, and begins one if there is none.
func (j *Job) Say(ctx context.Context, text string) error { return j.Emit(ctx, Text(text)) }

// Emit adds parts to the message that is being written, and begins one if there is none. A message is over with [Job.End], with
// [Job.Await] or another message, or when the agent returns without an error.
func (j *Job) Emit(ctx context.Context, parts ...MessagePart) error {
	return j.run.speak(ctx, func(*Run) ([]Event, error) {
		var events []Event
		if j.run.open == nil {
			j.run.open = &Message{Role: AgentRole(j.run.agent.Manifest.Name), CreatedAt: now()}
			events = append(events, Event{Type: EventMessageCreated, Message: j.run.open})
		}
		more, err := j.run.addParts(parts)
		return append(events, more...), err
	})
}

// End ends the message that is being written, if there is one, so that the next part begins another.
func (j *Job) End(ctx context.Context) error {
	return j.run.speak(ctx, func(next *Run) ([]Event, error) { return j.run.closeMessage(next), nil })
}

// Message says a whole message. Its role becomes that of the agent.
func (j *Job) Message(ctx context.Context, m Message) error {
	return j.run.speak(ctx, func(next *Run) ([]Event, error) {
		if len(m.Parts) == 0 {
			return nil, errors.New("acp: a message has at least one part")
		}
		events := j.run.closeMessage(next)
		if m.CreatedAt.IsZero() {
			m.CreatedAt = now()
		}
		j.run.open = &Message{Role: AgentRole(j.run.agent.Manifest.Name), CreatedAt: m.CreatedAt, Extra: m.Extra}
		events = append(events, Event{Type: EventMessageCreated, Message: &Message{Role: j.run.open.Role, CreatedAt: m.CreatedAt}})
		more, err := j.run.addParts(m.Parts)
		return append(append(events, more...), j.run.closeMessage(next)...), err
	})
}

// Generic tells whoever listens something else, such as progress. v must be an object in JSON. It is an event, no output.
func (j *Job) Generic(ctx context.Context, v any) error {
	text, err := encode(v)
	if err != nil {
		return fmt.Errorf("acp: generic event: %w", err)
	}
	if !isObject(text) {
		return errors.New("acp: a generic event is an object")
	}
	if len(text) > j.run.s.opts.Limits.Part {
		return ErrTooLarge
	}
	return j.run.speak(ctx, func(*Run) ([]Event, error) { return []Event{{Type: EventGeneric, Generic: text}}, nil })
}

// Await asks whoever started the run, and waits for the answer, however long that takes: Options.AwaitTime at most. Meanwhile the run
// is awaiting. A run awaits one answer at a time.
func (j *Job) Await(ctx context.Context, question Message) (Message, error) {
	question.Role = AgentRole(j.run.agent.Manifest.Name)
	if err := question.check(); err != nil {
		return Message{}, fmt.Errorf("acp: question: %w", err)
	}
	if question.CreatedAt.IsZero() {
		question.CreatedAt = now()
	}
	question.CompletedAt = question.CreatedAt
	return j.run.ask(ctx, question)
}

// addParts adds to the message that is being written. It needs the turn.
func (r *run) addParts(parts []MessagePart) ([]Event, error) {
	var events []Event
	limits := &r.s.opts.Limits
	open := *r.open // its parts grow in place; the old one sees no more than its own, should the store refuse
	for _, p := range parts {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("acp: part: %w", err)
		}
		size := len(p.Name) + len(p.ContentType) + len(p.Content) + len(p.ContentURL) + 64
		if p.Metadata != nil || p.Extra != nil {
			text, err := encode(p)
			if err != nil {
				return nil, fmt.Errorf("acp: part: %w", err)
			}
			size = len(text)
		}
		if r.said += size; size > limits.Part || r.said > limits.Output {
			return nil, ErrTooLarge
		}
		open.Parts = append(open.Parts, p)
		events = append(events, Event{Type: EventMessagePart, Part: &p})
	}
	r.open = &open
	return events, nil
}

// closeMessage ends the message that is being written. It needs the turn.
func (r *run) closeMessage(next *Run) []Event {
	if r.open == nil {
		return nil
	}
	m := *r.open
	r.open = nil
	if len(m.Parts) == 0 {
		return nil
	}
	m.CompletedAt = now()
	next.Output = append(next.Output, m)
	return []Event{{Type: EventMessageCompleted, Message: &m}}
}
