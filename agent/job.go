package agent

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/bounded"
	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A Job is a run in the background. Its owner must call Close, or Wait until it returns the result.
type Job struct {
	cancel context.CancelCauseFunc
	events *bounded.Queue[Event]
	done   chan struct{} // closed when the run ends

	result *Result // set before done is closed
	err    error

	mu       sync.Mutex // guards the fields below
	question chan *Answer
}

// eventCost is about the memory of an event, in bytes.
func eventCost(e *Event) int {
	n := 1<<10 + partsCost(e.Parts) + metadataCost(e.Metadata)
	if e.Progress != nil {
		n += len(e.Progress.Message)
	}
	if q := e.Question; q != nil {
		n += len(q.Text) + len(q.Form) + partsCost(q.Parts) + metadataCost(q.Metadata)
		for i := range q.Options {
			n += 64 + len(q.Options[i].ID) + len(q.Options[i].Name)
		}
	}
	return n
}

func partsCost(parts []Part) (n int) {
	for i := range parts {
		p := &parts[i]
		n += 256 + len(p.Text) + len(p.Data) + len(p.URL) + len(p.JSON) + metadataCost(p.Metadata)
	}
	return n
}

func metadataCost(m Metadata) (n int) {
	for k, v := range m {
		n += 64 + len(k) + len(v)
	}
	return n
}

// ErrNotAsked is returned by [Job.Answer] if the run has no open question.
var ErrNotAsked = errors.New("agent: the run has asked nothing")

// These bound the buffered events; when the buffer is full, the run waits.
const (
	waitingEvents = 256
	waitingBytes  = 8 << 20
)

// Start runs a request on a new goroutine until it is done, ctx ends or the job is cancelled.
func (c *Client) Start(ctx context.Context, req *Request) *Job {
	ctx, cancel := context.WithCancelCause(ctx)
	j := &Job{cancel: cancel, events: bounded.New(waitingEvents, waitingBytes, eventCost), done: make(chan struct{})}
	go func() {
		defer cancel(nil)
		defer close(j.done)
		defer j.events.Close()
		j.err = rescue.Call(nil, func() (err error) { // of a Link
			j.result, err = c.Run(ctx, req, j)
			return err
		})
	}()
	return j
}

// Tell implements [Caller] for the run.
func (j *Job) Tell(ctx context.Context, e Event) error { return j.events.Send(ctx, e) }

// Ask implements [Caller] for the run.
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

// Events yields the events of the run in order. EventEnded is the last one, unless the outcome is
// unknown; Wait then returns the error. A run waits while 256 of its events, or 8 MiB of them, are
// not received. After stopping early, continue with Wait, Close or Events.
func (j *Job) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for i := range j.events.C {
			if !yield(j.events.Take(i)) {
				return
			}
		}
		if <-j.done; j.result != nil {
			yield(Event{Kind: EventEnded, Result: j.result})
		}
	}
}

// Answer answers the open question of the run. Without one it returns ErrNotAsked.
func (j *Job) Answer(a *Answer) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.question == nil {
		return ErrNotAsked
	}
	j.question <- a // buffer of one, empty here
	j.question = nil
	return nil
}

// Cancel requests that the agent stop. Wait returns the result.
func (j *Job) Cancel() { j.cancel(ErrCancelled) }

// Wait returns the result of the run, as [Client.Run] does. It drops events that were not received.
// If ctx ends first, the run continues.
func (j *Job) Wait(ctx context.Context) (*Result, error) {
	for {
		select {
		case i, more := <-j.events.C:
			if more {
				j.events.Take(i)
			} else {
				<-j.done
				return j.result, j.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Close cancels the run if it has not ended, and waits for its end, at most 10 s: a [Link] that
// ignores its context continues in the background.
func (j *Job) Close() {
	j.Cancel()
	late := time.NewTimer(LastWord + grace.Time)
	defer late.Stop()
	for {
		select {
		case i, more := <-j.events.C:
			if more {
				j.events.Take(i)
			} else {
				grace.Closed(j.done, grace.Time)
				return
			}
		case <-late.C:
			return
		}
	}
}
