package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/da1ed7bb/parley/agent"
)

// A caller is who a run elsewhere talks to.
type caller struct {
	x      *run
	rep    *Report
	clk    *clock
	cancel context.CancelCauseFunc

	mu        sync.Mutex // guards what follows
	size      int
	questions int
	remote    string
	open      string // a question that nobody answered
	left      bool   // the step has ended
	cause     error  // why this side ended it
}

func (c *caller) unanswered() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// end cancels the run elsewhere for a reason of this side's, unless it is nil; and returns what the run is called there, and the
// first reason.
func (c *caller) end(err error) (remote string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil && err != nil {
		c.cause = err
		c.cancel(err)
	}
	return c.remote, c.cause
}

// leave says that the step has ended: nothing of it is told or asked any more.
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
			_, err := c.end(tooLarge())
			return err
		}
		told.Kind, told.Parts = EventOutput, e.Parts
	case agent.EventProgress:
		told.Kind, told.Progress = EventProgress, e.Progress
	default:
		return nil
	}
	return c.x.tell(ctx, told)
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

// ask puts the question to the person, after those of other branches, and stops the clocks meanwhile.
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
		_, err := c.end(&StepError{Kind: KindQuestion, Text: fmt.Sprintf("it asks more than %d questions", maxQuestions)})
		return nil, err
	}
	c.clk.pause()
	defer c.clk.resume()
	select {
	case x.asking <- struct{}{}:
		defer func() { <-x.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := x.tell(ctx, Event{Kind: EventQuestion, Path: c.rep.Path, Member: c.rep.Member, Question: q}); err != nil {
		return nil, err
	}
	a, err := x.r.Ask(ctx, &Question{Run: x.id, Path: c.rep.Path, Member: c.rep.Member, Question: *q})
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, agent.ErrNoAnswer
	}
	q.Settle(a)
	if err := x.tell(ctx, Event{Kind: EventAnswered, Path: c.rep.Path, Member: c.rep.Member, Answer: a}); err != nil {
		return nil, err
	}
	return a, nil
}
