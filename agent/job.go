package agent

import (
	"context"
	"errors"
	"iter"
	"sync"
)

// A Job is a run that goes on while its caller does something else. Whoever starts one calls Close, or Wait to its end.
type Job struct {
	cancel context.CancelCauseFunc
	events chan Event
	done   chan struct{} // closed at the end

	result *Result // settled when done is closed
	err    error

	mu       sync.Mutex // guards what follows
	question chan *Answer
}

// ErrNotAsked says that a run has asked nothing.
var ErrNotAsked = errors.New("agent: the run has asked nothing")

// waitingEvents is how many events wait for whoever takes them; then the run waits.
const waitingEvents = 256

// Start has a request done on a goroutine of its own, until ctx ends, the job is cancelled or it is done.
func (c *Client) Start(ctx context.Context, req *Request) *Job {
	ctx, cancel := context.WithCancelCause(ctx)
	j := &Job{cancel: cancel, events: make(chan Event, waitingEvents), done: make(chan struct{})}
	go func() {
		defer cancel(nil)
		defer close(j.done)
		defer close(j.events)
		j.result, j.err = c.Run(ctx, req, j)
	}()
	return j
}

// Tell implements [Caller], for the run.
func (j *Job) Tell(ctx context.Context, e Event) error {
	select {
	case j.events <- e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ask implements [Caller], for the run.
func (j *Job) Ask(ctx context.Context, q *Question) (*Answer, error) {
	answer := make(chan *Answer, 1)
	j.mu.Lock()
	j.question = answer
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		j.question = nil
		j.mu.Unlock()
	}()
	if err := j.Tell(ctx, Event{Kind: EventQuestion, Question: q}); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Events yields what the run tells, one after the other, and EventEnded last, unless nobody knows how the run ended: Wait says why. A run whose
// events nobody takes waits after 256 of them. Whoever stops early goes on with Wait, Close or Events.
func (j *Job) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for e := range j.events {
			if !yield(e) {
				return
			}
		}
		if <-j.done; j.result != nil {
			yield(Event{Kind: EventEnded, Result: j.result})
		}
	}
}

// Answer answers the question that the run has asked, and returns ErrNotAsked if there is none.
func (j *Job) Answer(a *Answer) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.question == nil {
		return ErrNotAsked
	}
	j.question <- a // holds one, and is empty
	j.question = nil
	return nil
}

// Cancel asks the agent to stop. The end comes through Wait.
func (j *Job) Cancel() { j.cancel(ErrCancelled) }

// Wait returns how the run ended, as [Client.Run] does. It drops the events that nobody has taken. When ctx ends first, the run goes on.
func (j *Job) Wait(ctx context.Context) (*Result, error) {
	for {
		select {
		case _, more := <-j.events:
			if !more {
				<-j.done
				return j.result, j.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Close cancels the run, if it is not over, and waits for its end.
func (j *Job) Close() {
	j.Cancel()
	for range j.events { //nolint:revive // nobody wants them any more
	}
	<-j.done
}
