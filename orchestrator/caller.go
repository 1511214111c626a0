package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// A caller receives the events and questions of a remote run.
type caller struct {
	x      *run
	rep    *Report
	clk    *clock
	cancel context.CancelCauseFunc

	mu        sync.Mutex // guards the fields below
	size      int
	questions int
	remote    string
	open      string // a question that was not answered
	left      bool   // the step has ended
	cause     error  // why this side ended the step
}

func (c *caller) unanswered() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// endCall cancels the remote run with err as the reason, unless err is nil. It returns the remote
// run's ID and the first reason.
func (c *caller) endCall(err error) (remote string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil && err != nil {
		c.cause = err
		c.cancel(err)
	}
	return c.remote, c.cause
}

// leave marks the step as ended: later events and questions of the run are dropped.
func (c *caller) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
}

func (c *caller) hasLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// Tell implements [agent.Caller].
func (c *caller) Tell(ctx context.Context, e agent.Event) error {
	if c.hasLeft() {
		return agent.ErrCancelled
	}
	told := Event{Path: c.rep.Path, Member: c.rep.Member}
	switch e.Kind {
	case agent.EventStarted:
		c.mu.Lock()
		c.remote = e.ID
		c.mu.Unlock()
		return nil
	case agent.EventOutput:
		c.mu.Lock()
		for _, p := range e.Parts {
			c.size += len(p.Text) + len(p.JSON) + len(p.Data)*4/3
		}
		large := c.size > maxOutput
		c.mu.Unlock()
		if large {
			_, err := c.endCall(tooLarge())
			return err
		}
		told.Kind, told.Parts = EventOutput, e.Parts
	case agent.EventProgress:
		told.Kind, told.Progress = EventProgress, e.Progress
	default:
		return nil
	}
	return c.x.emit(ctx, told)
}

// Ask implements [agent.Caller].
func (c *caller) Ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	a, err := c.ask(ctx, q)
	if errors.Is(err, agent.ErrNoAnswer) || errors.Is(err, agent.ErrLater) {
		c.mu.Lock()
		c.open = q.Text
		c.mu.Unlock()
		err = agent.ErrNoAnswer // a step does not end before its agent does
	}
	return a, err
}

// ask puts the question to the user, after the questions of other branches, and pauses the clocks
// meanwhile.
func (c *caller) ask(ctx context.Context, q *agent.Question) (*agent.Answer, error) {
	x := c.x
	if x.r.Ask == nil || c.hasLeft() {
		return nil, agent.ErrNoAnswer
	}
	c.mu.Lock()
	c.questions++
	many := c.questions > maxQuestions
	c.mu.Unlock()
	if many {
		_, err := c.endCall(&StepError{Kind: KindQuestion, Text: fmt.Sprintf("it asks more than %d questions", maxQuestions)})
		return nil, err
	}
	// The time of an ask step includes the wait for the user; other steps' clocks are paused.
	own := c.rep.Kind == stepAsk
	c.clk.pause(own)
	defer c.clk.resume(own)
	select {
	case x.asking <- struct{}{}:
		defer func() { <-x.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := x.emit(ctx, Event{Kind: EventQuestion, Path: c.rep.Path, Member: c.rep.Member, Question: q}); err != nil {
		return nil, err
	}
	var a *agent.Answer
	err := rescue.Call(x.r.Report, func() (err error) {
		a, err = x.r.Ask(ctx, &Question{Run: x.id, Path: c.rep.Path, Member: c.rep.Member, Question: *q})
		return err
	})
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, agent.ErrNoAnswer
	}
	q.Settle(a)
	if err := x.emit(ctx, Event{Kind: EventAnswered, Path: c.rep.Path, Member: c.rep.Member, Answer: a}); err != nil {
		return nil, err
	}
	return a, nil
}
