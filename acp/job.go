package acp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// A Job is an agent's view of a run: its input, and the methods that send output. Its methods are
// safe for concurrent use. The output of each call is sent as a whole, and is stored before the
// call returns. After a cancel they return [ErrCancelled]; after the end of the run, [ErrOver].
type Job struct{ run *run }

// ID returns the id of the run.
func (j *Job) ID() string { return j.run.entry.id }

// SessionID returns the id of the session that the run belongs to.
func (j *Job) SessionID() string { return j.run.entry.session }

// Input returns the input of the run. It must not be modified.
func (j *Job) Input() []Message { return j.run.input }

// MaxPart returns the limit for one part in bytes, including its name, type and metadata. A larger
// part is ErrTooLarge.
func (j *Job) MaxPart() int { return j.run.s.opts.Limits.Part }

// Text returns the text of the whole input.
func (j *Job) Text() string {
	return textOf(j.run.input)
}

// History returns the messages of earlier runs in the session, oldest first. Messages that other
// servers store are fetched with Options.Fetch, if it is set.
func (j *Job) History(ctx context.Context) ([]Message, error) { return j.run.s.history(ctx, j.run) }

// Say appends text to the current message, and starts a message if necessary.
func (j *Job) Say(ctx context.Context, text string) error { return j.Emit(ctx, Text(text)) }

// Emit appends parts to the current message, and starts a message if necessary. A message is
// completed by [Job.End], [Job.Await] or another message, or when the agent returns without an
// error.
func (j *Job) Emit(ctx context.Context, parts ...MessagePart) error {
	return j.run.speak(ctx, func(*Run) ([]Event, error) {
		var events []Event
		if j.run.open == nil {
			j.run.open = &Message{Role: AgentRole(j.run.agent.Manifest.Name), CreatedAt: timestamp()}
			events = append(events, Event{Type: EventMessageCreated, Message: j.run.open})
		}
		more, err := j.run.addParts(parts)
		return append(events, more...), err
	})
}

// End completes the current message, if there is one, so that the next part starts another.
func (j *Job) End(ctx context.Context) error {
	return j.run.speak(ctx, func(next *Run) ([]Event, error) { return j.run.closeMessage(next), nil })
}

// Message sends a complete message. Its role is set to that of the agent.
func (j *Job) Message(ctx context.Context, m Message) error {
	return j.run.speak(ctx, func(next *Run) ([]Event, error) {
		if len(m.Parts) == 0 {
			return nil, errors.New("acp: a message must have at least one part")
		}
		events := j.run.closeMessage(next)
		if m.CreatedAt.IsZero() {
			m.CreatedAt = timestamp()
		}
		j.run.open = &Message{Role: AgentRole(j.run.agent.Manifest.Name), CreatedAt: m.CreatedAt, Extra: m.Extra}
		events = append(events, Event{Type: EventMessageCreated, Message: &Message{Role: j.run.open.Role, CreatedAt: m.CreatedAt}})
		more, err := j.run.addParts(m.Parts)
		return append(append(events, more...), j.run.closeMessage(next)...), err
	})
}

// Generic sends other data to the readers of the run, such as progress. v must encode to a JSON
// object. It is an event and not part of the output.
func (j *Job) Generic(ctx context.Context, v any) error {
	text, err := encodeValue(v)
	if err != nil {
		return fmt.Errorf("acp: generic event: %w", err)
	}
	if !isObject(text) {
		return fmt.Errorf("acp: a generic event must be a JSON object, not %.40s", text)
	}
	if len(text) > j.run.s.opts.Limits.Part {
		return ErrTooLarge
	}
	return j.run.speak(ctx, func(*Run) ([]Event, error) { return []Event{{Type: EventGeneric, Generic: text}}, nil })
}

// Await sends a question to the caller of the run, and waits for the answer for at most
// Options.AwaitTime. Meanwhile the status of the run is awaiting. A run awaits one answer at a
// time.
func (j *Job) Await(ctx context.Context, question Message) (Message, error) {
	question.Role = AgentRole(j.run.agent.Manifest.Name)
	if err := question.checkMessage(); err != nil {
		return Message{}, fmt.Errorf("acp: question: %w", err)
	}
	if question.CreatedAt.IsZero() {
		question.CreatedAt = timestamp()
	}
	question.CompletedAt = question.CreatedAt
	return j.run.askCaller(ctx, question)
}

// addParts appends to the current message. The caller must hold the turn.
func (r *run) addParts(parts []MessagePart) ([]Event, error) {
	var events []Event
	limits := &r.s.opts.Limits
	open := *r.open // a copy: if the store fails, the old message has no new parts
	for _, p := range parts {
		if err := p.checkPart(); err != nil {
			return nil, fmt.Errorf("acp: part: %w", err)
		}
		size := len(p.Name) + len(p.ContentType) + len(p.Content) + len(p.ContentURL) + 64
		if p.Metadata != nil || p.Extra != nil {
			text, err := encodeValue(p)
			if err != nil {
				return nil, fmt.Errorf("acp: part: %w", err)
			}
			size = len(text)
		}
		switch r.said += size; {
		case size > limits.Part:
			return nil, &sizeError{"The agent sent a part of more than " + strconv.Itoa(limits.Part) + " bytes."}
		case r.said > limits.Output:
			return nil, &sizeError{"The output of the agent exceeds the " + strconv.Itoa(limits.Output) + " bytes of a run."}
		}
		open.Parts = append(open.Parts, p)
		events = append(events, Event{Type: EventMessagePart, Part: &p})
	}
	r.open = &open
	return events, nil
}

// A sizeError is an [ErrTooLarge] that names the limit.
type sizeError struct{ text string }

func (e *sizeError) Error() string { return e.text }

func (e *sizeError) Unwrap() error { return ErrTooLarge }

// closeMessage completes the current message. The caller must hold the turn.
func (r *run) closeMessage(next *Run) []Event {
	if r.open == nil {
		return nil
	}
	m := *r.open
	r.open = nil
	if len(m.Parts) == 0 {
		return nil
	}
	m.CompletedAt = timestamp()
	next.Output = append(next.Output, m)
	return []Event{{Type: EventMessageCompleted, Message: &m}}
}
