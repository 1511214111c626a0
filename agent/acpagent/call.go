package acpagent

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
)

// Client returns an [agent.Client] that calls the agents of a server through c, over either
// binding. It owns c.
func Client(c *acp.Client) *agent.Client { return &agent.Client{Link: &link{c}} }

type link struct{ client *acp.Client }

func (l *link) Close() error { return l.client.Close() }

func (l *link) Agents(ctx context.Context) ([]agent.Card, error) {
	all, err := l.client.Agents(ctx)
	if err != nil {
		return nil, err
	}
	cards := make([]agent.Card, len(all))
	for i := range all {
		cards[i] = CardOf(&all[i])
	}
	return cards, nil
}

// Do starts a run or answers a waiting one, and follows it.
func (l *link) Do(ctx context.Context, req *agent.Request, c agent.Caller) (*agent.Result, error) {
	f := l.follower(ctx, c)
	talk, release := agent.Outlive(ctx, f.Stop)
	defer release()
	var run *acp.Run
	var err error
	if req.Run != "" {
		if req.Answer == nil {
			return nil, errors.New("acpagent: the waiting run needs an answer")
		}
		f.Started(req.Run, "")
		run, err = l.client.ResumeStream(talk, req.Run, answerTo(req.Answer), f.event)
	} else {
		q := acp.RunCreateRequest{AgentName: req.Agent, SessionID: req.Session}
		for _, m := range req.Input {
			q.Input = append(q.Input, messageTo(m))
		}
		if req.Metadata != nil && len(q.Input) > 0 {
			q.Input[0].Extra = with(q.Input[0].Extra, agent.MetaRequest, text(req.Metadata))
		}
		run, err = l.client.Stream(talk, q, f.event)
	}
	return f.follow(talk, run, err)
}

// Attach follows a run from its beginning.
func (l *link) Attach(ctx context.Context, id string, c agent.Caller) (*agent.Result, error) {
	f := l.follower(ctx, c)
	run, err := l.client.Subscribe(ctx, id, 0, f.event)
	return f.follow(ctx, run, err)
}

// A follower tracks one run for its caller.
type follower struct {
	*agent.Remote
	link *link

	messages int // the number of started messages
	parts    int // the number of parts of the current message
}

// follower returns the follower of a run whose caller is c.
func (l *link) follower(ctx context.Context, c agent.Caller) *follower {
	return &follower{link: l, Remote: agent.NewRemote(ctx, c, func(ctx context.Context, id string) {
		_, _ = l.client.Cancel(ctx, id) // it may have ended
	})}
}

// message returns the name of the current message; the first one has no name.
func (f *follower) message() string {
	if f.messages <= 1 {
		return ""
	}
	return strconv.Itoa(f.messages)
}

// event handles one event of the run.
func (f *follower) event(e acp.Event) error {
	switch e.Type {
	case acp.EventRunCreated, acp.EventRunInProgress:
		if e.Run != nil {
			f.Started(e.Run.ID, e.Run.SessionID)
		}
	case acp.EventMessageCreated:
		f.messages++
		f.parts = 0
		if e.Message != nil && len(e.Message.Parts) > 0 { // a whole message
			f.parts = len(e.Message.Parts)
			f.Tell(agent.Event{Kind: agent.EventOutput, Message: f.message(), Parts: partsFrom(e.Message.Parts)})
		}
	case acp.EventMessagePart:
		if e.Part != nil {
			f.parts++
			f.Tell(agent.Event{Kind: agent.EventOutput, Message: f.message(), Parts: []agent.Part{partFrom(*e.Part)}})
		}
	case acp.EventMessageCompleted:
		if f.parts == 0 && e.Message != nil && len(e.Message.Parts) > 0 { // sent in one piece
			f.Tell(agent.Event{Kind: agent.EventOutput, Message: f.message(), Parts: partsFrom(e.Message.Parts)})
		}
	case acp.EventGeneric:
		f.Tell(genericFrom(e))
	case acp.EventRunAwaiting, acp.EventRunCompleted, acp.EventRunFailed, acp.EventRunCancelled:
	default:
		f.Tell(agent.Event{Kind: agent.EventOther, Metadata: agent.Metadata{}.With("acp/event", e)})
	}
	return nil
}

// genericFrom converts a generic event.
func genericFrom(e acp.Event) agent.Event {
	var p progress
	if e.Generic.Decode(&p) == nil && p.Type == "progress" {
		return agent.Event{Kind: agent.EventProgress, Progress: &p.Progress, Metadata: p.Metadata}
	}
	var own map[string]agent.Metadata
	if e.Generic.Decode(&own) == nil && len(own) == 1 && own[agent.MetaEvent] != nil {
		return agent.Event{Kind: agent.EventOther, Metadata: own[agent.MetaEvent]}
	}
	return agent.Event{Kind: agent.EventOther, Metadata: agent.Metadata{metaGeneric: e.Generic.Clone()}}
}

// follow answers the questions of a run until it has ended.
func (f *follower) follow(talk context.Context, run *acp.Run, err error) (*agent.Result, error) {
	for {
		switch {
		case f.Err() != nil:
			return nil, f.Err()
		case err != nil:
			return nil, err
		}
		f.Started(run.ID, run.SessionID)
		if run.Status != acp.RunAwaiting {
			return resultOf(run), nil
		}
		q := questionFrom(run.AwaitRequest)
		answer, why := f.Ask(q)
		switch {
		case errors.Is(why, agent.ErrLater):
			return &agent.Result{State: agent.Waiting, ID: run.ID, Session: run.SessionID, Question: q}, nil
		case why != nil:
			if !f.Gone() {
				_, _ = f.link.client.Cancel(talk, run.ID) // the run will not be continued
				return nil, fmt.Errorf("acpagent: %w: %.200q", why, q.Text)
			}
			// Wait for the end of the cancelled run.
			run, err = f.link.client.Subscribe(talk, run.ID, -1, f.event)
			continue
		}
		run, err = f.link.client.ResumeStream(talk, run.ID, answerTo(answer), f.event)
	}
}

// resultOf converts the end of a run.
func resultOf(run *acp.Run) *agent.Result {
	r := &agent.Result{ID: run.ID, Session: run.SessionID}
	switch run.Status {
	case acp.RunCompleted:
		r.State = agent.Completed
	case acp.RunCancelled, acp.RunCancelling:
		r.State = agent.Cancelled
	default:
		r.State = agent.Failed
		if run.Status != acp.RunFailed {
			r.Metadata = r.Metadata.With("acp/status", run.Status)
		}
	}
	if e := run.Error; e != nil {
		r.Text = e.Message
		var data map[string]agent.Result
		if e.Data != nil && e.Data.Decode(&data) == nil && data[agent.MetaResult].State != "" {
			r.State, r.Metadata = data[agent.MetaResult].State, data[agent.MetaResult].Metadata
		} else if e.Data != nil || e.Code != acp.CodeServerError {
			r.Metadata = r.Metadata.With("acp/error", e)
		}
	}
	r.Metadata = r.Metadata.Merge(fromExtra(run.Extra, ""))
	return r
}
